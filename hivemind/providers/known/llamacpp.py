"""llama.cpp's server."""

from hivemind.providers.table import Counts, Failing, Meaning, Provider, Refusal

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
    failing=(
        Failing(
            example='error: {"code":503,"message":"Loading model","type":"unavailable_error"}',
            status=503,
            source="coddy-agent, pull request 106",
            seen="2026-08",
        ),
    ),
    counts=(
        Counts(
            input="prompt_n",
            output="predicted_n",
            cached="cache_n",
            apart=True,
            example=(
                '{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":{"cache_n":64,"prompt_n":36,'
                '"prompt_ms":30.9,"predicted_n":20,"predicted_ms":661.0}}'
            ),
            counted=(36, 64, 0, 20),
            source="https://github.com/ggml-org/llama.cpp, tools/server/README.md",
            seen="2026-10",
        ),
    ),
)
