"""Sending for real: whoever answers is asked who it is, what may cost money is agreed to, and a signal ends it."""

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
from hivemind.lab.loadtest.credentials import ApiKeys, token_of
from hivemind.lab.loadtest.exchange import Exchange
from hivemind.lab.loadtest.messages import Bodies, MessageBuilder
from hivemind.lab.loadtest.options import LoadTestOptions
from hivemind.lab.loadtest.plan import Predecessor, RecordedRequest, predecessors
from hivemind.lab.loadtest.result import LoadTestPlan, LoadTestResult
from hivemind.lab.loadtest.sender import Sender
from hivemind.lab.loadtest.synthetic import path_of
from hivemind.lab.loadtest.target import Target, TargetInfo, Unreachable, probe_target
from hivemind.providers.detect import dialect_for
from hivemind.settings import Settings
from hivemind.upstream import Upstream, open_upstream

_CONNECTIONS = 2_000
"""That are kept for later requests."""
_PROGRESS_S = 0.5
_AGENT_HEADER = "x-hivemind-agent"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_load_test(
    journal: Path,
    order: LoadTestOptions,
    plan: LoadTestPlan,
    target: Target,
    environ: Mapping[str, str],
    settings: Settings,
) -> LoadTestResult:
    """Send what is planned; `settings` tell the way, `environ` has the keys.

    Raises: UsageError: nothing was sent. Unreachable: nothing answers there.
    """
    keys = ApiKeys(environ, order.key_variable, target)
    keys.check({(dialect_for(each).name, each) for each in {path_of(ask) for ask in plan.asks}})
    token = token_of(environ, order.token_variable, target)
    _agree(order, plan, target.url, target.paid)
    upstream = _open(target, settings)
    try:
        greeting = await probe_target(upstream, target, token)
        if greeting.hivemind:
            theirs = ", ".join(greeting.upstreams) or "upstreams that it doesn't tell"
            _agree(order, plan, f"{target.url}, which sends them to {theirs}", greeting.paid is not False)
        _allow_many_connections()
        maker = _maker(journal, order, plan, target, greeting, keys, token)
        return await _send(maker, order, plan, target, Exchange(upstream, asyncio.get_running_loop().time, time.time))
    finally:
        await upstream.aclose()


def _open(target: Target, settings: Settings) -> Upstream:
    via = settings.via.get_secret_value() if settings.via and not target.here else None
    ca_file = str(settings.ca_file) if settings.ca_file else None
    try:
        return open_upstream(target.url, via=via, ca_file=ca_file, timeouts=settings.timeouts(), max_idle=_CONNECTIONS)
    except ValueError as error:
        raise UsageError(f"--against: {error}") from None


def _agree(order: LoadTestOptions, plan: LoadTestPlan, where: str, paid: bool) -> None:
    """Raises: UsageError: it may cost money, and nobody said that it may."""
    if paid and not order.confirmed:
        raise UsageError(f"{plan.wanted} would go to {where}; that may cost money, so say --yes if they should")


def _maker(
    journal: Path,
    order: LoadTestOptions,
    plan: LoadTestPlan,
    target: Target,
    greeting: TargetInfo,
    keys: ApiKeys,
    token: str | None,
) -> MessageBuilder:
    return MessageBuilder(
        target,
        keys,
        Bodies(open_journal(journal).events(), (ask.ticket for ask in plan.asks if ask.has_body)),
        agent_header=order.agent_header or (_AGENT_HEADER if greeting.hivemind else ""),
        token=token if greeting.hivemind else None,
        hivemind=greeting.hivemind,
        as_allowed=order.as_allowed,
    )


async def _send(
    maker: MessageBuilder, order: LoadTestOptions, plan: LoadTestPlan, target: Target, exchange: Exchange
) -> LoadTestResult:
    sender = Sender(exchange, maker.make, speed=order.speed, most=order.most)
    stopped = await _until_stopped(sender, plan.asks, predecessors(plan.asks) if order.think else None)
    if not stopped and not exchange.answers:
        raise Unreachable(f"{target.url} answered none of {len(plan.asks)} requests: {exchange.last_error}")
    return LoadTestResult(plan, tuple(sender.sent), maker.hivemind, stopped)


def _allow_many_connections() -> None:
    """As many as this user may have; usually a program begins with far fewer."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses what it calls no limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _until_stopped(
    sender: Sender, asks: Sequence[RecordedRequest], after: list[Predecessor | None] | None
) -> bool:
    """Send, until all is done or the first SIGINT or SIGTERM; whether it was that. A second one ends the process."""
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(sender.run(asks, after), name="replay")
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
    telling = asyncio.create_task(_tell(sender, len(asks)), name="progress")
    try:
        await sending
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        if not stopped:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        telling.cancel()
        _tell_progress("")
    return stopped


async def _tell(sender: Sender, wanted: int) -> None:
    began = asyncio.get_running_loop().time()
    while True:
        passed = asyncio.get_running_loop().time() - began
        failed = f", {sender.failed:,} failed" if sender.failed else ""
        _tell_progress(f"{len(sender.sent):,} of {wanted:,} over{failed}, {sender.flying:,} in flight, {passed:.0f} s")
        await asyncio.sleep(_PROGRESS_S)


def _tell_progress(text: str) -> None:
    """Replace the line of progress on a terminal; an empty text takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
