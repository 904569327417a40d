"""Anthropic's Messages API (docs.anthropic.com: Messages, Streaming Messages, Errors, Rate limits)."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind_mock.provider.cache import Prompt, marked
from hivemind_mock.provider.formats.base import (
    ApiError,
    Body,
    ErrorKind,
    Format,
    Headers,
    MockReply,
    Request,
    count_chars,
    count_tokens,
    event,
    objects,
    positive,
    rfc3339,
)
from hivemind_mock.provider.limits import Reading

_ERRORS = {
    ErrorKind.RATE_LIMITED: (429, "rate_limit_error"),
    ErrorKind.OVERLOADED: (529, "overloaded_error"),
    ErrorKind.BAD_GATEWAY: (502, "api_error"),
    ErrorKind.QUOTA: (429, "rate_limit_error"),
}
_KINDS = {"requests": b"requests", "tokens": b"tokens", "input": b"input-tokens", "output": b"output-tokens"}


class Anthropic(Format):
    """The Messages API: `/v1/messages` and `/v1/messages/count_tokens`."""

    name = profile = "anthropic"

    def parse(self, path: str, query: str, body: Body) -> Request | None:
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return None
        counting = path.endswith("count_tokens")
        return Request(
            model=str(body.get("model", "")),
            stream=body.get("stream") is True and not counting,
            input_tokens=count_tokens(*self.said(body)),
            max_tokens=positive(body.get("max_tokens")),
            variant="count" if counting else "",
        )

    def said(self, body: Body) -> tuple[object, ...]:
        return body.get("tools"), body.get("system"), body.get("messages")

    def prompt(self, body: Body) -> Prompt:
        blocks = [*objects(body.get("tools")), *_blocks(body.get("system"))]
        for message in objects(body.get("messages")):
            blocks += [{**block, "role": message.get("role")} for block in _blocks(message.get("content"))]
        if blocks and (control := body.get("cache_control")) is not None:
            blocks[-1] = {**blocks[-1], "cache_control": control}
        return marked((block, count_chars(block)) for block in blocks)

    def states_written(self, request: Request, tokens: int) -> int:
        return tokens

    def whole(self, request: Request, reply: MockReply) -> Body:
        if request.variant == "count":
            return {"input_tokens": request.input_tokens}
        return {
            **self._message(request, reply),
            "content": [self._block(reply, reply.text, reply.call and reply.call.arguments)],
            "stop_reason": self._stop_reason(reply),
            "usage": self._usage(request, reply, reply.output_tokens),
        }

    def opening(self, request: Request, reply: MockReply) -> bytes:
        message = {**self._message(request, reply), "usage": self._usage(request, reply, 1)}
        return event("message_start", message=message) + event("ping")

    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        text = reply.pieces[index]
        delta = (
            {"type": "input_json_delta", "partial_json": text} if reply.call else {"type": "text_delta", "text": text}
        )
        data = event("content_block_delta", index=0, delta=delta)
        if index:
            return data
        return event("content_block_start", index=0, content_block=self._block(reply, "", {})) + data

    def closing(self, request: Request, reply: MockReply) -> bytes:
        delta = {"stop_reason": self._stop_reason(reply), "stop_sequence": None}
        usage = self._usage(request, reply, reply.output_tokens)
        return (
            event("content_block_stop", index=0)
            + event("message_delta", delta=delta, usage=usage)
            + event("message_stop")
        )

    def error(self, error: ApiError) -> tuple[int, Headers, Body]:
        status, _ = _ERRORS[error.kind]
        return status, error.retry_after, {"type": "error", **self._error(error)}

    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        return event("error", **self._error(error))

    def headers(self, request: Request, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        found: Headers = [
            (b"request-id", b"req_011C" + ident[:20].encode()),
            (b"anthropic-organization-id", b"0e6b1c9a-0000-4000-8000-6d6f636b0000"),
        ]
        for reading in readings:
            name = b"anthropic-ratelimit-" + _KINDS[reading.kind]
            found += [
                (name + b"-limit", b"%d" % reading.limit),
                (name + b"-remaining", b"%d" % reading.remaining),
                (name + b"-reset", rfc3339(wall + reading.reset_s).encode()),
            ]
        return found

    def _message(self, request: Request, reply: MockReply) -> dict[str, object]:
        return {
            "id": "msg_01" + reply.ident[:22],
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _block(self, reply: MockReply, text: str, arguments: object) -> Body:
        if reply.call is None:
            return {"type": "text", "text": text}
        return {"type": "tool_use", "id": "toolu_01" + reply.ident[:22], "name": reply.call.name, "input": arguments}

    def _usage(self, request: Request, reply: MockReply, output_tokens: int) -> Body:
        minutes = reply.cache_written - reply.cache_written_1h
        return {
            "input_tokens": request.input_tokens - reply.cache_read - reply.cache_written,
            "cache_creation_input_tokens": reply.cache_written,
            "cache_read_input_tokens": reply.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": minutes,
                "ephemeral_1h_input_tokens": reply.cache_written_1h,
            },
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }

    def _stop_reason(self, reply: MockReply) -> str:
        if reply.call is not None:
            return "tool_use"
        return "max_tokens" if reply.cut else "end_turn"

    def _error(self, error: ApiError) -> Body:
        found: dict[str, object] = {"type": _ERRORS[error.kind][1], "message": error.message}
        if error.kind is ErrorKind.QUOTA:
            found["details"] = {"error_code": "enforced_spend_limit_reached"}
        return {"error": found, "request_id": "req_011C" + error.ident[:20]}


def _blocks(content: object) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(objects(content))
