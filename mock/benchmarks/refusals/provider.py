"""A provider that refuses every request to a model, and counts them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from hivemind.providers.dialect import Dialect
from hivemind.providers.paths import dialect_for, is_free

TEXT = (
    "HiveMind: alice's budget is used up (7 of 5 tokens used this run); raise it with `hivemind budget alice AMOUNT`,"
    " or with B in the control room, then ask again"
)
MARK = "budget is used up (7 of 5 tokens used this run)"
"""Of the text, what a client has to show."""
When = Literal["at once", "in a session", "in a stream"]
"""Every request is refused; or those with a tool's output are, and the others answered with a call of that tool; or the
first gets the refusal as the event of a stream that had begun."""
_OUTPUTS = (b"tool_result", b"function_call_output", b"functionResponse", b'"role":"tool"', b'"role": "tool"')
"""What a request with a tool's output holds."""

_SSE = "text/event-stream; charset=utf-8"
_JSON = "application/json"


@dataclass(slots=True)
class Refusing:
    """One client's provider. `tool` is a tool of that client's, which the answer of a session calls."""

    status: int
    when: When = "at once"
    tool: str = "bash"
    url: str = ""
    refused: list[str] = field(default_factory=list)
    """Paths of the requests that were refused."""

    def answer(self, path: str, query: str, body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return status, headers and body for a request to a model."""
        dialect = dialect_for(path)
        facts = dialect.facts(path, query, [], body)
        if self.when == "in a session" and not any(output in body for output in _OUTPUTS):
            return 200, _typed(_SSE if facts.stream else _JSON), _call(dialect, self.tool, stream=facts.stream)
        self.refused.append(path)
        if len(self.refused) == 1 and facts.stream and self.when == "in a stream":
            return 200, _typed(_SSE), dialect.stream_error(self.status, "budget", TEXT)
        headers, refusal = dialect.refusal(self.status, "budget", TEXT, None)
        kept = [pair for pair in headers if pair[0] not in (b"x-should-retry", b"retry-after")]
        return self.status, [*kept, (b"x-should-retry", b"false")], refusal

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection's requests."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                method, target, _ = line.decode("latin-1").split(" ", 2)
                body = await _body(reader)
                path, _, query = target.partition("?")
                if method != "POST" or dialect_for(path).name == "plain" or is_free(method, path.encode(), b""):
                    status, headers, answer = 404, _typed(_JSON), b"{}"
                else:
                    status, headers, answer = self.answer(path, query, body)
                head = b"".join(b"%b: %b\r\n" % pair for pair in headers)
                writer.write(b"HTTP/1.1 %d x\r\n%bcontent-length: %d\r\n\r\n%b" % (status, head, len(answer), answer))
                await writer.drain()
        writer.close()


@asynccontextmanager
async def refusing(status: int, when: When, tool: str) -> AsyncIterator[Refusing]:
    """Serve such a provider on a free port."""
    provider = Refusing(status, when, tool)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 26)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()


async def _body(reader: asyncio.StreamReader) -> bytes:
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    body = b""
    while headers.get("transfer-encoding") == "chunked":
        piece = await reader.readexactly(int(await reader.readline(), 16) + 2)
        if len(piece) == 2:
            break
        body += piece[:-2]
    return body


def _typed(media: str) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", media.encode())]


def _events(*events: dict[str, object], named: bool = True) -> bytes:
    names = [f"event: {each['type']}\n" if named else "" for each in events]
    return "".join(f"{name}data: {json.dumps(each)}\n\n" for name, each in zip(names, events, strict=True)).encode()


def _call(dialect: Dialect, tool: str, *, stream: bool) -> bytes:
    """Return an answer that calls a tool."""
    given = {"command": "echo hi", "description": "say hi"}
    if dialect.name == "anthropic":
        use: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        usage = {"input_tokens": 5, "output_tokens": 2}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        if not stream:
            done = {**message, "content": [{**use, "input": given}], "stop_reason": "tool_use"}
            return json.dumps(done).encode()
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        return _events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": use},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        )
    if dialect.name == "openai_responses":
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool, "status": "completed"}
        item["arguments"] = json.dumps(given)
        used = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        whole = {**response, "output": [item], "usage": used}
        if not stream:
            return json.dumps(whole).encode()
        return _events(
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )
    if dialect.name == "google":
        part = {"functionCall": {"name": tool, "args": given}}
        counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        chunk: dict[str, object] = {"candidates": [candidate], "usageMetadata": counts}
        return _events(chunk, named=False) if stream else json.dumps(chunk).encode()
    function = {"name": tool, "arguments": json.dumps(given)}
    calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
    told = {"role": "assistant", "content": None, "tool_calls": calls}
    totals = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    about: dict[str, object] = {"id": "chatcmpl-1", "created": 1, "model": "m"}
    if not stream:
        choices = [{"index": 0, "message": told, "finish_reason": "tool_calls"}]
        return json.dumps({**about, "object": "chat.completion", "choices": choices, "usage": totals}).encode()
    kind = {**about, "object": "chat.completion.chunk"}
    return (
        _events(
            {**kind, "choices": [{"index": 0, "delta": told, "finish_reason": None}]},
            {**kind, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": totals},
            named=False,
        )
        + b"data: [DONE]\n\n"
    )
