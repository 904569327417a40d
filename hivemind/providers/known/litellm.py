"""LiteLLM's proxy."""

from hivemind.providers.table import Counts, Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="litellm",
    headers=("x-litellm-",),
    errors=r"litellm",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            code="budget_exceeded",
            example=(
                '{"error":{"message":"LiteLLM User: eng-1, exceeded budget for '
                'model=claude-opus-4-8","type":"budget_exceeded","param":null,"code":"429"}}'
            ),
            source="https://docs.litellm.ai/docs/proxy/users",
            seen="2026-08",
        ),
        Refusal(
            meaning=Meaning.THROTTLED,
            text="no deployments available|max_parallel_requests",
            example=(
                '{"error":{"message":"litellm.RateLimitError: No deployments available for selected model, Try '
                "again in 5 seconds. Passed model=x. Deployment has all max_parallel_requests slots in "
                'use","type":"None","param":"None","code":"429"}}'
            ),
            source="LiteLLM 1.108.7, run",
            seen="2026-11",
        ),
    ),
    counts=(
        Counts(
            cached="cache_read_input_tokens",
            written="cache_creation_tokens",
            example=(
                '{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,'
                '"prompt_tokens_details":{"cached_tokens":60,"cache_creation_tokens":10},'
                '"cache_read_input_tokens":60,"cache_creation_input_tokens":10}}'
            ),
            counted=(30, 60, 10, 20),
            source="https://docs.litellm.ai/docs/completion/prompt_caching",
            seen="2026-11",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-ratelimit-model_per_key-limit-requests", "120"),
                ("x-ratelimit-model_per_key-remaining-requests", "12"),
                ("x-ratelimit-limit-tokens", "40000"),
                ("x-ratelimit-remaining-tokens", "345"),
                ("llm_provider-x-ratelimit-limit-requests", "500"),
                ("llm_provider-x-ratelimit-remaining-requests", "400"),
            ),
            says=(("requests", 120, 12), ("tokens", 40000, 345)),
            used=(),
            source="https://docs.litellm.ai/docs/proxy/response_headers",
            seen="2026-10",
        ),
    ),
)
