"""Anthropic's Messages API (docs.anthropic.com: Messages, Streaming Messages, Errors, Rate limits)."""

from __future__ import annotations

from collections.abc import Sequence

from hivemind_mock.provider.formats.base import (
    Ask,
    Body,
    Headers,
    Problem,
    Reply,
    Trouble,
    count_tokens,
    positive,
    rfc3339,
)
from hivemind_mock.provider.formats.sse import event
from hivemind_mock.provider.limits import Reading

_ERRORS = {
    Trouble.RATE_LIMITED: (429, "rate_limit_error"),
    Trouble.OVERLOADED: (529, "overloaded_error"),
    Trouble.BAD_GATEWAY: (502, "api_error"),
    Trouble.QUOTA: (429, "rate_limit_error"),
    Trouble.BAD_REQUEST: (400, "invalid_request_error"),
    Trouble.NOT_FOUND: (404, "not_found_error"),
}
_KINDS = {"requests": b"requests", "tokens": b"tokens", "input": b"input-tokens", "output": b"output-tokens"}


class Anthropic:
    """`/v1/messages` and `/v1/messages/count_tokens`."""

    name = "anthropic"
    stream_type = b"text/event-stream; charset=utf-8"

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return None
        counting = path.endswith("count_tokens")
        return Ask(
            model=str(body.get("model", "")),
            stream=body.get("stream") is True and not counting,
            input_tokens=count_tokens(body.get("system"), body.get("messages"), body.get("tools")),
            max_tokens=positive(body.get("max_tokens")),
            variant="count" if counting else "",
        )

    def whole(self, ask: Ask, reply: Reply) -> Body:
        if ask.variant == "count":
            return {"input_tokens": ask.input_tokens}
        return {
            **self._message(ask, reply),
            "content": [{"type": "text", "text": reply.text}],
            "stop_reason": self._stop_reason(reply),
            "usage": self._usage(ask, reply.output_tokens),
        }

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        message = {**self._message(ask, reply), "usage": self._usage(ask, 1)}
        return event("message_start", {"type": "message_start", "message": message}) + event("ping", {"type": "ping"})

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        delta = {"type": "text_delta", "text": reply.pieces[index]}
        data = event("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta})
        if index:
            return data
        block = {"type": "text", "text": ""}
        return event("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}) + data

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        delta = {"stop_reason": self._stop_reason(reply), "stop_sequence": None}
        usage = self._usage(ask, reply.output_tokens)
        return (
            event("content_block_stop", {"type": "content_block_stop", "index": 0})
            + event("message_delta", {"type": "message_delta", "delta": delta, "usage": usage})
            + event("message_stop", {"type": "message_stop"})
        )

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        status, _ = _ERRORS[problem.trouble]
        return status, problem.retry_after, self._error(problem)

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        return event("error", self._error(problem))

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
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

    def _message(self, ask: Ask, reply: Reply) -> dict[str, object]:
        return {
            "id": "msg_01" + reply.ident[:22],
            "type": "message",
            "role": "assistant",
            "model": ask.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _usage(self, ask: Ask, output_tokens: int) -> Body:
        return {
            "input_tokens": ask.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }

    def _stop_reason(self, reply: Reply) -> str:
        return "max_tokens" if reply.cut else "end_turn"

    def _error(self, problem: Problem) -> Body:
        error: dict[str, object] = {"type": _ERRORS[problem.trouble][1], "message": problem.message}
        if problem.trouble is Trouble.QUOTA:
            error["details"] = {"error_code": "enforced_spend_limit_reached"}
        return {"type": "error", "error": error, "request_id": "req_011C" + problem.ident[:20]}
