"""Google's Gemini API (ai.google.dev: generateContent, streamGenerateContent; google.rpc error details)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qs

import msgspec

from hivemind_mock.provider.formats.base import Ask, Body, Headers, Problem, Reply, Trouble, count_tokens, positive
from hivemind_mock.provider.limits import Reading

_PATH = re.compile(r"/(?:v1|v1beta)/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)")
_ERRORS = {
    Trouble.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED"),
    Trouble.OVERLOADED: (503, "UNAVAILABLE"),
    Trouble.BAD_GATEWAY: (502, "UNAVAILABLE"),
    Trouble.QUOTA: (429, "RESOURCE_EXHAUSTED"),
    Trouble.BAD_REQUEST: (400, "INVALID_ARGUMENT"),
    Trouble.NOT_FOUND: (404, "NOT_FOUND"),
}
_RPC = "type.googleapis.com/google.rpc."
_SSE, _ARRAY, _COUNT = "sse", "array", "count"


class Google:
    """`/v1beta/models/<model>:generateContent` and its streaming and counting siblings; also under `/v1`."""

    name = "google"
    stream_type = b"text/event-stream"

    def ask(self, path: str, query: str, body: Body) -> Ask | None:
        match = _PATH.fullmatch(path)
        if match is None:
            return None
        operation = match[2]
        generation = body.get("generationConfig")
        sse = parse_qs(query).get("alt") == ["sse"]
        return Ask(
            model=match[1],
            stream=operation == "streamGenerateContent",
            input_tokens=count_tokens(body.get("systemInstruction"), body.get("contents"), body.get("tools")),
            max_tokens=positive(generation.get("maxOutputTokens")) if isinstance(generation, dict) else 0,
            variant=_COUNT if operation == "countTokens" else _SSE if sse else _ARRAY,
        )

    def whole(self, ask: Ask, reply: Reply) -> Body:
        if ask.variant == _COUNT:
            return {"totalTokens": ask.input_tokens}
        return self._chunk(ask, reply, reply.text, reply.output_tokens, last=True)

    def opening(self, ask: Ask, reply: Reply) -> bytes:
        return b""

    def piece(self, ask: Ask, reply: Reply, index: int) -> bytes:
        so_far = round(reply.output_tokens * (index + 1) / len(reply.pieces))
        return self._part(ask, self._chunk(ask, reply, reply.pieces[index], so_far), first=index == 0)

    def closing(self, ask: Ask, reply: Reply) -> bytes:
        last = self._part(ask, self._chunk(ask, reply, "", reply.output_tokens, last=True), first=False)
        return last if ask.variant == _SSE else last + b"\n]"

    def problem(self, problem: Problem) -> tuple[int, Headers, Body]:
        status, name = _ERRORS[problem.trouble]
        error: dict[str, object] = {"code": status, "message": problem.message, "status": name}
        if problem.trouble in (Trouble.RATE_LIMITED, Trouble.QUOTA):
            error["details"] = self._details(problem)
        return status, [], {"error": error}

    def stream_problem(self, ask: Ask, problem: Problem, sent: int) -> bytes:
        error = self._part(ask, self.problem(problem)[2], first=sent == 0)
        return error if ask.variant == _SSE else error + b"\n]"

    def headers(self, ask: Ask | None, ident: str, readings: Sequence[Reading], wall: float) -> Headers:
        return [(b"server", b"scaffolding on HTTPServer2"), (b"x-content-type-options", b"nosniff")]

    def _part(self, ask: Ask, chunk: Body, *, first: bool) -> bytes:
        data = msgspec.json.encode(chunk)
        if ask.variant == _SSE:
            return b"data: %s\r\n\r\n" % data
        return (b"[" if first else b"\n,\r\n") + data

    def _chunk(self, ask: Ask, reply: Reply, text: str, output_tokens: int, *, last: bool = False) -> Body:
        candidate: dict[str, object] = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
        if last:
            candidate["finishReason"] = "MAX_TOKENS" if reply.cut else "STOP"
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": ask.input_tokens,
                "candidatesTokenCount": output_tokens,
                "totalTokenCount": ask.input_tokens + output_tokens,
            },
            "modelVersion": ask.model,
            "responseId": reply.ident[:22],
        }

    def _details(self, problem: Problem) -> list[Body]:
        span = "Day" if problem.trouble is Trouble.QUOTA else "Minute"
        violation = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
            "quotaId": f"GenerateRequestsPer{span}PerProjectPerModel",
        }
        details: list[Body] = [{"@type": _RPC + "QuotaFailure", "violations": [violation]}]
        if problem.retry_after_s is not None:
            details.append({"@type": _RPC + "RetryInfo", "retryDelay": f"{problem.retry_after_s:.3f}s"})
        return details
