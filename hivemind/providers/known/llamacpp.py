"""llama.cpp's server."""

from hivemind.providers.table import Counts, Failing, Load, Meaning, Provider, Refusal, Sign

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
    signs=(
        Sign(
            server="llama.cpp",
            example='{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}',
            source="xllamacpp 2026.10.11549",
            seen="2026-11",
        ),
        Sign(
            path="/v1/models",
            text=r'"owned_by":\s*"llamacpp"',
            example='{"object":"list","data":[{"id":"tiny.gguf","object":"model","owned_by":"llamacpp"}]}',
            source="xllamacpp 2026.10.11549",
            seen="2026-11",
        ),
        Sign(
            path="/props",
            text=r'"total_slots":\s*\d',
            example='{"default_generation_settings":{"n_ctx":32768},"total_slots":4,"model_path":"tiny.gguf"}',
            source="https://github.com/ggml-org/llama.cpp, tools/server/README.md",
            seen="2026-11",
        ),
    ),
    loads=(
        Load(
            path="/metrics",
            text=r"(?m)^llamacpp:requests_(?:processing|deferred) (\d+)",
            example=(
                "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 2\n"
                "# TYPE llamacpp:requests_deferred gauge\nllamacpp:requests_deferred 4\n"
            ),
            requests=6,
            source="xllamacpp 2026.10.11549",
            seen="2026-11",
        ),
        Load(
            path="/slots",
            text=r'"is_processing":\s*(true|false)',
            example='[{"id":0,"n_ctx":65536,"is_processing":true},{"id":1,"n_ctx":65536,"is_processing":false}]',
            requests=1,
            source="xllamacpp 2026.10.11549",
            seen="2026-11",
        ),
    ),
    slots=Load(
        path="/props",
        text=r'"total_slots":\s*(\d+)',
        example='{"default_generation_settings":{"n_ctx":32768},"total_slots":4,"model_path":"tiny.gguf"}',
        requests=4,
        source="xllamacpp 2026.10.11549",
        seen="2026-11",
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
