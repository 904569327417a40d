"""OpenRouter."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="openrouter",
    hosts=("openrouter.ai",),
    errors=r"free-models-per-|openrouter",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="free-models-per-day",
            example=(
                '{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 '
                "free model requests per "
                'day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0"}}}}'
            ),
            source="https://openrouter.ai/docs/api-reference/limits",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="free-models-per-min",
            example='{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429}}',
            source="https://openrouter.ai/docs/api-reference/limits",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.USED_UP,
            text="key limit exceeded",
            status=403,
            example=(
                '{"error":{"message":"Key limit exceeded (total limit). Manage it using '
                'https://openrouter.ai/settings/keys","code":403}}'
            ),
            source="https://openrouter.ai/docs/api-reference/errors",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="temporarily rate-limited upstream",
            example=(
                '{"error":{"message":"Provider returned '
                'error","code":429,"metadata":{"raw":"qwen/qwen3-coder:free is temporarily rate-limited '
                'upstream. Please retry shortly, or add your own key to accumulate your rate limits"}}}'
            ),
            source="https://github.com/cline/cline/issues",
            seen="2026-03",
        ),
    ),
)
