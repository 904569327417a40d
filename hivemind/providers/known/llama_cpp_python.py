"""The server of llama-cpp-python (`python -m llama_cpp.server`)."""

from hivemind.providers.table import Provider, Sign

PROVIDER = Provider(
    name="llama-cpp-python",
    signs=(
        Sign(
            path="/v1/models",
            text=r'"owned_by":\s*"me"',
            example='{"object":"list","data":[{"id":"tiny.gguf","object":"model","owned_by":"me","permissions":[]}]}',
            source="llama-cpp-python 0.3.36",
            seen="2026-11",
        ),
    ),
)
