"""Fireworks."""

from hivemind.providers.table import Limit, Meaning, Provider, Refusal

PROVIDER = Provider(
    name="fireworks",
    hosts=("api.fireworks.ai",),
    headers=("fireworks-",),
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="account .* is suspended",
            status=412,
            example=(
                '{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending '
                "limit or failure to pay past invoices. Please go to https://fireworks.ai/account/billing for "
                'more information."}}'
            ),
            source="https://docs.fireworks.ai/guides/inference-error-codes",
            seen="2026-06",
        ),
    ),
    limits=(
        Limit(
            example=(
                ("x-ratelimit-limit-tokens-prompt", "3600000"),
                ("x-ratelimit-remaining-tokens-prompt", "3599000"),
                ("x-ratelimit-limit-tokens-generated", "36000"),
                ("x-ratelimit-remaining-tokens-generated", "35000"),
                ("x-ratelimit-limit-tokens-cache-adjusted-prompt", "900000"),
            ),
            says=(("input", 3600000, 3599000), ("output", 36000, 35000)),
            used=(),
            source="https://docs.fireworks.ai/serverless/rate-limits",
            seen="2026-10",
        ),
    ),
)
