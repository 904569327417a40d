"""OpenAI's Chat Completions, also on Azure's paths, and embeddings (platform.openai.com: Chat, Embeddings)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hivemind_mock.provider.formats import openai
from hivemind_mock.provider.formats.base import Ask, Body, Headers, Problem, Reply, count_tokens, positive
from hivemind_mock.provider.formats.sse import unnamed
from hivemind_mock.provider.limits import Reading

_EMBEDDING = "embedding"


class OpenAIChat:
    """`/v1/chat/completions`, `/openai/deployments/<name>/chat/completions`, and `…/embeddings`."""

    name = "openai_chat"
    stream_type = b"text/event-stream; charset=utf-8"

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        operation, variant, deployment = openai.operation(path)
        if operation not in ("/chat/completions", "/embeddings"):
            return None
        embedding = operation == "/embeddings"
        options = body.get("stream_options")
        return Ask(
            model=str(body.get("model") or deployment),
            stream=body.get("stream") is True and not embedding,
            input_tokens=count_tokens(body.get("input") if embedding else body.get("messages"), body.get("tools")),
            max_tokens=positive(body.get("max_completion_tokens")) or positive(body.get("max_tokens")),
            show_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
            variant=_EMBEDDING if embedding else variant,
        )

    def whole(self, ask: Ask, reply: Reply) -> Body:
        if ask.variant == _EMBEDDING:
            vector = {"object": "embedding", "index": 0, "embedding": [0.0625] * 16}
            usage = {"prompt_tokens": ask.input_tokens, "total_tokens": ask.input_tokens}
            return {"object": "list", "data": [vector], "model": ask.model, "usage": usage}
        message: Body = {"role": "assistant", "content": reply.text, "refusal": None, "annotations": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason(reply)}
        head = self._head(ask, reply, "chat.completion")
        return {**head, "choices": [choice], "usage": self._usage(ask, reply)}

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        return self._chunk(ask, reply, {"role": "assistant", "content": "", "refusal": None})

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        return self._chunk(ask, reply, {"content": reply.pieces[index]})

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        last = self._chunk(ask, reply, {}, self._finish_reason(reply))
        if ask.show_usage:
            head = self._head(ask, reply, "chat.completion.chunk")
            last += unnamed({**head, "choices": [], "usage": self._usage(ask, reply)})
        return last + b"data: [DONE]\n\n"

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        return openai.problem(problem)

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        return unnamed({"error": openai.error(problem)})

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        return openai.headers(ask, ident, readings)

    def _chunk(self, ask: Ask, reply: Reply, delta: Body, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head(ask, reply, "chat.completion.chunk"), "choices": [choice]}
        return unnamed({**chunk, "usage": None} if ask.show_usage else chunk)

    def _head(self, ask: Ask, reply: Reply, kind: str) -> dict[str, object]:
        return {
            "id": "chatcmpl-" + reply.ident,
            "object": kind,
            "created": reply.created,
            "model": ask.model,
            "service_tier": "default",
            "system_fingerprint": "fp_6d6f636b00",
        }

    def _usage(self, ask: Ask, reply: Reply) -> Body:
        return {
            "prompt_tokens": ask.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": ask.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }

    def _finish_reason(self, reply: Reply) -> str:
        return "length" if reply.cut else "stop"
