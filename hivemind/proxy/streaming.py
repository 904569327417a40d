"""Streams on their way to the client: passed on as they come, their progress reported, their usage estimated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec import Struct

from hivemind.providers.base import Steps, Tap, TapState
from hivemind.providers.openai import without_usage
from hivemind.providers.taps import StreamTap
from hivemind.proxy.cycle import Cycle
from hivemind.proxy.response_writer import ResponseWriter
from hivemind.records import replace
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage
from hivemind.upstream.response import NativeResponse

TURNS = 20
TURN_S = 0.03
"""Between two reports of progress, each on another part of the streams, which delay the others' events: of 500 streams
a sixth at a time took half a millisecond. With the time between two batches of the store, a kill loses less than a
second of what a stream used."""
ProgressReport = tuple[Ticket, int, Usage | None]
"""A ticket, its output tokens so far, and its usage as far as it is known."""
_CHARS_PER_TOKEN = 4

DECIDED_S = 10.0
"""A stream whose content is known to be complete is ended if its upstream hasn't done so after this time."""
MOST_HELD = 64 << 10
"""Bytes of an event that are held; a longer one is passed on as it comes."""


class EventHold(Struct):
    """Holds what has come of an event until its end has, since a client can do nothing with a part of one. So what was
    passed on ends with a whole event, after which an error event can follow where the stream breaks off."""

    ends: tuple[bytes, ...]
    """Every way in which an event can end."""
    held: bytearray = msgspec.field(default_factory=bytearray)
    is_between: bool = False
    """What was passed on ends with a whole event."""
    idle: bool = False
    """Nothing is held, and an event may begin: what ends with an end can be passed on as it comes."""

    def passed(self, data: bytes) -> bytes:
        """Return what can be passed on now that these bytes have come."""
        held, looked_at = self.held, 0
        if held:
            # What is held holds no end, so an event that comes byte by byte isn't searched again with each.
            looked_at = max(0, len(held) + 1 - max(map(len, self.ends)))
            held += data
            if not held.endswith(self.ends) and len(held) <= MOST_HELD and self._end(held, looked_at) == 0:
                return b""
            data = bytes(held)
            held.clear()
        if not data.endswith(self.ends):
            end = self._end(data, looked_at)
            if len(data) - end <= MOST_HELD and (end or self.is_between):
                held += data[end:]
                self.is_between, self.idle = True, False
                return data[:end]
            self.is_between = self.idle = False
            return data
        self.is_between = self.idle = True
        return data

    def _end(self, data: bytes | bytearray, start: int) -> int:
        """Return where the last event ends that ends behind `start`; 0 where none does."""
        return max(at + len(mark) if (at := data.rfind(mark, start)) >= 0 else 0 for mark in self.ends)


class UsageHold(EventHold):
    """Takes the usage out too that the client of a chat stream didn't ask for."""

    def passed(self, data: bytes) -> bytes:
        passed = without_usage(EventHold.passed(self, data))
        self.idle = False  # else what comes would be passed on as it comes
        return passed


@dataclass(slots=True, eq=False)
class Splice:
    """Writes what comes from upstream to one client at once, without a task in between, and has the tap read it."""

    response: NativeResponse
    cycle: Cycle
    tap: Tap
    progress: StreamProgress
    hold: EventHold | None
    _stopped: asyncio.Future[Steps | None] = field(init=False)
    _stream: StreamTap | None = None
    """The tap, where it reads a stream whose events are held until they are whole."""
    _end: bytes = b""
    """How the chunk of such an event ends."""

    async def run(self) -> Steps | None:
        """Pass data on until something must be waited for: the client, which takes nothing; the end of the stream; or
        long work of the tap, which is returned."""
        self._stopped = asyncio.get_running_loop().create_future()
        self.cycle.write_directly()
        self.response.watch(self._passed)
        if self.cycle.is_chunked:
            if self.hold is not None and isinstance(self.tap, StreamTap):
                self._stream, self._end = self.tap, self.tap.separator + b"\r\n"
            self.response.relay = self._relay
        try:
            self._passed()  # what has come meanwhile, or the end
            return await self._stopped
        finally:
            self._detach()

    def _passed(self) -> None:
        data = self.response.take()
        self._stop_for(self._take(data) if data else None)

    def _relay(self, chunk: bytes, start: int) -> None:
        """Pass on one chunk, whose body begins at `start`."""
        stream, cycle = self._stream, self.cycle
        if (
            stream is not None
            and stream.between
            and self.hold.idle  # type: ignore[union-attr]
            and stream.reader.unparsed
            and chunk.endswith(self._end)
            and stream.reader.skim(chunk[start : -len(self._end)])
        ):
            # The frequent case: one more event, of the kind that was parsed last.
            self.progress.has_news = True
            if not cycle.disconnected:
                cycle.transport.write(chunk)
            if cycle.flow.write_paused:
                self._stop_for(None)
        else:
            self._stop_for(self._take(chunk[start:-2]))

    def _take(self, data: bytes) -> Steps | None:
        """Pass on what ends with a whole event, and have the tap read all. Return what is left of that work."""
        if passed := data if self.hold is None else self.hold.passed(data):
            self.cycle.pass_on(passed)
        self.progress.has_news = True
        return self.tap.feed(data)

    def _stop_for(self, steps: Steps | None) -> None:
        """Stop where something must be waited for."""
        if steps is None and not self.cycle.flow.write_paused and self.response.growing:
            return
        if not self._stopped.done():
            self._stopped.set_result(steps)
            self._detach()

    def _detach(self) -> None:
        self.response.watch(None)
        self.response.relay = None


class StreamProgress(Struct, eq=False):
    """What one stream has brought so far."""

    ticket: Ticket
    state: TapState
    unmetered: bool
    has_news: bool = False
    """Content has come since the last report."""
    reads: bool = False
    """More is waited for from upstream, not for the client."""
    patience: asyncio.Timeout = msgspec.field(default_factory=partial(asyncio.timeout, None))
    """Ends the stream once it expires."""
    _chars: int = -1
    _decided_at: float = 0.0

    def look_at_end(self, now: float) -> None:
        """End a stream that has said all, where nothing but signs of life has come for :data:`DECIDED_S`."""
        state = self.state
        if not (self.reads and (state.decided or state.complete or state.error is not None)):
            return
        if state.output_chars != self._chars:
            self._chars, self._decided_at = state.output_chars, now
        elif now - self._decided_at > DECIDED_S:
            self.patience.reschedule(now)

    def report(self) -> ProgressReport:
        """Return what is to be reported now."""
        self.has_news = False
        return self.ticket, output_tokens(self.state), usage_so_far(self.ticket, self.state, unmetered=self.unmetered)


class ProgressReporter:
    """Reports on every stream with new content at regular times, so that the scheduler soon knows what an agent got,
    even if a long silence follows.

    A part of the streams is reported on at a time: one timer for all is cheaper than one each, and all at once would
    delay the others' events.
    """

    def __init__(self, report: Callable[[list[ProgressReport]], None]) -> None:
        self._report = report
        self._turns: list[set[StreamProgress]] = [set() for _ in range(TURNS)]
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: StreamProgress) -> None:
        """Report on a stream, until :meth:`discard`."""
        min(self._turns, key=len).add(stream)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TURN_S, self._next)

    def discard(self, stream: StreamProgress) -> None:
        """Report on a stream no more."""
        for turn in self._turns:
            turn.discard(stream)

    def _next(self) -> None:
        self._timer = None
        if not any(self._turns):
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TURN_S, self._next)
        self._turn = (self._turn + 1) % TURNS
        turn = self._turns[self._turn]
        now = loop.time()
        for stream in turn:
            stream.look_at_end(now)
        if reports := [stream.report() for stream in turn if stream.has_news]:
            self._report(reports)


def output_tokens(state: TapState | None) -> int:
    """Return the output tokens so far, estimated by the characters that came."""
    return 0 if state is None else state.output_chars // _CHARS_PER_TOKEN


def usage_so_far(ticket: Ticket, state: TapState | None, *, unmetered: bool) -> Usage | None:
    """Return what the provider counted, else an estimate by what came or, where it never counts, by the request."""
    if state is None:
        return None
    told, guess = state.usage, output_tokens(state)
    if told is None and unmetered:
        return _estimated(ticket, ticket.estimated_output, state.tier)
    if told is not None and guess and not told.total_input:  # gateways state 0 for what nobody has counted:
        of_all = not told.output_tokens  # for all of it (claude-code-router), or the input (hubrelay)
        told = None if of_all else replace(_estimated(ticket, 0, told.tier), output_tokens=told.output_tokens)
    if state.gave_up and not state.usage_final:
        guess = max(guess, ticket.estimated_output)
    elif told is not None and (state.usage_final or not guess):
        return told
    if told is not None:
        output = max(told.output_tokens, guess)
        return told.with_output(output, estimated=told.estimated_tokens + output - told.output_tokens)
    return _estimated(ticket, guess, state.tier) if guess else None


def _estimated(ticket: Ticket, output: int, tier: str) -> Usage:
    tokens_in = ticket.estimated_input
    return Usage(input_tokens=tokens_in, output_tokens=output, estimated_tokens=tokens_in + output, tier=tier)


class KeepaliveTiming(Struct, frozen=True):
    """When a waiting stream is begun, and how often it gets a sign of life."""

    after_s: float
    every_s: float


class KeepaliveSender:
    """A timer, then a task that begins the response and sends `ping`, if there is one, again and again.

    Nothing else may write to the response until :meth:`stop` has returned.
    """

    __slots__ = ("_every_s", "_headers", "_ping", "_task", "_timer", "_writer")

    def __init__(
        self, writer: ResponseWriter, headers: list[tuple[bytes, bytes]], ping: bytes, *, after_s: float, every_s: float
    ) -> None:
        self._writer = writer
        self._headers = headers
        self._ping = ping
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after_s, self._start)

    @property
    def started(self) -> bool:
        """Whether the response is begun, or about to be."""
        return self._task is not None

    async def stop(self) -> None:
        """Stop, so that the caller may write."""
        self._timer.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not awaited itself: its cancellation would be taken for the caller's, and the caller's for its.
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()

    def cancel(self) -> None:
        """Stop without waiting, because nothing more is written."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="keep a waiting client alive")

    async def _run(self) -> None:
        if not self._writer.started:
            await self._writer.start(200, self._headers)
        while self._ping:
            await self._writer.write(self._ping)
            await asyncio.sleep(self._every_s)
