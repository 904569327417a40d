"""Fireworks."""

from hivemind.providers.table import Meaning, Provider, Refusal

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
)
