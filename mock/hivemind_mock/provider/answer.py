"""Plays out one admitted request: the wait, the answer or its stream, and the fault drawn for it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable

import brotli
import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from hivemind.packing import zstd
from hivemind_mock.provider.cache import Found
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.faults import Fate, Fault
from hivemind_mock.provider.formats.base import ApiError, ErrorKind, Format, Headers, MockReply, Request, ToolCall

_EDGE_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    b"<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
)
_EARLY = frozenset({Fault.RESET_EARLY, Fault.ERROR_EARLY})
_TEXT = (
    "I read the failing test first and it waits for a reply that never comes because the lock is taken twice "
    "on the retry path so the fix is to release it before we sleep and to take it again only when there is work "
    "to do then the queue drains in order and every caller sees its own answer next I looked at how the cache "
    "decides what to drop and found that an entry which is being written counts as idle which explains the "
    "missing rows in the report after that change both suites pass and the run takes half as long as before I "
    "also moved the parsing into one place gave the errors names that say what to do and wrote down why the "
    "limit is where it is what remains is the migration it needs a backup a dry run and one line in the notes"
)
_WORDS = _TEXT.split()
Drop = Callable[[bool], None]
"""Ends the connection at once: True resets it (RST), False closes it in good order (FIN) with the answer unfinished."""
DROP = "hivemind_mock.drop"
"""Key of a :data:`Drop` in `scope["extensions"]`, of servers that can do it. After the call they report
`http.disconnect`. Both servers of the mock can: :mod:`.serve` on sockets, :mod:`.inprocess` without."""


class Connection:
    """The client's side of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._drop: Drop | None = scope.get("extensions", {}).get(DROP)
        self._receive = receive
        self._send = send
        self.dropped = False

    async def start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def reply(self, status: int, headers: Headers, data: bytes) -> None:
        """Send a whole reply."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(data))])
        await self.body(data, more=False)

    async def reply_json(self, status: int, body: object, headers: Headers | None = None) -> None:
        await self.reply(status, [(b"content-type", b"application/json"), *(headers or [])], msgspec.json.encode(body))

    def drop(self, *, reset: bool) -> None:
        """End the connection with the reply unfinished. Raises RuntimeError under a server that can't."""
        if self._drop is None:
            raise RuntimeError("this server can't drop connections; use hivemind_mock.provider's serve or inprocess")
        self.dropped = True
        self._drop(reset)

    async def ended(self) -> None:
        """Wait until the connection is gone, or the reply complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Answer(Struct):
    """Plays one fate to one client."""

    config: MockConfig
    wire: Format
    request: Request
    fate: Fate
    connection: Connection
    sleep: Callable[[float], Awaitable[object]]
    headers: Callable[[], Headers]
    """Called when the reply's head goes out."""
    begins: Callable[[], object]
    """Called when its content begins."""
    echo: str = ""
    """Stands in front of each piece of the text, with the piece's number; empty: nothing does."""
    planned: ToolCall | str = ""
    """What to answer with; empty: any text."""
    found: Found | None = None
    """What a cache had of the prompt; None: what is read and written are shares of it."""
    reply: MockReply | None = None
    """The answer, once it was made."""
    produced: int = 0
    """Output tokens generated so far."""
    left: bool = False
    """The client went away."""

    @property
    def first_s(self) -> float:
        """The time to the first token, the prompt's computation included."""
        given, found = self.request.input_tokens, self.found
        computed = given * (1 - self.config.reply.cache_read) if found is None else given - found.read
        return self.fate.first_s + self.config.latency.input_token_s * computed

    async def run(self, accepted: bytes, wall: float) -> bool:
        """Play to the end; False where the client left before it. `accepted` is the client's `accept-encoding`."""
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.ensure_future(self._watch(task))
        try:
            self.reply = self._reply(wall)
            await self._play(_encoder(self.config.reply.encoding, accepted), self.reply)
        except asyncio.CancelledError:
            if not self.left:
                raise
            task.uncancel()
            return False
        finally:
            watch.cancel()
        return True

    async def _watch(self, task: asyncio.Task[object]) -> None:
        await self.connection.ended()
        self.left = True
        task.cancel()

    def _reply(self, wall: float) -> MockReply:
        fate, longest = self.fate, self.request.max_tokens
        tokens = min(fate.tokens, longest) if longest else fate.tokens
        call, config, given = None, self.config.reply, self.request.input_tokens
        pieces = _pieces(fate.start, tokens, config.event_tokens, self.echo)
        if isinstance(self.planned, ToolCall):
            call, text = self.planned, self.planned.text
            pieces = (text[: len(text) // 2], text[len(text) // 2 :])
        elif self.planned:
            pieces = (self.planned,)
        if self.found is None:
            written = int(given * config.cache_write)
            read, written_1h = int(given * config.cache_read), int(written * config.cache_1h)
        else:
            read, written = self.found.read, self.wire.states_written(self.request, self.found.written)
            written_1h = min(written, self.found.written_1h)
        return MockReply(
            ident=fate.ident,
            created=int(wall),
            pieces=pieces,
            output_tokens=tokens,
            cut=tokens < fate.tokens and not self.planned,
            took_s=self.first_s + self.config.latency.token_s * tokens,
            call=call,
            cache_read=read,
            cache_written=written,
            cache_written_1h=written_1h,
        )

    async def _play(self, encoder: _Encoder, reply: MockReply) -> None:
        fate = self.fate
        if fate.fault in (Fault.BAD_GATEWAY, Fault.RESET):
            await self.sleep(self.first_s * fate.strikes)
            if fate.fault is Fault.RESET:
                self.connection.drop(reset=True)
            else:
                await self._bad_gateway()
        elif self.request.stream:
            await self._stream(encoder, reply)
        else:
            await self._whole(encoder, reply)

    async def _bad_gateway(self) -> None:
        if self.fate.from_edge:
            ray = self.fate.ident[:16].lower().encode() + b"-MCK"
            head = [(b"content-type", b"text/html"), (b"server", b"cloudflare"), (b"cf-ray", ray)]
            await self.connection.reply(502, head, _EDGE_PAGE)
        else:
            error = ApiError(ErrorKind.BAD_GATEWAY, "Bad gateway", self.fate.ident)
            status, extra, body = self.wire.error(error)
            await self.connection.reply_json(status, body, extra + self.headers())

    async def _whole(self, encoder: _Encoder, reply: MockReply) -> None:
        await self.sleep(reply.took_s)
        self.begins()
        self.produced = reply.output_tokens
        body = encoder.piece(msgspec.json.encode(self.wire.whole(self.request, reply))) + encoder.end()
        head = [(b"content-type", b"application/json"), *self.headers(), *encoder.headers]
        fault = self.fate.fault
        if fault is None:
            await self.connection.reply(200, head, body)
            return
        await self.connection.start(200, [*head, (b"content-length", b"%d" % len(body))])
        if fault is not Fault.RESET_EARLY:
            await self.connection.body(body[: len(body) // 2])
        self.connection.drop(reset=fault is not Fault.TRUNCATED)

    async def _stream(self, encoder: _Encoder, reply: MockReply) -> None:
        await self.sleep(self.first_s / 2)
        head = [(b"content-type", self.wire.stream_type), (b"cache-control", b"no-cache")]
        await self.connection.start(200, [*head, *self.headers(), *encoder.headers])
        if opening := self.wire.opening(self.request, reply):
            await self.connection.body(encoder.piece(opening))
        await self.sleep(self.first_s / 2)
        self.begins()
        event_tokens = self.config.reply.event_tokens
        sent = self._pieces_before_fault(reply)
        for index in range(sent):
            if index:
                await self.sleep(self.config.latency.token_s * event_tokens)
            await self.connection.body(encoder.piece(self.wire.piece(self.request, reply, index)))
            self.produced = min(reply.output_tokens, self.produced + event_tokens)
        await self._end_stream(encoder, reply, sent)

    def _pieces_before_fault(self, reply: MockReply) -> int:
        count, fault = len(reply.pieces), self.fate.fault
        if fault is None:
            return count
        return 0 if fault in _EARLY else max(1, int(count * self.fate.strikes))

    async def _end_stream(self, encoder: _Encoder, reply: MockReply, sent: int) -> None:
        fault, last = self.fate.fault, b""
        if fault in (Fault.RESET_EARLY, Fault.RESET_MID):
            self.connection.drop(reset=True)
            return
        if fault in (Fault.ERROR_EARLY, Fault.ERROR_MID):
            error = ApiError(ErrorKind.OVERLOADED, "Overloaded", self.fate.ident)
            last = encoder.piece(self.wire.stream_error(self.request, error, sent))
        elif fault is not Fault.TRUNCATED:
            last = encoder.piece(self.wire.closing(self.request, reply))
        await self.connection.body(last + encoder.end(), more=False)


def _pieces(start: int, tokens: int, size: int, echo: str) -> tuple[str, ...]:
    """A text of so many words, a token each, in parts of `size` words (the last may be shorter)."""
    words = [_WORDS[(start + index) % len(_WORDS)] + " " for index in range(tokens)]
    pieces = ("".join(words[at : at + size]) for at in range(0, tokens, size))
    return tuple(f"{echo}.{number} {piece}" for number, piece in enumerate(pieces)) if echo else tuple(pieces)


# --- Content encodings ------------------------------------------------------------------------------------------------


class _Encoder(Struct, frozen=True):
    """Compresses one body; every piece can be decoded as soon as it has arrived."""

    headers: Headers
    piece: Callable[[bytes], bytes]
    end: Callable[[], bytes]


def _encoder(name: str, accepted: bytes) -> _Encoder:
    """An encoder for the content encoding, or for identity where the client's `accept-encoding` lacks it."""
    offers = {offer.split(b";")[0].strip() for offer in accepted.lower().split(b",")}
    headers = [(b"content-encoding", name.encode())]
    if name.encode() not in offers or name == "identity":
        return _Encoder([], lambda data: data, bytes)
    if name == "gzip":
        gzip = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        return _Encoder(headers, lambda data: gzip.compress(data) + gzip.flush(zlib.Z_SYNC_FLUSH), gzip.flush)
    if name == "br":
        br = brotli.Compressor(quality=4)
        return _Encoder(headers, lambda data: br.process(data) + br.flush(), br.finish)
    stream = zstd.ZstdCompressor()
    return _Encoder(headers, lambda data: stream.compress(data, stream.FLUSH_BLOCK), stream.flush)


def decode(body: bytes, encoding: bytes) -> bytes:
    """A request body without its content encoding. Raises ValueError for what can't be decoded."""
    try:
        match encoding:
            case b"" | b"identity":
                return body
            case b"gzip" | b"deflate":
                return zlib.decompress(body, zlib.MAX_WBITS | 32)
            case b"br":
                return bytes(brotli.decompress(body))
            case b"zstd":
                return zstd.decompress(body)
    except (zlib.error, brotli.error, zstd.ZstdError) as error:
        raise ValueError(f"request body is not valid {encoding.decode()}") from error
    raise ValueError("unsupported content-encoding")
