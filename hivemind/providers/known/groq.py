"""Groq."""

from hivemind.providers.table import Counts, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="groq",
    hosts=("api.groq.com",),
    headers=("x-groq-",),
    errors=r"console\.groq\.com",
    refusals=(
        Refusal(
            meaning=Meaning.THROTTLED,
            text="rate limit reached for model .* on (?:tokens|requests) per minute .*Used [1-9]",
            example=(
                '{"error":{"message":"Rate limit reached for model `llama-3.3-70b-versatile` in organization '
                "`org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Used 5900, Requested "
                "900. Please try again in 8.1s. Need more tokens? Upgrade to Dev Tier today at "
                'https://console.groq.com/settings/billing","type":"tokens","code":"rate_limit_exceeded"}}'
            ),
            source="https://console.groq.com/docs/rate-limits",
            seen="2026-06",
        ),
        Refusal(
            meaning=Meaning.FULL,
            code="capacity_exceeded",
            status=498,
            example='{"error":{"message":"Flex tier capacity exceeded. Try again later.","code":"capacity_exceeded"}}',
            source="https://console.groq.com/docs/errors, https://console.groq.com/docs/flex-processing",
            seen="2026-08",
        ),
        Refusal(
            meaning=Meaning.TOO_LARGE,
            text="request too large for",
            status=413,
            example=(
                '{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, '
                "Requested 9000, please reduce your message size and try "
                'again.","type":"tokens","code":"rate_limit_exceeded"}}'
            ),
            source='https://community.groq.com, "Request too large"',
            seen="2026-04",
        ),
    ),
    counts=(
        Counts(
            example=(
                '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{'
                '"queue_time":0.1,"prompt_tokens":100,"prompt_time":0.2,"completion_tokens":20,'
                '"total_tokens":120}}}'
            ),
            counted=(100, 0, 0, 20),
            source="https://console.groq.com/docs/api-reference",
            seen="2026-09",
        ),
    ),
)
