"""DeepSeek."""

from hivemind.providers.table import Counts, Failing, Meaning, Provider, Refusal

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
    failing=(
        Failing(
            example=(
                'data: {"id":"c","choices":[{"index":0,"delta":{"content":""},'
                '"finish_reason":"insufficient_system_resource"}]}'
            ),
            status=529,
            source="https://api-docs.deepseek.com/api/create-chat-completion",
            seen="2026-09",
        ),
        Failing(
            example="\n\n\n",
            stream=False,
            status=None,
            source="https://api-docs.deepseek.com/quick_start/rate_limit",
            seen="2026-09",
        ),
    ),
    counts=(
        Counts(
            cached="prompt_cache_hit_tokens",
            example=(
                '{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,'
                '"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}}'
            ),
            counted=(36, 64, 0, 20),
            source="https://api-docs.deepseek.com/guides/kv_cache",
            seen="2026-09",
        ),
    ),
)
