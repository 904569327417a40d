"""Amazon Bedrock."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="bedrock",
    hosts=(".amazonaws.com",),
    headers=("x-amzn-",),
    refusals=(
        Refusal(
            meaning=Meaning.THROTTLED,
            text="^too many requests, please wait before",
            example='{"message":"Too many requests, please wait before trying again."}',
            source="https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="too many tokens per day",
            example='{"message":"Too many tokens per day, please wait before trying again."}',
            source='https://repost.aws, "Too many tokens per day"',
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.FULL,
            code="modelnotreadyexception",
            example=(
                '{"__type":"ModelNotReadyException","message":"The model is not ready to serve inference requests."}'
            ),
            source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html",
            seen="2026-06",
        ),
    ),
)
