"""The provider fitted to a recording, as an ASGI application that speaks Anthropic's Messages API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

from starlette.types import Receive, Scope, Send

from hivemind.lab.fit.limits import limiters
from hivemind.lab.fit.provider import ProviderModel
from hivemind.lab.fit.service_clock import Milestone, ServiceClock
from hivemind.lab.fit.size import loads
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.steps import RequestStep, TracedAttempt
from hivemind.scheduler.types import Failure, FailureKind, Usage
from hivemind_mock.provider.answer import Connection, read_body
from hivemind_mock.provider.formats.anthropic import Anthropic
from hivemind_mock.provider.formats.base import ApiError, ErrorKind, Headers, Reply, Request
from hivemind_mock.provider.limits import Reading

NUMBER_HEADER = "x-mock-request"
"""Names the recorded request that is sent again."""
_WIRE = Anthropic()
_PIECES = 4
"""Events of a stream."""
_KINDS = {
    FailureKind.RATE_LIMITED: ErrorKind.RATE_LIMITED,
    FailureKind.OVERLOADED: ErrorKind.OVERLOADED,
    FailureKind.QUOTA: ErrorKind.QUOTA,
}
_NO_RESPONSE = frozenset({FailureKind.CONNECT, FailureKind.DISCONNECTED, FailureKind.TIMEOUT})
_BAD_GATEWAY = 502


class FittedUpstream:
    """One fitted provider with its luck. Make it in a running event loop, by whose clock it goes."""

    def __init__(self, recording: Recording, seed: int) -> None:
        trace, rng = recording.trace, random.Random(f"replay {seed}")
        providers = {key: each.drawn(rng) for key, each in recording.providers.items()}
        in_use = limiters(
            trace,
            {key: each.lane for key, each in providers.items()},
            {key: each.limits for key, each in providers.items()},
        )
        self._loop = asyncio.get_running_loop()
        self._began_at, self._offset_s = trace.began.at, trace.began.at - self._loop.time()
        self._wall_s = trace.began.wall - trace.began.at
        self._models: dict[str, ProviderModel] = {}
        clocks: dict[int, _Clock] = {}
        self._clocks: dict[str, _Clock] = {}
        for key, each in providers.items():
            self._models[key] = ProviderModel(each, in_use[key], self._began_at, rng, draws=True)
            if not each.service.plain:
                clock = clocks.setdefault(id(each.service), _Clock(ServiceClock(each.service), self._offset_s))
                self._models[key].clock, self._clocks[key] = clock.shown, clock
        self._requests = {each.number: each for each in trace.requests}
        self._in_flight = dict.fromkeys(providers, 0)
        self._count = 0

    def now(self) -> float:
        """Return the time on the recording's clock."""
        return self._loop.time() + self._offset_s

    def wall(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._wall_s + self.now()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is None:
            return
        connection = Connection(scope, receive, send)
        number = next((int(value) for name, value in scope["headers"] if name == NUMBER_HEADER.encode()), -1)
        step = self._requests[number]
        lane = step.arrived.lane
        self._count += 1
        self._in_flight[lane] += 1
        model = self._models[lane]
        result = model.answer(self.now(), step, None, self._in_flight[lane])
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.ensure_future(_cancel_with(connection, task))
        over = False
        try:
            await self._play(step, result, connection)
            over = True
        except asyncio.CancelledError:
            if not watch.done():
                raise
            task.uncancel()
        finally:
            watch.cancel()
            self._in_flight[lane] -= 1
            if over:
                model.over(self.now(), step, result)
            else:
                model.left(result)

    async def _play(self, step: RequestStep, result: TracedAttempt, connection: Connection) -> None:
        clock = self._clocks.get(step.arrived.lane)
        if clock is None or not loads(result):
            await self._answer(step, result, connection, _Times(result.first_s, result.duration_s))
            return
        async with clock.served(result) as times:
            await self._answer(step, result, connection, times)

    async def _answer(self, step: RequestStep, result: TracedAttempt, connection: Connection, times: _Times) -> None:
        usage = result.usage or Usage(step.arrived.estimated_input, 0, 0, 1)
        ident = f"{self._count:024d}"
        request = Request(step.arrived.model, step.arrived.stream, usage.total_input, 0)
        if result.failure is not None:
            await times.end()
            await self._fail(request, result.failure, ident, connection)
            return
        text = "word " * max(1, usage.output_tokens)
        size = -(-len(text) // _PIECES)
        pieces = tuple(text[at : at + size] for at in range(0, len(text), size))
        written = usage.cache_write_tokens
        reply = Reply(
            ident, 0, pieces, usage.output_tokens, False, 0.0, cache_read=usage.cache_read_tokens, cache_written=written
        )
        if not request.stream:
            await times.end()
            await connection.reply_json(200, _WIRE.whole(request, reply), self._headers(step, request, ident))
            return
        await times.first()
        await connection.start(200, [(b"content-type", _WIRE.stream_type), *self._headers(step, request, ident)])
        await connection.body(_WIRE.opening(request, reply) + _WIRE.piece(request, reply, 0))
        await times.end()
        for index in range(1, len(pieces)):
            await connection.body(_WIRE.piece(request, reply, index))
        await connection.body(_WIRE.closing(request, reply), more=False)

    async def _fail(self, request: Request, failure: Failure, ident: str, connection: Connection) -> None:
        if failure.kind in _NO_RESPONSE:
            connection.drop(reset=True)
            return
        if failure.kind is FailureKind.TRUNCATED:
            await connection.start(200, [(b"content-type", _WIRE.stream_type)])
            await connection.body(_WIRE.opening(request, Reply(ident, 0, ("",), 1, False, 0.0)))
            connection.drop(reset=False)
            return
        kind = _KINDS.get(failure.kind, ErrorKind.BAD_GATEWAY)
        status, headers, body = _WIRE.error(ApiError(kind, kind.value, ident, failure.delay_s))
        if kind is ErrorKind.BAD_GATEWAY:
            status = failure.status or _BAD_GATEWAY
        await connection.reply_json(status, body, headers)

    def _headers(self, step: RequestStep, request: Request, ident: str) -> Headers:
        limiter = self._models[step.arrived.lane].limiter
        stated = limiter.readings(self.now(), step.arrived.family)
        readings = [
            Reading(each.kind.value, each.limit, each.remaining, each.reset_in_s)
            for each in stated
            if each.limit is not None and each.remaining is not None and each.reset_in_s is not None
        ]
        return _WIRE.headers(request, ident, readings, self.wall())


class _Times:
    """When the first content and the end of an answer come."""

    def __init__(self, first_s: float | None, end_s: float) -> None:
        self._first_s = min(end_s, end_s if first_s is None else first_s)
        self._left_s = end_s

    async def first(self) -> None:
        """Wait for the first content."""
        await asyncio.sleep(self._first_s)
        self._left_s -= self._first_s

    async def end(self) -> None:
        """Wait for the end."""
        await asyncio.sleep(self._left_s)


class _Reached(_Times):
    """The same by the provider's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.points = loop.create_future(), loop.create_future()

    async def first(self) -> None:
        await self.points[0]

    async def end(self) -> None:
        await self.points[1]


class _Clock:
    """A provider's service clock in an event loop."""

    def __init__(self, shown: ServiceClock, offset_s: float) -> None:
        self.shown = shown
        self._offset_s = offset_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._numbers = count()

    @asynccontextmanager
    async def served(self, result: TracedAttempt) -> AsyncIterator[_Times]:
        """Keep the provider at work on an answer, and give its times."""
        work, times = result.work, _Times(result.first_s, result.duration_s)
        milestones: list[Milestone] = []
        if work is not None:
            times = reached = _Reached(self._loop)
            first = work.whole if result.first_s is None else work.first
            milestones = [
                (after, next(self._numbers), partial(_reach, point))
                for after, point in zip((first, work.whole), reached.points, strict=True)
            ]
        job = self.shown.enter(self._now(), milestones)
        self._arm()
        try:
            yield times
        finally:
            self.shown.leave(self._now(), job)
            self._arm()

    def _now(self) -> float:
        return self._loop.time() + self._offset_s

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        found = self.shown.next()
        if found is not None:
            self._timer = self._loop.call_at(found[0] - self._offset_s, self._take, found[0])

    def _take(self, at: float) -> None:
        self._timer = None
        self.shown.take(max(at, self._now()))(at)
        self._arm()


def _reach(point: asyncio.Future[None], _: float) -> None:
    if not point.done():
        point.set_result(None)


async def _cancel_with(connection: Connection, task: asyncio.Task[object]) -> None:
    await connection.ended()
    task.cancel()
