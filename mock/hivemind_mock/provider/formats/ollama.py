"""Ollama's native API (github.com/ollama/ollama, docs/api): NDJSON streams, on unless a request says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from hivemind_mock.provider.formats.base import Ask, Body, Headers, Problem, Reply, Trouble, count_tokens, positive
from hivemind_mock.provider.limits import Reading

_STATUSES = {
    Trouble.RATE_LIMITED: 429,
    Trouble.OVERLOADED: 503,
    Trouble.BAD_GATEWAY: 502,
    Trouble.QUOTA: 402,
    Trouble.BAD_REQUEST: 400,
    Trouble.NOT_FOUND: 404,
}
_CHAT, _GENERATE = "chat", "generate"


class Ollama:
    """`/api/chat` and `/api/generate`."""

    name = "ollama"
    stream_type = b"application/x-ndjson"

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        if path not in ("/api/chat", "/api/generate"):
            return None
        chat = path == "/api/chat"
        options = body.get("options")
        return Ask(
            model=str(body.get("model", "")),
            stream=body.get("stream") is not False,
            input_tokens=count_tokens(body.get("messages") if chat else body.get("prompt"), body.get("system")),
            max_tokens=positive(options.get("num_predict")) if isinstance(options, dict) else 0,
            variant=_CHAT if chat else _GENERATE,
        )

    def whole(self, ask: Ask, reply: Reply) -> Body:
        return self._last(ask, reply, reply.text)

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        return b""

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        return self._line({**self._head(ask, reply), **self._text(ask, reply.pieces[index]), "done": False})

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        return self._line(self._last(ask, reply, ""))

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        return _STATUSES[problem.trouble], problem.retry_after, {"error": problem.message}

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        return self._line({"error": problem.message})

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        return []

    def _line(self, data: Body) -> bytes:
        return msgspec.json.encode(data) + b"\n"

    def _head(self, ask: Ask, reply: Reply) -> dict[str, object]:
        created = datetime.fromtimestamp(reply.created, UTC)
        return {"model": ask.model, "created_at": created.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}

    def _text(self, ask: Ask, text: str) -> Body:
        return {"message": {"role": "assistant", "content": text}} if ask.variant == _CHAT else {"response": text}

    def _last(self, ask: Ask, reply: Reply, text: str) -> Body:
        took_ns = int(reply.took_s * 1e9)
        return {
            **self._head(ask, reply),
            **self._text(ask, text),
            "done": True,
            "done_reason": "length" if reply.cut else "stop",
            "total_duration": took_ns,
            "load_duration": 0,
            "prompt_eval_count": ask.input_tokens,
            "prompt_eval_duration": took_ns // 10,
            "eval_count": reply.output_tokens,
            "eval_duration": took_ns - took_ns // 10,
        }
