"""Amazon Bedrock."""

from hivemind.providers.table import Counts, Meaning, Path, Provider, Refusal

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
    counts=(
        Counts(
            input="inputTokens",
            output="outputTokens",
            cached="cacheReadInputTokens",
            written="cacheWriteInputTokens",
            apart=True,
            example=(
                '{"output":{"message":{"role":"assistant","content":[{"text":"a"}]}},"stopReason":"end_turn",'
                '"usage":{"inputTokens":30,"outputTokens":20,"totalTokens":120,"cacheReadInputTokens":60,'
                '"cacheWriteInputTokens":10},"metrics":{"latencyMs":1175}}'
            ),
            dialect="plain",
            stream=False,
            counted=(30, 60, 10, 20),
            source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html",
            seen="2026-09",
        ),
        Counts(
            input="inputTokenCount",
            output="outputTokenCount",
            cached="cacheReadInputTokenCount",
            written="cacheWriteInputTokenCount",
            apart=True,
            example=(
                '{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":30,'
                '"outputTokenCount":20,"invocationLatency":1175,"firstByteLatency":300,'
                '"cacheReadInputTokenCount":60,"cacheWriteInputTokenCount":10}}'
            ),
            dialect="plain",
            counted=(30, 60, 10, 20),
            source="https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html",
            seen="2026-06",
        ),
    ),
    paths=(
        Path(
            path=r"/model/(?P<model>.+)/(?:invoke|converse)",
            dialect="bedrock",
            stream=False,
            example="/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke",
            model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html",
            seen="2026-09",
        ),
        Path(
            path=r"/model/(?P<model>.+)/(?:invoke-with-response-stream|converse-stream)",
            dialect="bedrock",
            stream=True,
            example="/model/amazon.nova-pro-v1:0/converse-stream",
            model="amazon.nova-pro-v1:0",
            source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html",
            seen="2026-09",
        ),
        Path(
            path=r"^/model/[^/]+/count-tokens",
            example="/model/anthropic.claude-sonnet-4-20250514-v1:0/count-tokens",
            source="https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html",
            seen="2026-09",
        ),
    ),
)
