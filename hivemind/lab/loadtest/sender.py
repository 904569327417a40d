"""Runs a load test: sends requests at their recorded times.

Before that it probes the target and checks that costs are confirmed. A signal stops it. Nothing is retried, and
recorded times are kept rather than waiting for answers, since waiting would hide an overload; lateness is measured.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from hivemind.console import show_progress
from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.loadtest.messages import Bodies, MessageBuilder, OutgoingRequest, path_of
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, Sent
from hivemind.lab.loadtest.result import LoadTestPlan, LoadTestResult
from hivemind.lab.loadtest.target import ApiKeys, LoadTarget, Unreachable, probe_target, token_of
from hivemind.providers.errors import classify
from hivemind.providers.paths import dialect_for
from hivemind.scheduler.types import FailureKind, Usage
from hivemind.settings import Settings
from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    Truncated,
    Upstream,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTimeout,
)
from hivemind.upstream.connect import open_upstream

_ERROR_LIMIT = 1 << 20
"""Bytes of an error body that are read."""
_KINDS: tuple[tuple[type[UpstreamError], FailureKind], ...] = (
    (ConnectFailed, FailureKind.CONNECT),
    (Disconnected, FailureKind.DISCONNECTED),
    (UpstreamTimeout, FailureKind.TIMEOUT),
    (Truncated, FailureKind.TRUNCATED),
)
_CONNECTIONS = 2_000
"""Idle connections kept open for later requests."""
_PROGRESS_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Sender:
    """Sends the requests of one load test. `build` returns the message of a request, or None; `send` sends it.

    Times are divided by `speed`. Requests that a busy machine delays are late, which :class:`Sent` says.
    """

    def __init__(
        self,
        send: Callable[[OutgoingRequest], Awaitable[RequestResult]],
        build: Callable[[RecordedRequest], OutgoingRequest | None],
        *,
        speed: float = 1.0,
    ) -> None:
        self.sent: list[Sent] = []
        self.failed = 0
        """How many of these weren't answered."""
        self.in_flight = 0
        self._send = send
        self._build = build
        self._speed = speed
        self._clock = asyncio.get_running_loop().time
        self._began = 0.0

    async def run(self, requests: Sequence[RecordedRequest]) -> None:
        """Send all requests. If cancelled, those in flight are given up, and :attr:`sent` has those that were over."""
        self._began = self._clock()
        first_s = requests[0].at_s if requests else 0.0
        async with asyncio.TaskGroup() as group:
            for request in requests:
                message = self._build(request)  # before it is due, because it may take a moment
                due = self._began + (request.at_s - first_s) / self._speed
                await asyncio.sleep(max(0.0, due - self._clock()))  # at least once, so that other tasks run
                if message is not None:
                    group.create_task(self._send_one(request, message, due))

    async def _send_one(self, request: RecordedRequest, message: OutgoingRequest, due: float) -> None:
        at = self._clock()
        self.in_flight += 1
        try:
            result = await self._send(message)
        finally:
            self.in_flight -= 1
        self.failed += bool(result.error)
        self.sent.append(Sent(request, result, at - self._began, max(0.0, at - due), message.real))


class LoadExchange(Struct):
    """Sends a message to one upstream and reads its answer to the end."""

    upstream: Upstream
    clock: Callable[[], float]
    """In seconds."""
    wall: Callable[[], float]
    """The time of day in seconds since the epoch."""
    last_error: str = ""
    """The latest transport error, for people."""
    answers: int = 0
    """Requests of which at least a status came back."""

    async def __call__(self, message: OutgoingRequest) -> RequestResult:
        """Send a request and return its result."""
        began = self.clock()
        status: int | None = None
        first_s: float | None = None
        usage: Usage | None = None
        try:
            request = UpstreamRequest(message.method, message.target, message.headers, message.body)
            request.retry_stale = False  # a load test counts what it sends
            response = await self.upstream.send(request)
        except UpstreamError as broken:
            error = self._kind(broken)
        except ValueError as invalid:
            self.last_error, error = f"a recorded request can't be sent: {invalid}", "unsendable"
        else:
            self.answers += 1
            status = response.status
            try:
                if status >= 400:
                    error = await self._read_error(message, response)
                else:
                    error, first_s, usage = await self._read_answer(message, response, began)
            finally:
                response.close()
        return RequestResult(status, error, first_s, self.clock() - began, usage)

    async def _read_error(self, message: OutgoingRequest, response: UpstreamResponse) -> str:
        """Return the kind of the error that was answered."""
        error = FailureKind.CLIENT_ERROR.value
        body = bytearray()
        try:
            while len(body) < _ERROR_LIMIT and (data := await response.read()):
                body += data
        except UpstreamError as broken:
            error = self._kind(broken)
        failure = classify(response.status, response.headers, bytes(body), self.wall())
        return error if failure is None else failure.kind.value

    async def _read_answer(
        self, message: OutgoingRequest, response: UpstreamResponse, began: float
    ) -> tuple[str, float | None, Usage | None]:
        """Return the kind of its error, if it has one, the seconds to the first content, and the usage."""
        tap = message.dialect.tap(response.headers, message.facts)
        state = tap.state
        first_s: float | None = None
        error = ""
        try:
            while data := await response.read():
                for _ in tap.feed(data) or ():
                    await asyncio.sleep(0)
                if first_s is None and state.content_started:
                    first_s = self.clock() - began
            for _ in tap.end() or ():
                await asyncio.sleep(0)
        except UpstreamError as broken:
            error = self._kind(broken)
        if not error and state.error is not None:
            error = state.error.kind.value
        if not error and message.facts.stream and not state.complete:
            error = FailureKind.TRUNCATED.value
        return error, first_s, state.usage

    def _kind(self, error: UpstreamError) -> str:
        self.last_error = str(error)
        return next(kind.value for made, kind in _KINDS if isinstance(error, made))


async def run_load_test(
    journal: Path,
    plan: LoadTestPlan,
    target: LoadTarget,
    environ: Mapping[str, str],
    settings: Settings,
    *,
    key_variable: str | None = None,
    confirmed: bool = False,
) -> LoadTestResult:
    """Send what is planned; `settings` tell how to connect, `environ` has the API keys.

    `key_variable`: the one that holds the key; None: the usual one. `confirmed`: it may cost money.

    Raises: UsageError: nothing was sent. Unreachable: the target doesn't answer.
    """
    keys = ApiKeys(environ, key_variable, target)
    keys.check({(dialect_for(each).name, each) for each in {path_of(request) for request in plan.requests}})
    token = token_of(environ, target)
    _check_confirmed(plan, target.url, confirmed or target.private)
    upstream = _open(target, settings)
    try:
        info = await probe_target(upstream, target, token)
        if info.hivemind:
            upstreams = ", ".join(info.upstreams) or "upstreams that it doesn't name"
            where = f"{target.url}, which sends them to {upstreams}"
            _check_confirmed(plan, where, confirmed or info.paid is False)
        # Allow as many connections as the user may have; most programs start with a far lower limit.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS refuses what it calls no limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        builder = MessageBuilder(
            target,
            keys,
            Bodies(open_journal(journal).events(), (each.ticket for each in plan.requests if each.has_body)),
            hivemind=info.hivemind,
            token=token,
        )
        exchange = LoadExchange(upstream, asyncio.get_running_loop().time, time.time)
        sender = Sender(exchange, builder.build, speed=plan.speed)
        stopped = await _send_until_stopped(sender, plan.requests)
        if not stopped and not exchange.answers:
            raise Unreachable(f"{target.url} answered none of {len(plan.requests)} requests: {exchange.last_error}")
        return LoadTestResult(plan, tuple(sender.sent), info.hivemind, stopped)
    finally:
        await upstream.aclose()


def _open(target: LoadTarget, settings: Settings) -> Upstream:
    via = settings.via.reveal() if settings.via and not target.here else None
    ca_file = str(settings.ca_file) if settings.ca_file else None
    try:
        return open_upstream(target.url, via=via, ca_file=ca_file, timeouts=settings.timeouts(), max_idle=_CONNECTIONS)
    except ValueError as error:
        raise UsageError(f"--against: {error}") from None


def _check_confirmed(plan: LoadTestPlan, where: str, confirmed: bool) -> None:
    """Raises: UsageError: it may cost money, and the user hasn't confirmed that."""
    if not confirmed:
        raise UsageError(f"{plan} would go to {where}; that may cost money, so say --yes if they should")


async def _send_until_stopped(sender: Sender, requests: Sequence[RecordedRequest]) -> bool:
    """Send until all is done or a signal comes; return whether one came. A second signal ends the process."""
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(sender.run(requests), name="load test")
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        sending.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    progress = asyncio.create_task(_show_progress(sender, len(requests)), name="progress")
    try:
        await sending
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        if not stopped:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        progress.cancel()
        show_progress("")
    return stopped


async def _show_progress(sender: Sender, total: int) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        failed = f", {sender.failed:,} failed" if sender.failed else ""
        done = f"{len(sender.sent):,} of {total:,} over{failed}"
        show_progress(f"{done}, {sender.in_flight:,} in flight, {clock() - began:.0f} s")
        await asyncio.sleep(_PROGRESS_S)
