"""Mistral."""

from hivemind.providers.table import Counts, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="mistral",
    hosts=(
        "api.mistral.ai",
        "codestral.mistral.ai",
    ),
    headers=(
        "x-ratelimit-limit-req-",
        "mistral-",
    ),
    errors=r"\"raw_status_code\"",
    refusals=(
        Refusal(
            meaning=Meaning.FULL,
            text="service tier capacity exceeded",
            example=(
                '{"object":"error","message":"Service tier capacity exceeded for this '
                'model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}'
            ),
            source="https://github.com/mistralai/client-python/issues",
            seen="2026-05",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            code="rate_limited",
            example=(
                '{"object":"error","message":"Rate limit '
                'exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}'
            ),
            source="https://docs.mistral.ai/deployment/laplateforme/tier/",
            seen="2026-06",
        ),
    ),
    counts=(
        Counts(
            cached="num_cached_tokens",
            example=(
                '{"id":"c","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{'
                '"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"num_cached_tokens":48}}'
            ),
            counted=(52, 48, 0, 20),
            source="https://docs.mistral.ai/api/",
            seen="2026-10",
        ),
    ),
)
