"""xAI: Grok."""

from hivemind.providers.table import Provider

PROVIDER = Provider(
    name="xai",
    hosts=("api.x.ai",),
    errors=r"console\.x\.ai",
)
