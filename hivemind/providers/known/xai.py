"""xAI: Grok."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="xai",
    hosts=("api.x.ai",),
    errors=r"console\.x\.ai",
    refusals=(
        Refusal(
            meaning=Meaning.USED_UP,
            text="used all available credits|monthly spending limit",
            example=(
                '{"code":"exhausted","error":"Your team has either used all available credits or reached its '
                'monthly spending limit. Please purchase more credits."}'
            ),
            source="https://github.com/continuedev/continue/issues/10373",
            seen="2026-02",
        ),
    ),
)
