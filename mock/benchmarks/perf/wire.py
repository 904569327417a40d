"""What goes over the wire: a small request and reply in the form of Anthropic's Messages API, and a stamped stream."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from benchmarks.perf.target import Target

PATH = "/v1/messages"
MODEL = "perf"
KEY = "sk-perf"
_PROMPT = (
    "Say in one paragraph what a reverse proxy does, and when a program would want to have one in front of it. " * 2
)
_TURNS = [{"role": ("user", "assistant")[n % 2], "content": f"{n}: {_PROMPT * 5}"[:1000]} for n in range(200)]
_ANSWER = "A reverse proxy stands before a server and takes its requests. " * 11
_MESSAGE: dict[str, object] = {
    "id": "msg_01PerfPerfPerfPerfPerfPe",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 40, "output_tokens": 1},
}
_STAMP = re.compile(rb'"text": ?"(\d+) (\d+)"')
_PACE = re.compile(rb"events=(\d+) every_us=(\d+) ")


@dataclass(frozen=True, slots=True)
class Pace:
    """A stream: how many events, and the time between two of them. It travels in the prompt, which every gateway passes
    on as it is."""

    events: int
    every_s: float

    @property
    def asked(self) -> str:
        return f"events={self.events} every_us={round(self.every_s * 1e6)} "

    @classmethod
    def of(cls, body: bytes) -> Pace | None:
        """What a request's body asks for; None: a whole reply."""
        found = _PACE.search(body)
        return None if found is None else cls(int(found[1]), int(found[2]) / 1e6)


def request(target: Target, number: int, pace: Pace | None = None) -> bytes:
    """A request of about 300 bytes of JSON, and what the target's turns take, with the headers that matter to a proxy,
    by the client of that number."""
    asked = {
        "model": MODEL,
        "max_tokens": 256,
        "stream": pace is not None,
        "messages": [*_TURNS[: target.turns], {"role": "user", "content": (pace.asked if pace else "") + _PROMPT}],
    }
    body = msgspec.json.encode(asked)
    head = (
        f"POST {target.prefix.format(number)}{PATH} HTTP/1.1\r\n"
        f"host: {target.authority}\r\n"
        "user-agent: hivemind-perf\r\n"
        "accept: application/json\r\n"
        "content-type: application/json\r\n"
        "anthropic-version: 2023-06-01\r\n"
        f"x-api-key: {KEY}\r\n"
        f"{target.headers}"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def reply() -> bytes:
    """A whole response with about 1 KB of JSON."""
    usage = {"input_tokens": 40, "output_tokens": 180}
    content = [{"type": "text", "text": _ANSWER}]
    body = msgspec.json.encode({**_MESSAGE, "content": content, "stop_reason": "end_turn", "usage": usage})
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def stream_head() -> bytes:
    """The head of a stream, and what comes before its first content."""
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    opening = _event("message_start", {"type": "message_start", "message": _MESSAGE}) + _event(block["type"], block)
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n\r\n" + chunk(opening)
    )


def stamped(number: int, sent_ns: int) -> bytes:
    """Event `number` of a stream, sent at `sent_ns` of the machine's monotonic clock."""
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d %d"}}' % (number, sent_ns)
    return chunk(b"event: content_block_delta\ndata: %b\n\n" % delta)


def stream_end(events: int) -> bytes:
    """What comes after a stream's last content."""
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    closing = (
        _event("content_block_stop", {"type": "content_block_stop", "index": 0})
        + _event("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": events}})
        + _event("message_stop", {"type": "message_stop"})
    )
    return chunk(closing) + b"0\r\n\r\n"


def stamps(events: bytes) -> list[tuple[int, int]]:
    """Number and send time of each stamped event in a piece of a stream, in the order in which they stand there."""
    return [(int(number), int(sent_ns)) for number, sent_ns in _STAMP.findall(events)]


def chunk(data: bytes) -> bytes:
    """A chunk of a chunked body (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(name: object, data: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
