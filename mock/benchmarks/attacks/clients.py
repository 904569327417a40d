"""What hostile clients, and web pages, send to a proxy; each attack is bounded in count and time."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.attacks.upstream import gzipped

_PIECE = 256 * 1024
_PATIENCE_S = 10.0
_CHUNKED_S = 8.0
"""How long a client goes on with a body that has no end, whatever it is answered."""
CLOSED = "closed"
"""Counted for a connection that ended without an answer."""
WAITING = "no answer"
"""Counted for a request that got no answer in time."""

_BODY = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}'
_STREAMED = b'{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hello"}]}'
_JSON_KINDS = ("keys", "nested", "quotes", "escapes", "images", "text")
_STREAM_ANSWERS = (
    *("gzip-stream", "gzip-twice", "comments", "comments-after-content", "empty-lines", "carriage-returns"),
    *("tiny-events", "deltas", "one-record", "lines"),
)
_CHUNKED_ANSWERS = ("tiny-chunks", "tiny-chunks-in-one-event", "tiny-chunks-with-extensions")
_RESETS = ("reset-9999", "reset-1e15", "reset-100000h")
_WHOLE_ANSWERS = ("gzip", "nested", "keys")

Send = Callable[["Aim"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Aim:
    """The proxy under attack, and what it answered."""

    host: str
    port: int
    answers: Counter[str]

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    async def send(self, pieces: Iterator[bytes] | Sequence[bytes], *, patience_s: float = _PATIENCE_S) -> None:
        """Send these on a connection of their own, and count the status of the answer."""
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            self.answers[CLOSED] += 1
            return
        begun = False
        try:
            async with asyncio.timeout(patience_s):
                answered = asyncio.ensure_future(reader.readline())
                with suppress(OSError):
                    for piece in pieces:
                        writer.write(piece)
                        written = asyncio.ensure_future(writer.drain())
                        await asyncio.wait((written, answered), return_when=asyncio.FIRST_COMPLETED)
                        if answered.done():
                            written.cancel()
                            break
                        await written
                line = await answered
                self.answers[line[9:12].decode("latin-1") if line.startswith(b"HTTP/") else CLOSED] += 1
                begun = True
                while await reader.read(_PIECE):
                    pass
        except TimeoutError:
            self.answers[WAITING] += not begun
        except OSError:
            self.answers[CLOSED] += not begun
        finally:
            writer.transport.abort()

    def request(self, path: str = "/v1/messages", body: bytes = _BODY, *headers: str, host: str = "") -> bytes:
        """A POST that closes its connection; the headers come after the usual ones."""
        lines = [
            f"POST {path} HTTP/1.1",
            f"host: {host or self.authority}",
            "content-type: application/json",
            "anthropic-version: 2023-06-01",
            "connection: close",
            f"content-length: {len(body)}",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of hostile traffic."""

    name: str
    send: Send
    times: int = 1
    """How often it is sent, all at once."""
    refused: str = ""
    """The status that a refusal has; empty where the traffic is to be served."""


def _headers(*lines: str) -> Send:
    return lambda aim: aim.send([aim.request("/v1/messages", _BODY, *lines)])


def _path(path: str) -> Send:
    return lambda aim: aim.send([aim.request(path)])


def _body(body: Callable[[], bytes], *headers: str) -> Send:
    async def send(aim: Aim) -> None:
        await aim.send(_cut(aim.request("/v1/messages", body(), *headers)))

    return send


def _answer(name: str, *, streamed: bool = True) -> Send:
    body = _STREAMED if streamed else _BODY
    return lambda aim: aim.send([aim.request(f"/agent/{name}/answer/{name}/v1/messages", body)])


def _frozen(name: str) -> Send:
    """An answer that says that nothing is left for ages, and a request after it, which is answered within a minute."""

    async def send(aim: Aim) -> None:
        for _ in range(2):
            await aim.send([aim.request(f"/agent/{name}/answer/{name}/v1/messages")], patience_s=60.0)

    return send


def _raw(*pieces: bytes) -> Send:
    return lambda aim: aim.send([piece.replace(b"HOST", aim.authority.encode()) for piece in pieces])


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _endless(start: bytes, piece: bytes, times: int) -> Send:
    def pieces(aim: Aim) -> Iterator[bytes]:
        yield start.replace(b"HOST", aim.authority.encode())
        for _ in range(times):
            yield piece

    return lambda aim: aim.send(pieces(aim))


async def _half_heads(aim: Aim) -> None:
    """Connections that begin a head and never end it."""
    writers = []
    for _ in range(400):
        with suppress(OSError):
            _, writer = await asyncio.open_connection(aim.host, aim.port)
            writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: ")
            writers.append(writer)
    await asyncio.sleep(2.0)
    for writer in writers:
        writer.transport.abort()


async def _departures(aim: Aim) -> None:
    """Clients that send two requests at once and leave."""
    for _ in range(200):
        with suppress(OSError):
            _, writer = await asyncio.open_connection(aim.host, aim.port)
            request = aim.request().replace(b"connection: close\r\n", b"")
            writer.write(request + request)
            await asyncio.sleep(0.005)
            writer.transport.abort()


def _json(kind: str) -> Callable[[], bytes]:
    """A request body of 60 MB that is hard to read."""
    size = 60 << 20
    inside: dict[str, Callable[[], bytes]] = {
        "keys": lambda: b",".join(b'"%d":0' % n for n in range(size // 12)),
        "nested": lambda: b'"a":' + b"[" * size,
        "quotes": lambda: b'"a":[' + b'"",' * (size // 3) + b"0]",
        "escapes": lambda: b'"a":"' + b"\\n" * (size // 2) + b'"',
        "images": lambda: b'"messages":[' + b'{"data":"' * (size // 9) + b"]",
        "text": lambda: b'"messages":[{"role":"user","content":"' + b"a" * size + b'"}]',
    }
    return lambda: b'{"model":"m","max_tokens":9,' + inside[kind]() + b"}"


def _chunked(piece: bytes) -> Send:
    """A body without an end, in chunks, sent as fast as it goes for as long as the connection is open."""

    async def send(aim: Aim) -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(aim.host, aim.port)
            answered = asyncio.ensure_future(reader.readline())
            try:
                async with asyncio.timeout(_CHUNKED_S):
                    writer.write(_HEAD.replace(b"HOST", aim.authority.encode()) + b"transfer-encoding: chunked\r\n\r\n")
                    while True:
                        writer.write(piece)
                        await writer.drain()
            except (OSError, TimeoutError):
                pass
            finally:
                line = answered.result() if answered.done() and not answered.exception() else b""
                aim.answers[line[9:12].decode("latin-1") or WAITING] += 1
                answered.cancel()
                writer.transport.abort()

    return send


_HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: HOST\r\n"
_FRAMED = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)

ATTACKS: tuple[Attack, ...] = (
    Attack("agent's name of 10 KB", _headers("x-hivemind-agent: " + "a-" * 5_000), 4, "400"),
    Attack("agent's name of 8 KB in the path", _path("/agent/" + "a-" * 4_000 + "/v1/messages"), 4, "400"),
    Attack("header of 40 KB", _headers("x-a: " + "a-" * 20_000), 4),
    Attack("path of 15 KB", _path("/v1/messages/" + "a-" * 7_500), 4),
    Attack("target of 40 KB", _path("/v1/messages?" + "a-" * 20_000), 4, "414"),
    Attack("header of 1 MB", _headers("x-a: " + "a-" * 500_000), 4, "431"),
    Attack("header of 256 MB", _endless(_HEAD + b"x-a: ", b"a-" * 131_072, 1_024), 1, "431"),
    Attack("1,000 header lines", _headers(*(f"x-{n}: a" for n in range(1_000))), 4, "431"),
    Attack("model's name of 1 MB", _body(lambda: b'{"model":"' + b"m-" * 500_000 + b'"}'), 8),
    Attack("gzip, 200 MB of 200 KB", _body(lambda: gzipped(200), "content-encoding: gzip"), 4),
    Attack("gzip twice, 200 MB of 1 KB", _body(lambda: gzipped(200, 2), "content-encoding: gzip, gzip"), 4),
    Attack("gzip of ordinary JSON", _body(lambda: gzip.compress(_BODY), "content-encoding: gzip"), 4),
    *(Attack(f"JSON of 60 MB: {kind}", _body(_json(kind)), 1) for kind in _JSON_KINDS),
    *(Attack(f"answer: {name}", _answer(name), 2) for name in _STREAM_ANSWERS),
    *(Attack(f"answer: {name}", _answer(name), 16) for name in _CHUNKED_ANSWERS),
    *(Attack(f"whole answer: {name}", _answer(name, streamed=False), 2) for name in _WHOLE_ANSWERS),
    Attack("answer: error", _answer("error"), 2, "400"),
    *(Attack(f"{name}, then another request", _frozen(name)) for name in _RESETS),
    Attack("redirect of a stream", _answer("redirect"), 4, "302"),
    Attack("page instead of a stream", _answer("page"), 4),
    Attack(
        "length named by connection",
        _raw(_HEAD + b"connection: upgrade, content-length\r\nupgrade: h2c\r\n" + _FRAMED),
        4,
    ),
    Attack("two hosts", _raw(_HEAD + b"host: b\r\n" + _FRAMED), 4, "400"),
    Attack("no host", _raw(b"POST /v1/messages HTTP/1.1\r\n" + _FRAMED), 4, "400"),
    Attack("HTTP/0.9", _raw(b"GET /\r\n\r\n"), 4, "505"),
    Attack(
        "chunked in HTTP/1.0",
        _raw(b"POST /v1/messages HTTP/1.0\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        4,
        "400",
    ),
    Attack("NUL in a header", _raw(_HEAD + b"x-a: \0\r\n" + _FRAMED), 4, "400"),
    Attack(
        "body larger than it may be",
        _endless(_HEAD + b"content-length: 99999999999\r\n\r\n", b"a" * _PIECE, 400),
        4,
        "413",
    ),
    Attack("body in chunks of one byte", _chunked(b"1\r\na\r\n" * 10_000), 16, "400"),
    Attack("body in chunks of one byte with extensions", _chunked(b"1;a=bbbbbbbbb\r\na\r\n" * 4_000), 16, "400"),
    Attack("path that climbs", _path("/v1/../../messages"), 4, "400"),
    Attack("host of another site", lambda aim: aim.send([aim.request(host="evil.example")]), 4, "421"),
    Attack("page of another site", _headers("origin: https://evil.example"), 4, "403"),
    Attack("400 heads without an end", _half_heads),
    Attack("200 clients that pipeline and leave", _departures),
)
