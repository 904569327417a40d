"""OpenAI's two APIs, also on Azure's paths: Chat Completions with embeddings, and Responses.

Sources: platform.openai.com (Chat, Embeddings, Responses, Streaming events, Rate limits, Error codes),
learn.microsoft.com (Azure OpenAI quotas and limits).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from hivemind_mock.provider.formats.base import (
    ApiError,
    Body,
    ErrorKind,
    Format,
    Headers,
    MockReply,
    Request,
    count_tokens,
    event,
    go_duration,
    positive,
    unnamed,
)
from hivemind_mock.provider.limits import Reading

_AZURE = "azure"
"""Variant of a request that came by an Azure path."""
_EMBEDDING = "embedding"
_ERRORS = {
    ErrorKind.RATE_LIMITED: (429, "requests", "rate_limit_exceeded"),
    ErrorKind.OVERLOADED: (503, "server_error", "server_is_overloaded"),
    ErrorKind.BAD_GATEWAY: (502, "server_error", None),
    ErrorKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
}
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)(/.+)")


class _OpenAI(Format):
    """What both APIs share: paths, errors and rate-limit headers."""

    def operation(self, path: str) -> tuple[str, str, str]:
        """Split a path into the operation (`/chat/completions`), the variant and, for a deployment, its name."""
        if match := _DEPLOYMENT.fullmatch(path):
            return match[2], _AZURE, match[1]
        if path.startswith("/openai/v1/"):
            return path.removeprefix("/openai/v1"), _AZURE, ""
        return path.removeprefix("/v1"), "", ""

    def states_written(self, request: Request, tokens: int) -> int:
        return tokens if request.model.startswith("gpt-6") else 0

    def error(self, error: ApiError) -> tuple[int, Headers, Body]:
        status, kind, code = _ERRORS[error.kind]
        body = {"message": error.message, "type": kind, "param": None, "code": code}
        return status, error.retry_after, {"error": body}

    def headers(self, request: Request, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        azure = request.variant == _AZURE
        found: Headers = [(b"apim-request-id" if azure else b"x-request-id", b"req_" + ident.lower().encode())]
        for reading in readings:
            if reading.kind in ("requests", "tokens"):
                reset = f"{math.ceil(reading.reset_s)}" if azure else go_duration(reading.reset_s)
                kind = reading.kind.encode()
                found += [
                    (b"x-ratelimit-limit-" + kind, b"%d" % reading.limit),
                    (b"x-ratelimit-remaining-" + kind, b"%d" % reading.remaining),
                    (b"x-ratelimit-reset-" + kind, reset.encode()),
                ]
        return found


class OpenAIChat(_OpenAI):
    """`/v1/chat/completions`, `/openai/deployments/<name>/chat/completions`, and `…/embeddings`."""

    name = "openai_chat"
    profile = "openai"

    def parse(self, path: str, query: str, body: Body) -> Request | None:
        operation, variant, deployment = self.operation(path)
        if operation not in ("/chat/completions", "/embeddings"):
            return None
        embedding = operation == "/embeddings"
        options = body.get("stream_options")
        return Request(
            model=str(body.get("model") or deployment),
            stream=body.get("stream") is True and not embedding,
            input_tokens=count_tokens(*self.said(body)),
            max_tokens=positive(body.get("max_completion_tokens")) or positive(body.get("max_tokens")),
            show_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
            variant=_EMBEDDING if embedding else variant,
        )

    def said(self, body: Body) -> tuple[object, ...]:
        return body.get("tools"), body.get("messages"), body.get("input")

    def whole(self, request: Request, reply: MockReply) -> Body:
        if request.variant == _EMBEDDING:
            vector = {"object": "embedding", "index": 0, "embedding": [0.0625] * 16}
            usage = {"prompt_tokens": request.input_tokens, "total_tokens": request.input_tokens}
            return {"object": "list", "data": [vector], "model": request.model, "usage": usage}
        message: dict[str, object] = {"role": "assistant", "content": reply.text, "refusal": None, "annotations": []}
        if reply.call is not None:
            message |= {"content": None, "tool_calls": [self._call(reply, reply.call.text)]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish_reason(reply)}
        head = self._head(request, reply, "chat.completion")
        return {**head, "choices": [choice], "usage": self._usage(request, reply)}

    def opening(self, request: Request, reply: MockReply) -> bytes:
        return self._chunk(request, reply, {"role": "assistant", "content": "", "refusal": None})

    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        text = reply.pieces[index]
        if reply.call is None:
            return self._chunk(request, reply, {"content": text})
        part = {"index": 0, "function": {"arguments": text}}
        return self._chunk(request, reply, {"tool_calls": [part if index else {"index": 0, **self._call(reply, text)}]})

    def closing(self, request: Request, reply: MockReply) -> bytes:
        last = self._chunk(request, reply, {}, self._finish_reason(reply))
        if request.show_usage:
            head = self._head(request, reply, "chat.completion.chunk")
            last += unnamed({**head, "choices": [], "usage": self._usage(request, reply)})
        return last + b"data: [DONE]\n\n"

    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        return unnamed(self.error(error)[2])

    def _chunk(self, request: Request, reply: MockReply, delta: Body, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head(request, reply, "chat.completion.chunk"), "choices": [choice]}
        return unnamed({**chunk, "usage": None} if request.show_usage else chunk)

    def _head(self, request: Request, reply: MockReply, kind: str) -> dict[str, object]:
        return {
            "id": "chatcmpl-" + reply.ident,
            "object": kind,
            "created": reply.created,
            "model": request.model,
            "service_tier": "default",
            "system_fingerprint": "fp_6d6f636b00",
        }

    def _usage(self, request: Request, reply: MockReply) -> Body:
        return {
            "prompt_tokens": request.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": request.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": reply.cache_read,
                "cache_write_tokens": reply.cache_written,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }

    def _call(self, reply: MockReply, arguments: str) -> Body:
        assert reply.call is not None
        function = {"name": reply.call.name, "arguments": arguments}
        return {"id": "call_" + reply.ident, "type": "function", "function": function}

    def _finish_reason(self, reply: MockReply) -> str:
        if reply.call is not None:
            return "tool_calls"
        return "length" if reply.cut else "stop"


class OpenAIResponses(_OpenAI):
    """`/v1/responses`."""

    name = "openai_responses"
    profile = "openai"

    def parse(self, path: str, query: str, body: Body) -> Request | None:
        operation, variant, _ = self.operation(path)
        if operation != "/responses":
            return None
        return Request(
            model=str(body.get("model", "")),
            stream=body.get("stream") is True,
            input_tokens=count_tokens(*self.said(body)),
            max_tokens=positive(body.get("max_output_tokens")),
            variant=variant,
        )

    def said(self, body: Body) -> tuple[object, ...]:
        return body.get("tools"), body.get("instructions"), body.get("input")

    def whole(self, request: Request, reply: MockReply) -> Body:
        return self._response(request, reply, self._status(reply))

    def opening(self, request: Request, reply: MockReply) -> bytes:
        begun = self._response(request, reply, "in_progress")
        kinds = ("response.created", "response.in_progress")
        return b"".join(event(kind, sequence_number=number, response=begun) for number, kind in enumerate(kinds))

    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        place = self._place(reply)
        if reply.call is not None:
            delta = {"item_id": place["item_id"], "output_index": 0, "delta": reply.pieces[index]}
            data = event("response.function_call_arguments.delta", sequence_number=3 + index, **delta)
            begun = {**self._item(reply, "in_progress"), "arguments": ""}
            added = event("response.output_item.added", sequence_number=2, output_index=0, item=begun)
            return data if index else added + data
        text = {**place, "delta": reply.pieces[index], "logprobs": []}
        data = event("response.output_text.delta", sequence_number=4 + index, **text)
        if index:
            return data
        item = {**self._item(reply, "in_progress"), "content": []}
        return (
            event("response.output_item.added", sequence_number=2, output_index=0, item=item)
            + event("response.content_part.added", sequence_number=3, **place, part=self._part(""))
            + data
        )

    def closing(self, request: Request, reply: MockReply) -> bytes:
        number, place, status = 4 + len(reply.pieces), self._place(reply), self._status(reply)
        item = {"output_index": 0, "item": self._item(reply, status)}
        last = event(f"response.{status}", sequence_number=number + 3, response=self.whole(request, reply))
        if reply.call is not None:
            call = {"item_id": place["item_id"], "output_index": 0, "arguments": reply.call.text}
            done = event("response.function_call_arguments.done", sequence_number=number, **call)
            return done + event("response.output_item.done", sequence_number=number + 1, **item) + last
        text = {**place, "text": reply.text, "logprobs": []}
        part = {**place, "part": self._part(reply.text)}
        return (
            event("response.output_text.done", sequence_number=number, **text)
            + event("response.content_part.done", sequence_number=number + 1, **part)
            + event("response.output_item.done", sequence_number=number + 2, **item)
            + last
        )

    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        _, kind, code = _ERRORS[error.kind]
        number = sent + (4 if sent else 2)
        return event("error", code=code or kind, message=error.message, param=None, sequence_number=number)

    def _status(self, reply: MockReply) -> str:
        return "incomplete" if reply.cut else "completed"

    def _place(self, reply: MockReply) -> dict[str, object]:
        return {"item_id": ("fc_" if reply.call else "msg_") + reply.ident, "output_index": 0, "content_index": 0}

    def _part(self, text: str) -> Body:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _item(self, reply: MockReply, status: str) -> Body:
        if (call := reply.call) is not None:
            ident, space = reply.ident, {"namespace": call.space} if call.space else {}
            found = {"id": "fc_" + ident, "call_id": "call_" + ident, "name": call.name, "arguments": call.text}
            return {"type": "function_call", "status": status, **found, **space}
        part = self._part(reply.text)
        return {"id": "msg_" + reply.ident, "type": "message", "status": status, "role": "assistant", "content": [part]}

    def _response(self, request: Request, reply: MockReply, status: str) -> Body:
        begun = status == "in_progress"
        return {
            "id": "resp_" + reply.ident,
            "object": "response",
            "created_at": reply.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "max_output_tokens": request.max_tokens or None,
            "model": request.model,
            "output": [] if begun else [self._item(reply, status)],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None if begun else self._usage(request, reply),
            "metadata": {},
        }

    def _usage(self, request: Request, reply: MockReply) -> Body:
        return {
            "input_tokens": request.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cache_read, "cache_write_tokens": reply.cache_written},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": request.input_tokens + reply.output_tokens,
        }
