"""The server of Hugging Face's transformers (`transformers serve`)."""

from hivemind.providers.table import Provider, Sign

PROVIDER = Provider(
    name="transformers",
    signs=(
        Sign(
            path="/openapi.json",
            text='"/load_model"',
            example='{"openapi":"3.1.0","info":{"title":"FastAPI"},"paths":{"/v1/responses":{},"/load_model":{}}}',
            source="transformers 5.24.0, cli/serving/server.py",
            seen="2026-11",
        ),
    ),
)
