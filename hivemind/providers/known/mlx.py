"""mlx-lm's server."""

from hivemind.providers.table import Provider, Sign

PROVIDER = Provider(
    name="mlx",
    signs=(
        Sign(
            server="BaseHTTP/",
            path="/v1/models",
            text=r'\A\Z|"object":\s*"list"',  # nothing where no cache of models exists
            example='{"object": "list", "data": [{"id": "default_model", "object": "model", "created": 1795900000}]}',
            source="mlx-lm 0.32.2, server.py",
            seen="2026-11",
        ),
    ),
)
