"""Ollama's native API (github.com/ollama/ollama, docs/api): NDJSON streams, on unless a request says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hivemind_mock.provider.formats.base import (
    ApiError,
    Body,
    ErrorKind,
    Format,
    Headers,
    MockReply,
    Request,
    count_tokens,
    positive,
)

_STATUSES = {ErrorKind.RATE_LIMITED: 429, ErrorKind.OVERLOADED: 503, ErrorKind.BAD_GATEWAY: 502, ErrorKind.QUOTA: 402}
_CHAT, _GENERATE = "chat", "generate"


class Ollama(Format):
    """The native API: `/api/chat` and `/api/generate`."""

    name = profile = "ollama"
    stream_type = b"application/x-ndjson"

    def parse(self, path: str, query: str, body: Body) -> Request | None:
        if path not in ("/api/chat", "/api/generate"):
            return None
        chat = path == "/api/chat"
        options = body.get("options")
        return Request(
            model=str(body.get("model", "")),
            stream=body.get("stream") is not False,
            input_tokens=count_tokens(body.get("messages") if chat else body.get("prompt"), body.get("system")),
            max_tokens=positive(options.get("num_predict")) if isinstance(options, dict) else 0,
            variant=_CHAT if chat else _GENERATE,
        )

    def whole(self, request: Request, reply: MockReply) -> Body:
        return self._last(request, reply, reply.text)

    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        return self._line({**self._head(request, reply), **self._text(request, reply.pieces[index]), "done": False})

    def closing(self, request: Request, reply: MockReply) -> bytes:
        return self._line(self._last(request, reply, ""))

    def error(self, error: ApiError) -> tuple[int, Headers, Body]:
        return _STATUSES[error.kind], error.retry_after, {"error": error.message}

    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        return self._line({"error": error.message})

    def _line(self, data: Body) -> bytes:
        return msgspec.json.encode(data) + b"\n"

    def _head(self, request: Request, reply: MockReply) -> dict[str, object]:
        created = datetime.fromtimestamp(reply.created, UTC)
        return {"model": request.model, "created_at": created.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}

    def _text(self, request: Request, text: str) -> Body:
        return {"message": {"role": "assistant", "content": text}} if request.variant == _CHAT else {"response": text}

    def _last(self, request: Request, reply: MockReply, text: str) -> Body:
        took_ns = int(reply.took_s * 1e9)
        return {
            **self._head(request, reply),
            **self._text(request, text),
            "done": True,
            "done_reason": "length" if reply.cut else "stop",
            "total_duration": took_ns,
            "load_duration": 0,
            "prompt_eval_count": request.input_tokens,
            "prompt_eval_duration": took_ns // 10,
            "eval_count": reply.output_tokens,
            "eval_duration": took_ns - took_ns // 10,
        }
