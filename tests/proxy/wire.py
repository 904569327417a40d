"""Answers of providers, as bytes."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable

from hivemind.providers.frames import frame

SSE = "content-type: text/event-stream"
FRAMES = "content-type: application/vnd.amazon.eventstream"
NDJSON = "content-type: application/x-ndjson"
JSON = "content-type: application/json"
END = b"0\r\n\r\n"


def http(status: int, body: bytes | dict[str, object] = b"", *headers: str) -> bytes:
    """A whole answer with a length; JSON where the body is a dict."""
    if isinstance(body, dict):
        body, headers = json.dumps(body).encode(), (JSON, *headers)
    lines = [f"HTTP/1.1 {status} -", *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def head(*headers: str, status: int = 200) -> bytes:
    """The head of a chunked answer."""
    return "\r\n".join([f"HTTP/1.1 {status} -", *headers, "transfer-encoding: chunked", "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """One chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(parts: Iterable[bytes], *headers: str) -> bytes:
    """A whole chunked answer."""
    return head(*headers) + b"".join(map(chunk, parts)) + END


def event(name: str, **fields: object) -> bytes:
    """One of Anthropic's events, or of OpenAI's responses."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def data(**fields: object) -> bytes:
    """An event without a name."""
    return f"data: {json.dumps(fields)}\n\n".encode()


def line(**fields: object) -> bytes:
    """A line of Ollama's."""
    return json.dumps(fields).encode() + b"\n"


def anthropic_error(kind: str, message: str = "no", **details: object) -> dict[str, object]:
    """An error body of Anthropic's."""
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


MESSAGE_START = event("message_start", message={"id": "m", "usage": {"input_tokens": 11, "output_tokens": 1}})
BLOCK_START = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HELLO = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"})
WORLD = event("content_block_delta", index=0, delta={"type": "text_delta", "text": " world"})
BLOCK_STOP = event("content_block_stop", index=0)
MESSAGE_DELTA = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7})
MESSAGE_STOP = event("message_stop")
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
MESSAGE = (MESSAGE_START, BLOCK_START, HELLO, WORLD, BLOCK_STOP, MESSAGE_DELTA, MESSAGE_STOP)

CHAT = (
    data(id="c", choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}]),
    data(id="c", choices=[{"index": 0, "delta": {"content": "hello"}}]),
    data(id="c", choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
    data(id="c", choices=[], usage={"prompt_tokens": 12, "completion_tokens": 8, "total_tokens": 20}),
    b"data: [DONE]\n\n",
)
RESPONSE = (
    event("response.created", response={"id": "r", "status": "in_progress"}),
    event("response.output_item.added", output_index=0, item={"type": "message"}),
    event("response.output_text.delta", delta="hello"),
    event("response.completed", response={"id": "r", "usage": {"input_tokens": 13, "output_tokens": 9}}),
)
GEMINI = (
    data(candidates=[{"content": {"parts": [{"text": "hello"}]}}]).replace(b"\n", b"\r\n"),
    data(
        candidates=[{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}],
        usageMetadata={"promptTokenCount": 14, "candidatesTokenCount": 10},
    ).replace(b"\n", b"\r\n"),
)
OLLAMA = (
    line(model="m", message={"role": "assistant", "content": "hello"}, done=False),
    line(model="m", message={"role": "assistant", "content": ""}, done=True, prompt_eval_count=15, eval_count=11),
)
ANSWER = http(200, {"id": "m", "type": "message", "usage": {"input_tokens": 3, "output_tokens": 4}})
STREAM = chunked(MESSAGE, SSE)

PLAIN_BODY = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}'
STREAM_BODY = b'{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}'


def framed(kind: str, **payload: object) -> bytes:
    """A frame of Amazon's event streams."""
    names = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(names, json.dumps(payload).encode())


def wrapped(**payload: object) -> bytes:
    """A frame that wraps an event of the model's own."""
    return framed("chunk", bytes=b64encode(json.dumps(payload).encode()).decode(), p="abcdefgh")


FRAMED_CLAUDE = (
    wrapped(type="message_start", message={"usage": {"input_tokens": 30, "output_tokens": 1}}),
    wrapped(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"}),
    wrapped(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 20}),
    wrapped(
        type="message_stop", **{"amazon-bedrock-invocationMetrics": {"inputTokenCount": 30, "outputTokenCount": 20}}
    ),
)
THROTTLED = frame(
    {":exception-type": "throttlingException", ":content-type": "application/json", ":message-type": "exception"},
    b'{"message":"Too many tokens, please wait before trying again."}',
)
