"""Google's Gemini API (ai.google.dev: generateContent, streamGenerateContent; google.rpc error details)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qs

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
from hivemind_mock.provider.limits import Reading

_PATH = re.compile(r"/(?:v1|v1beta)/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)")
_ERRORS = {
    ErrorKind.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED"),
    ErrorKind.OVERLOADED: (503, "UNAVAILABLE"),
    ErrorKind.BAD_GATEWAY: (502, "UNAVAILABLE"),
    ErrorKind.QUOTA: (429, "RESOURCE_EXHAUSTED"),
}
_RPC = "type.googleapis.com/google.rpc."
_SSE, _ARRAY, _COUNT = "sse", "array", "count"


class Google(Format):
    """`/v1beta/models/<model>:generateContent` and its streaming and counting siblings; also under `/v1`."""

    name = profile = "google"
    stream_type = b"text/event-stream"

    def parse(self, path: str, query: str, body: Body) -> Request | None:
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        operation = match[2]
        generation = body.get("generationConfig")
        sse = parse_qs(query).get("alt") == ["sse"]
        return Request(
            model=match[1],
            stream=operation == "streamGenerateContent",
            input_tokens=count_tokens(*self.said(body)),
            max_tokens=positive(generation.get("maxOutputTokens")) if isinstance(generation, dict) else 0,
            variant=_COUNT if operation == "countTokens" else _SSE if sse else _ARRAY,
        )

    def said(self, body: Body) -> tuple[object, ...]:
        return body.get("systemInstruction"), body.get("tools"), body.get("contents")

    def whole(self, request: Request, reply: MockReply) -> Body:
        if request.variant == _COUNT:
            return {"totalTokens": request.input_tokens}
        return self._chunk(request, reply, reply.text, reply.output_tokens, last=True)

    def piece(self, request: Request, reply: MockReply, index: int) -> bytes:
        so_far = round(reply.output_tokens * (index + 1) / len(reply.pieces))
        text = reply.pieces[index] if reply.call is None or not index else ""
        return self._part(request, self._chunk(request, reply, text, so_far), first=index == 0)

    def closing(self, request: Request, reply: MockReply) -> bytes:
        last = self._part(request, self._chunk(request, reply, "", reply.output_tokens, last=True), first=False)
        return last if request.variant == _SSE else last + b"\n]"

    def error(self, error: ApiError) -> tuple[int, Headers, Body]:
        status, name = _ERRORS[error.kind]
        found: dict[str, object] = {"code": status, "message": error.message, "status": name}
        if error.kind in (ErrorKind.RATE_LIMITED, ErrorKind.QUOTA):
            found["details"] = self._details(error)
        return status, [], {"error": found}

    def stream_error(self, request: Request, error: ApiError, sent: int) -> bytes:
        last = self._part(request, self.error(error)[2], first=sent == 0)
        return last if request.variant == _SSE else last + b"\n]"

    def headers(self, request: Request, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        return [(b"server", b"scaffolding on HTTPServer2"), (b"x-content-type-options", b"nosniff")]

    def _part(self, request: Request, chunk: Body, *, first: bool) -> bytes:
        data = msgspec.json.encode(chunk)
        if request.variant == _SSE:
            return b"data: %s\r\n\r\n" % data
        return (b"[" if first else b"\n,\r\n") + data

    def _chunk(self, request: Request, reply: MockReply, text: str, output_tokens: int, *, last: bool = False) -> Body:
        part: Body = {"text": text}
        if reply.call is not None and text:
            part = {"functionCall": {"name": reply.call.name, "args": reply.call.arguments}}
        candidate: dict[str, object] = {"content": {"parts": [part], "role": "model"}, "index": 0}
        if last:
            candidate["finishReason"] = "MAX_TOKENS" if reply.cut else "STOP"
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": request.input_tokens,
                "cachedContentTokenCount": reply.cache_read,
                "candidatesTokenCount": output_tokens,
                "totalTokenCount": request.input_tokens + output_tokens,
            },
            "modelVersion": request.model,
            "responseId": reply.ident[:22],
        }

    def _details(self, error: ApiError) -> list[Body]:
        span = "Day" if error.kind is ErrorKind.QUOTA else "Minute"
        violation = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
            "quotaId": f"GenerateRequestsPer{span}PerProjectPerModel",
        }
        details: list[Body] = [{"@type": _RPC + "QuotaFailure", "violations": [violation]}]
        if error.retry_after_s is not None:
            details.append({"@type": _RPC + "RetryInfo", "retryDelay": f"{error.retry_after_s:.3f}s"})
        return details
