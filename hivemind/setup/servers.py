"""Model servers at home: how each is started, and what agents have to know of it.

llama.cpp, MLX and transformers were tried (`make test-servers`); the rest is by their pages.
"""

from __future__ import annotations

from msgspec import Struct


class ModelServer(Struct, frozen=True):
    """What is said of a model server."""

    name: str
    """As in `hivemind setup NAME`, and as its profile is called."""
    title: str
    start: str
    url: str
    """Where it listens, unless it is told otherwise."""
    docs: str
    notes: tuple[str, ...]
    messages: bool = False
    """It serves Anthropic's API too."""


_TO_ITS_END = "A whole answer is computed to its end though its client left; HiveMind reads it to there."

SERVERS = (
    ModelServer(
        "llamacpp",
        "llama.cpp",
        "llama-server -m MODEL.gguf -np 4 --metrics",
        "http://127.0.0.1:8080",
        "https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
        ("-np is how many requests it computes at once. HiveMind asks for it, and has the rest wait by priority.",),
        messages=True,
    ),
    ModelServer(
        "ollama",
        "Ollama",
        "ollama serve",
        "http://127.0.0.1:11434",
        "https://docs.ollama.com/faq",
        ("HiveMind begins with 2 requests at once; OLLAMA_NUM_PARALLEL is how many it computes at once.",),
        messages=True,
    ),
    ModelServer(
        "vllm",
        "vLLM",
        "vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER",
        "http://127.0.0.1:8000",
        "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        ("Without the two flags it calls no tools.",),
        messages=True,
    ),
    ModelServer(
        "mlx",
        "MLX",
        "mlx_lm.server --model MODEL",
        "http://127.0.0.1:8080",
        "https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/SERVER.md",
        (f"It knows its model as default_model, or by the name in --model. {_TO_ITS_END}",),
    ),
    ModelServer(
        "transformers",
        "transformers serve",
        "transformers serve MODEL",
        "http://127.0.0.1:8000",
        "https://huggingface.co/docs/transformers/serve-cli/serving",
        (f"It answers to the model's name exactly as it was given. {_TO_ITS_END}",),
    ),
    ModelServer(
        "lmstudio",
        "LM Studio",
        "lms server start",
        "http://127.0.0.1:1234",
        "https://lmstudio.ai/docs/developer",
        ("HiveMind takes it for one that computes a whole answer to its end though its client left.",),
    ),
)
