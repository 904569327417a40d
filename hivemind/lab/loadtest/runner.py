"""Run a load test: probe the target, check that costs are confirmed, send, and stop at a signal."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.loadtest.messages import Bodies, MessageBuilder, path_of
from hivemind.lab.loadtest.plan import LoadTestPlan
from hivemind.lab.loadtest.requests import Predecessor, RecordedRequest, predecessors
from hivemind.lab.loadtest.result import LoadTestResult
from hivemind.lab.loadtest.sender import Exchange, Sender
from hivemind.lab.loadtest.target import ApiKeys, Target, Unreachable, probe_target, token_of
from hivemind.providers.paths import dialect_for
from hivemind.settings import Settings
from hivemind.upstream.base import Upstream
from hivemind.upstream.connect import open_upstream

_CONNECTIONS = 2_000
"""Idle connections kept open for later requests."""
_PROGRESS_S = 0.5
_AGENT_HEADER = "x-hivemind-agent"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_load_test(
    journal: Path,
    plan: LoadTestPlan,
    target: Target,
    environ: Mapping[str, str],
    settings: Settings,
) -> LoadTestResult:
    """Send what is planned; `settings` tell how to connect, `environ` has the API keys.

    Raises: UsageError: nothing was sent. Unreachable: the target doesn't answer.
    """
    options = plan.options
    keys = ApiKeys(environ, options.key_variable, target)
    keys.check({(dialect_for(each).name, each) for each in {path_of(request) for request in plan.requests}})
    token = token_of(environ, options.token_variable, target)
    _check_confirmed(plan, target.url, not target.private)
    upstream = _open(target, settings)
    try:
        info = await probe_target(upstream, target, token)
        if info.hivemind:
            upstreams = ", ".join(info.upstreams) or "upstreams that it doesn't name"
            where = f"{target.url}, which sends them to {upstreams}"
            _check_confirmed(plan, where, info.paid is not False)
        # Allow as many connections as the user may have; most programs start with a far lower limit.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):  # macOS refuses what it calls no limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        builder = MessageBuilder(
            target,
            keys,
            Bodies(open_journal(journal).events(), (each.ticket for each in plan.requests if each.has_body)),
            agent_header=options.agent_header or (_AGENT_HEADER if info.hivemind else ""),
            token=token if info.hivemind else None,
            hivemind=info.hivemind,
            as_allowed=options.as_allowed,
        )
        exchange = Exchange(upstream, asyncio.get_running_loop().time, time.time)
        sender = Sender(exchange, builder.build, speed=options.speed, max_in_flight=options.max_in_flight)
        after = predecessors(plan.requests) if options.think else None
        stopped = await _send_until_stopped(sender, plan.requests, after)
        if not stopped and not exchange.answers:
            raise Unreachable(f"{target.url} answered none of {len(plan.requests)} requests: {exchange.last_error}")
        return LoadTestResult(plan, tuple(sender.sent), info.hivemind, stopped)
    finally:
        await upstream.aclose()


def _open(target: Target, settings: Settings) -> Upstream:
    via = settings.via.get_secret_value() if settings.via and not target.here else None
    ca_file = str(settings.ca_file) if settings.ca_file else None
    try:
        return open_upstream(target.url, via=via, ca_file=ca_file, timeouts=settings.timeouts(), max_idle=_CONNECTIONS)
    except ValueError as error:
        raise UsageError(f"--against: {error}") from None


def _check_confirmed(plan: LoadTestPlan, where: str, paid: bool) -> None:
    """Raises: UsageError: it may cost money, and the user hasn't confirmed that."""
    if paid and not plan.options.confirmed:
        raise UsageError(f"{plan} would go to {where}; that may cost money, so say --yes if they should")


async def _send_until_stopped(
    sender: Sender, requests: Sequence[RecordedRequest], after: list[Predecessor | None] | None
) -> bool:
    """Send until all is done or a signal comes; return whether one came. A second signal ends the process."""
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(sender.run(requests, after), name="load test")
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
        _write_progress("")
    return stopped


async def _show_progress(sender: Sender, total: int) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        failed = f", {sender.failed:,} failed" if sender.failed else ""
        done = f"{len(sender.sent):,} of {total:,} over{failed}"
        _write_progress(f"{done}, {sender.in_flight:,} in flight, {clock() - began:.0f} s")
        await asyncio.sleep(_PROGRESS_S)


def _write_progress(text: str) -> None:
    """Replace the progress line on a terminal; an empty text removes it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
