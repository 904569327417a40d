"""LM Studio."""

from hivemind.providers.table import Provider, Sign

PROVIDER = Provider(
    name="lmstudio",
    signs=(
        Sign(
            path="/v1/models",
            text=r'"owned_by":\s*"organization_owner"',
            example='{"data":[{"id":"qwen3-8b","object":"model","owned_by":"organization_owner"}],"object":"list"}',
            source="https://lmstudio.ai/docs, OpenAI compatibility",
            seen="2026-06",
        ),
    ),
)
