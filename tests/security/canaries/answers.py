"""Every place of an answer in which an upstream can put a key: one of its own, or the one that it was sent."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterator

from proxy.wire import anthropic_error, chunk, event, http
from security.canaries.keys import MARK, Keys

Answer = Callable[[str], bytes]
"""Makes an answer of a key."""
_SENT = re.compile(rb"[\w.~+/-]*" + MARK.encode() + rb"[0-9a-f]{4}0*" + MARK.encode(), re.IGNORECASE)
USAGE = {"input_tokens": 3, "output_tokens": 4}


def _head(status: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "content-length: 0", "", ""]).encode()


def _stream(*parts: bytes) -> bytes:
    return http(200, b"".join(parts), "content-type: text/event-stream")


def _error(status: int) -> Answer:
    return lambda key: http(status, anthropic_error(f"bad_{key}", f"your key {key} isn't one", param=key, code=key))


def _with(status: int, line: str) -> Answer:
    return lambda key: http(status, {"usage": USAGE} if status == 200 else anthropic_error("x"), line.format(key))


def _answered(key: str) -> bytes:
    said = [{"type": "text", "text": f"it is {key}"}, {"type": "tool_use", "name": key, "input": {"a": key}}]
    return http(200, {"id": key, "model": key, "content": said, "stop_reason": key, "usage": USAGE, key: 1})


def _streamed(key: str) -> bytes:
    start = event("message_start", message={"id": key, "model": key, "usage": USAGE})
    text = event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"it is {key}, I think"})
    end = event("message_delta", delta={"stop_reason": key}, usage=USAGE) + event("message_stop")
    return _stream(start, text, end)


def _in_chunks(size: int, offset: int = 0) -> Answer:
    """A stream whose chunks end anywhere, also within keys."""

    def answer(key: str) -> bytes:
        head, body = _streamed(key).split(b"\r\n\r\n", 1)
        head = re.sub(rb"\r\ncontent-length: \d+", b"", head, flags=re.IGNORECASE)
        pieces = [body[:offset], *(body[at : at + size] for at in range(offset, len(body), size))]
        chunks = b"".join(map(chunk, filter(None, pieces)))
        return head + b"\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    return answer


def _cut(key: str) -> bytes:
    start = event("message_start", message={"usage": USAGE})
    return b"HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(
        start + event(key, text=key)
    )


ANSWERS: dict[str, Answer] = {
    "error": _error(400),
    "refusal": _error(401),
    "refusal for good": _error(403),
    "overload": _error(529),
    "error that is text": lambda key: http(400, f"no: {key}".encode(), "content-type: text/plain"),
    "error that is HTML": lambda key: http(502, f"<title>{key}</title>{key}".encode(), "content-type: text/html"),
    "reason": lambda key: _head(f"400 {key}"),
    "status": lambda key: _head(key),
    "no HTTP": lambda key: f"{key}\r\n\r\n".encode(),
    "location": _with(307, "location: https://x/?key={0}&a={0}"),
    "cookie": _with(200, "set-cookie: session={}; Path=/"),
    "retry-after": _with(429, "retry-after: {}"),
    "rate limit": _with(200, "anthropic-ratelimit-requests-reset: {0}\r\nx-ratelimit-limit-requests: {0}"),
    "request id": _with(400, "request-id: {0}\r\nx-request-id: {0}\r\nserver: {0}\r\nvia: {0}"),
    "header": _with(200, "x-made-up: {0}\r\nx-api-key: {0}\r\nwww-authenticate: Bearer realm={0}\r\nx-{0}: 1"),
    "content coding": _with(200, "content-encoding: {}"),
    "content type": lambda key: http(200, b"{}", f"content-type: application/{key}; charset={key}"),
    "length": lambda key: f"HTTP/1.1 200 -\r\ncontent-length: {key}\r\n\r\n".encode(),
    "answer": _answered,
    "stream": _streamed,
    **{f"stream in chunks of {size}": _in_chunks(size) for size in (1, 7, 16)},
    **{f"stream in chunks from {offset}": _in_chunks(64, offset) for offset in range(1, 64, 9)},
    "error in a stream": lambda key: _stream(event("error", error={"type": key, "message": f"no {key}"})),
    "stream cut off": _cut,
    "bad chunk": lambda key: f"HTTP/1.1 200 -\r\ntransfer-encoding: chunked\r\n\r\n{key}\r\n".encode(),
    "trailer": lambda key: f"HTTP/1.1 200 -\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-a: {key}\r\n\r\n".encode(),
}


class Upstream:
    """Answers each request in the next way: with a key of its own in one round, with that of the request in another."""

    def __init__(self, keys: Keys, name: str) -> None:
        self.requests: list[bytes] = []
        self._ways = itertools.cycle(self._made(keys, name))

    def _made(self, keys: Keys, name: str) -> Iterator[tuple[Answer, str | None]]:
        for echoed in (False, True):
            for case, answer in ANSWERS.items():
                yield answer, None if echoed else keys.known(f"{name}: {case}")

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                if b"transfer-encoding: chunked" in head.lower():
                    body = await reader.readuntil(b"0\r\n\r\n")
                self.requests.append(head + body)
                answer, key = next(self._ways)
                sent = _SENT.search(head + body)
                writer.write(answer(key or (sent[0].decode() if sent else json.dumps(None))))
                await writer.drain()
                if answer in (_cut, ANSWERS["length"], ANSWERS["bad chunk"], ANSWERS["no HTTP"], ANSWERS["status"]):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
