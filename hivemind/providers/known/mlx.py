"""mlx-lm's server."""

from hivemind.providers.table import Meaning, Provider, Refusal, Sign

PROVIDER = Provider(
    name="mlx",
    errors=r"\"error\":\s*\"generation thread died\"",
    refusals=(
        # Its model couldn't be loaded, or what computes has ended: it goes on listening, and nothing runs until it is
        # started anew.
        Refusal(
            meaning=Meaning.FULL,
            text="^generation thread died$",
            status=404,
            example='{"error": "generation thread died"}',
            source="mlx-lm 0.32.2, seen with a model that isn't there",
            seen="2026-11",
        ),
    ),
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
