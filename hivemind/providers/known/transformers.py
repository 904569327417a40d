"""The server of Hugging Face's transformers (`transformers serve`)."""

from hivemind.providers.table import Provider, Sign

PROVIDER = Provider(
    name="transformers",
    signs=(
        Sign(
            # Not its description, during whose making LiteLLM's proxy, asked for its own, stands still.
            path="/load_model",
            text=r'^\{"detail":"Method Not Allowed"\}$',
            example='{"detail":"Method Not Allowed"}',
            source="transformers 5.24.0, cli/serving/server.py",
            seen="2026-11",
        ),
    ),
)
