"""Answers that aren't what was asked for: errors of the provider, or of what stands before it, and oddities."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from faults.formats import Api, Malformed
from faults.upstream import good_answer
from proxy.kit import Close, Play, playing
from proxy.wire import END, JSON, chunk, head
from upstream.scripted import Handler

from hivemind_mock.provider.formats.base import ApiError, ErrorKind

HTML = "content-type: text/html"
TEXT = "content-type: text/plain"
_BITS = 7
_IDENT = "abcdefghijklmnopqrstuvwx"


class Kind(Enum):
    """What should become of an answer."""

    FINAL = "final"
    """Another attempt would bring the same: passed on at once."""
    TEMPORARY = "temporary"
    """Retried; at the last attempt it is passed on."""
    UNFIT = "unfit"
    """Retried; nothing of it is fit to be passed on, so the last one is a 502."""
    GOOD = "good"
    """An answer after all."""


@dataclass(frozen=True)
class Answer:
    """An answer by its name."""

    name: str
    whole: Kind
    """For a request of a whole answer."""
    stream: Kind
    """For a stream."""
    make: Callable[[Api, bool], Play]

    def kind(self, stream: bool) -> Kind:
        """What should become of it."""
        return self.stream if stream else self.whole

    def upstream(self, api: Api, stream: bool, *first: Play, lasting: bool) -> Handler:
        """Gives `first`, then this answer, once or each time; after it, good ones."""
        bad = self.make(api, stream)
        return playing(*first, bad) if lasting else playing(*first, bad, good_answer(api, stream))

    def passed_on(self, api: Api, stream: bool) -> tuple[int, bytes]:
        """Status and body, as the upstream sent them."""
        wire = b"".join(step for step in self.make(api, stream) if isinstance(step, bytes))
        first, _, body = wire.partition(b"\r\n\r\n")
        return int(first.split(b" ")[1]), body

    def is_error(self, api: Api, stream: bool) -> bool:
        """Whether it is an error in the provider's format."""
        try:
            api.whole_error(self.passed_on(api, stream)[1])
        except Malformed:
            return False
        return True


def _http(status: int, body: bytes, *headers: str) -> Play:
    lines = [f"HTTP/1.1 {status} -", *headers, f"content-length: {len(body)}", "", ""]
    return ["\r\n".join(lines).encode() + body]


def _page(status: int) -> bytes:
    return b"<html><head><title>%d</title></head><body><center>cloudflare</center></body></html>" % status


def _both(name: str, kind: Kind, make: Callable[[Api, bool], Play]) -> Answer:
    return Answer(name, kind, kind, make)


def _error(name: str, kind: Kind, status: int, *headers: str) -> Answer:
    """An error of the provider's, in its format."""
    return _both(name, kind, lambda api, stream: _http(status, api.error_body(status, "no"), JSON, *headers))


def _from_mock(name: str, kind: Kind, error: ErrorKind, retry_after_s: float | None = None) -> Answer:
    """An error as the mock provider words it, with the delay where the format has it."""

    def make(api: Api, stream: bool) -> Play:
        status, headers, body = api.wire.error(ApiError(error, "no", _IDENT, retry_after_s))
        told = [f"{name.decode()}: {value.decode()}" for name, value in headers]
        return _http(status, api.encoded(body), JSON, *told)

    return _both(name, kind, make)


def _paged(kind: Kind, status: int) -> Answer:
    """A page of what stands before the provider."""
    return _both(f"{status} (page)", kind, lambda api, stream: _http(status, _page(status), HTML))


def _fixed(name: str, whole: Kind, stream: Kind, play: Play) -> Answer:
    return Answer(name, whole, stream, lambda api, stream: play)


def _before(*firsts: bytes) -> Callable[[Api, bool], Play]:
    return lambda api, stream: [*firsts, *good_answer(api, stream)]


def _zipped(damage: Callable[[bytes], bytes], *, cut: bool) -> Callable[[Api, bool], Play]:
    """A good answer as gzip, damaged; of the stream all of the content is in the part that is whole."""

    def make(api: Api, stream: bool) -> Play:
        data = damage(gzip.compress(api.stream if stream else api.whole))
        first = head(api.stream_type if stream else JSON, "content-encoding: gzip") + chunk(data)
        return [first, Close()] if cut else [first + END]

    return make


def _in_bits(api: Api, stream: bool) -> Play:
    wire = b"".join(step for step in good_answer(api, stream) if isinstance(step, bytes))
    return [wire[at : at + _BITS] for at in range(0, len(wire), _BITS)]


def _unframed(api: Api, stream: bool) -> Play:
    first = f"HTTP/1.1 200 OK\r\n{api.stream_type if stream else JSON}\r\n\r\n".encode()
    return [first + (api.stream if stream else api.whole), Close()]


_FINAL, _TEMPORARY, _UNFIT, _GOOD = Kind.FINAL, Kind.TEMPORARY, Kind.UNFIT, Kind.GOOD


def _statuses(kind: Kind, statuses: Iterable[int]) -> list[Answer]:
    return [_error(str(status), kind, status) for status in statuses]


ANSWERS = [
    *_statuses(_FINAL, (400, 401, 402, 403, 404, 409, 413, 422)),
    *_statuses(_TEMPORARY, (408, 429, 500)),
    *_statuses(_FINAL, (501,)),
    *_statuses(_TEMPORARY, (502, 503, 504, 529)),
    _from_mock("429 with a delay in the provider's form", _TEMPORARY, ErrorKind.RATE_LIMITED, 0.4),
    _from_mock("overload in the provider's words", _TEMPORARY, ErrorKind.OVERLOADED),
    _from_mock("quota used up", _FINAL, ErrorKind.QUOTA),
    _error("429 with `retry-after-ms: 20`", _TEMPORARY, 429, "retry-after-ms: 20"),
    _error("429 with `retry-after: 0`", _TEMPORARY, 429, "retry-after: 0"),
    _error("429 with `retry-after: 7200`", _FINAL, 429, "retry-after: 7200"),
    _error("503 with `x-should-retry: false`", _FINAL, 503, "x-should-retry: false"),
    _error("400 with `x-should-retry: true`", _TEMPORARY, 400, "x-should-retry: true"),
    _paged(_FINAL, 403),
    _paged(_TEMPORARY, 502),
    *[_paged(_TEMPORARY, status) for status in (520, 521, 522, 523, 524, 525, 526)],
    _paged(_FINAL, 530),
    _fixed("429 (empty)", _TEMPORARY, _TEMPORARY, _http(429, b"")),
    _fixed("500 (empty)", _TEMPORARY, _TEMPORARY, _http(500, b"")),
    _fixed("503 (text)", _TEMPORARY, _TEMPORARY, _http(503, b"upstream connect error", TEXT)),
    _fixed("502 (cut)", _UNFIT, _UNFIT, [b"HTTP/1.1 502 -\r\ncontent-length: 99\r\n\r\nno", Close()]),
    _both("200 (error in JSON)", _TEMPORARY, lambda api, _: _http(200, api.error_body(503, "no"), JSON)),
    _fixed("200 (empty)", _UNFIT, _UNFIT, _http(200, b"")),
    _fixed("200 (empty JSON)", _UNFIT, _UNFIT, _http(200, b"", JSON)),
    _fixed("200 (page)", _FINAL, _FINAL, _http(200, _page(200), HTML)),
    _fixed("200 (text)", _FINAL, _UNFIT, _http(200, b"upstream connect error", TEXT)),
    _fixed("204", _FINAL, _FINAL, [b"HTTP/1.1 204 -\r\n\r\n"]),
    _fixed("302", _FINAL, _FINAL, _http(302, b"", "location: https://elsewhere.invalid/")),
    _fixed("101", _UNFIT, _UNFIT, [b"HTTP/1.1 101 -\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]),
    _both("100 before 200", _GOOD, _before(b"HTTP/1.1 100 Continue\r\n\r\n")),
    _both("200 (a few bytes at a time)", _GOOD, _in_bits),
    _both("200 (framed by the connection's end)", _GOOD, _unframed),
    _both("103 twice before 200", _GOOD, _before(b"HTTP/1.1 103 -\r\nlink: x\r\n\r\n" * 2)),
    _both("200 (control character in its head)", _UNFIT, lambda api, stream: _http(200, api.whole, JSON, "x-a: \x01")),
    _both("200 (two lengths)", _UNFIT, lambda api, stream: _http(200, api.whole, JSON, "content-length: 1")),
    _both("200 (gzip cut in its first bytes)", _UNFIT, _zipped(lambda data: data[:12], cut=True)),
]
