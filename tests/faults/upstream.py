"""An upstream that misbehaves in each way at each moment, below HTTP and in it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from faults.formats import Api
from proxy.kit import Close, Hang, Play, Reset, playing
from proxy.wire import END, JSON, chunk, head
from upstream.scripted import Handler, Scripted, reset


class Phase(Enum):
    """When an attempt ends, in the order of time."""

    CONNECT = "on connect"
    REQUEST = "before the head"
    HEAD = "in the head"
    START = "after the head"
    OPENING = "before content"
    CONTENT = "in the content"
    EVENT = "inside an event"
    LAST = "before the end marker"
    MARKER = "after the end marker"
    END = "after the end"


STREAM_ONLY = frozenset({Phase.OPENING, Phase.EVENT, Phase.MARKER})
"""A whole answer has no events, and ends with its last byte."""
SILENT_S = 2.0
"""Both timeouts of a proxy whose upstream falls silent: far longer than an answer takes on a busy machine."""


class Ending(Enum):
    """How an attempt ends."""

    REFUSED = "refused"
    CLOSED = "closed"
    RESET = "reset"
    SILENT = "silent"
    GARBAGE = "garbage"
    CLEAN = "ends cleanly"
    ERROR = "error event"

    def phases(self, stream: bool) -> Iterator[Phase]:
        """Moments at which an attempt can end so."""
        for phase in Phase:
            if phase in STREAM_ONLY and not stream:
                continue
            answering = phase.value in _ANSWERING
            if {
                Ending.REFUSED: phase is Phase.CONNECT,
                Ending.SILENT: phase not in (Phase.CONNECT, Phase.END),
                Ending.CLEAN: answering and phase is not Phase.MARKER,
                Ending.ERROR: answering and stream and phase not in (Phase.EVENT, Phase.MARKER),
            }.get(self, True):
                yield phase


_ANSWERING = frozenset(each.value for each in list(Phase)[3:-1])
_ENDED = (Ending.CLEAN, Ending.ERROR)
GZIP = "content-encoding: gzip"
_GARBAGE = {
    Phase.CONNECT: b"\x15\x03\x01\x00\x02\x02\x28",  # a TLS alert
    Phase.REQUEST: b"SSH-2.0-OpenSSH_9.9\r\n",
    Phase.HEAD: b"HTTP/1.1 200 OK\r\ncontent-type\r\n\r\n",
    Phase.END: b"HTTP/1.1 200 OK\r\n\r\n",
}


@dataclass(frozen=True)
class Broken:
    """An attempt that ends in this way at this moment."""

    ending: Ending
    phase: Phase

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.ending.value} {self.phase.value}"

    def sent(self, api: Api, stream: bool) -> list[bytes]:
        """The parts of the body that the upstream sends before the end."""
        phase = self.phase
        if not stream:
            body = api.whole
            sizes = {Phase.CONTENT: len(body) // 2, Phase.LAST: len(body) - 1, Phase.END: len(body)}
            size = sizes.get(phase, 0)
            return [body[:size]] if size else []
        opening = [api.opening] if api.opening else []
        all_but_last = [*opening, *api.pieces, *filter(None, api.closing[:1])]
        half = api.pieces[2][: len(api.pieces[2]) // 2]
        events = {
            Phase.OPENING: opening,
            Phase.CONTENT: [*opening, *api.pieces[:2]],
            Phase.EVENT: [*opening, *api.pieces[:2], half],
            Phase.LAST: all_but_last,
            Phase.MARKER: [*all_but_last, api.closing[1]],
            Phase.END: [*all_but_last, api.closing[1]],
        }.get(phase, [])
        return [*events, self.error(api)] if self.ending is Ending.ERROR else events

    def error(self, api: Api) -> bytes:
        """The provider's own error event."""
        sent = {Phase.CONTENT: 2, Phase.LAST: len(api.pieces)}
        return api.stream_error(sent.get(self.phase, 0))

    def play(self, api: Api, stream: bool, *, encoded: bool = False) -> Play:
        """What the upstream does once it has the request; `encoded`: its stream is compressed."""
        ending, phase = self.ending, self.phase
        if phase is Phase.REQUEST:
            return [*([_GARBAGE[phase]] if ending is Ending.GARBAGE else []), _step(ending)]
        if phase is Phase.HEAD:
            half = b"HTTP/1.1 200 OK\r\ncontent-ty"
            return [_GARBAGE[phase] if ending is Ending.GARBAGE else half, _step(ending)]
        sent, headers = self.sent(api, stream), [api.stream_type if stream else JSON]
        if encoded:
            sent, headers = zipped(sent, whole=phase is Phase.END or ending in _ENDED), [*headers, GZIP]
        by_length = not stream and ending not in (Ending.GARBAGE, Ending.CLEAN)
        if by_length:
            length = b"content-length: %d" % len(api.whole)
            steps = [b"\r\n".join([b"HTTP/1.1 200 OK", JSON.encode(), length, b"", b""]), *sent]
        else:
            steps = [head(*headers), *map(chunk, sent)]
            if phase is Phase.END or ending in _ENDED:
                steps.append(END)
        if ending is Ending.GARBAGE:
            steps.append(_GARBAGE.get(phase, b"zz\r\n" * 3))
        return steps if ending in _ENDED else [*steps, _step(ending)]

    def upstream(self, api: Api, stream: bool, *first: Play, lasting: bool, encoded: bool = False) -> Handler:
        """Serves `first`, then this fault, once or each time; after it, good answers."""
        good = good_answer(api, stream, encoded=encoded)
        if self.phase is not Phase.CONNECT:
            bad = self.play(api, stream, encoded=encoded)
            return playing(*first, bad) if lasting else playing(*first, bad, good)
        after = playing(good)

        async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if script.accepted > 1 and not lasting:
                await after(script, reader, writer)
            elif self.ending is Ending.RESET:
                reset(writer)
            else:
                if self.ending is Ending.GARBAGE:
                    writer.write(_GARBAGE[self.phase])
                writer.write_eof()
                await reader.read()

        return handle


def good_answer(api: Api, stream: bool, *, encoded: bool = False) -> Play:
    """The answer that was asked for."""
    if stream:
        parts = list(filter(None, [api.opening, *api.pieces, *api.closing]))
        if encoded:
            return [head(api.stream_type, GZIP), *map(chunk, zipped(parts, whole=True)), END]
        return [head(api.stream_type), *map(chunk, parts), END]
    return [b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n" % (JSON.encode(), len(api.whole)), api.whole]


def zipped(parts: list[bytes], *, whole: bool) -> list[bytes]:
    """The parts of a body as gzip, each of which can be read when it has come; `whole`: with its end."""
    gzip = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    made = [gzip.compress(part) + gzip.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return [*made, gzip.flush()] if whole else made


def _step(ending: Ending) -> Reset | Close | Hang:
    if ending is Ending.RESET:
        return Reset()
    return Hang() if ending is Ending.SILENT else Close()
