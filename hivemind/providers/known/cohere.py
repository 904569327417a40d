"""Cohere."""

from hivemind.providers.table import Path, Provider

PROVIDER = Provider(
    name="cohere",
    hosts=("api.cohere.com", "api.cohere.ai"),
    paths=(
        Path(
            path=r"/v2/chat|/v[12]/(?:embed|rerank)|^(?:/v1)?/(?:embed|rerank(?:ing)?|classify)",
            dialect="stateless",
            example="/v2/chat",
            source="cohere 7.3.1, against a recording server",
            seen="2026-11",
        ),
    ),
)
