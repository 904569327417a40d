"""LiteLLM's proxy."""

from hivemind.providers.table import Meaning, Provider, Refusal

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
)
