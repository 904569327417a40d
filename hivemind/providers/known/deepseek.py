"""DeepSeek."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="deepseek",
    hosts=("api.deepseek.com",),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="^insufficient balance",
            status=402,
            example=(
                '{"error":{"message":"Insufficient '
                'Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}'
            ),
            source="https://api-docs.deepseek.com/quick_start/error_codes",
            seen="2026-06",
        ),
    ),
)
