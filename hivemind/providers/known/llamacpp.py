"""llama.cpp's server."""

from hivemind.providers.table import Meaning, Provider, Refusal

PROVIDER = Provider(
    name="llamacpp",
    errors=r"\"type\":\"unavailable_error\"",
    refusals=(
        Refusal(
            meaning=Meaning.FULL,
            code="unavailable_error",
            text="loading model",
            status=503,
            example='{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}',
            source="https://github.com/ggml-org/llama.cpp, tools/server/README.md",
            seen="2026-05",
        ),
    ),
)
