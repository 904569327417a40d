"""A replay from the journal to its table: what it costs is told and agreed to before anything is sent."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hivemind import server
from hivemind.commands.table import show, width
from hivemind.errors import UsageError
from hivemind.journal.asked import tell
from hivemind.journal.reader import Journal, open_journal
from hivemind.prices import Prices
from hivemind.providers.detect import dialect_for
from hivemind.proxy.upstream import Upstream, open_upstream
from hivemind.settings import Settings, load

from . import sides
from .exchange import Exchange
from .keys import Keys, token_of
from .made_up import path_of
from .messages import Bodies, Maker, can_be_made
from .outcome import Outcome, Plan, as_json, as_text, plan_as_json, plan_as_text
from .plan import Ask, Cause, Reading, Selection, causes
from .sender import Sender
from .target import Greeting, Target, Unreachable, greet, target_of

_CONNECTIONS = 2_000
"""That are kept for later requests."""
_PROGRESS_S = 0.5
_INTERRUPTED = 130
_AGENT_HEADER = "x-hivemind-agent"


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants sent, and how."""

    against: str | None
    selection: Selection = field(default_factory=Selection)
    speed: float = 1.0
    think: bool = False
    most: int = 0
    synthetic: bool = False
    as_allowed: bool = False
    agent_header: str | None = None
    key_variable: str | None = None
    token_variable: str | None = None
    dry: bool = False
    confirmed: bool = False
    json: bool = False


def run(journal: Journal, order: Order, flags: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
    """Carry it out; `flags` are those of settings. Returns the exit code.

    Raises: UsageError: nothing was sent. Unreachable: nothing answers there.
    """
    asks, left_out, name = _read(journal, order)
    target = None if order.against is None else target_of(order.against)
    plan = Plan(name, target, order.speed, order.think, asks, left_out, _estimated(asks, target))
    if order.dry:
        print(plan_as_json(plan)) if order.json else show(plan_as_text(plan))
        return 0
    assert target is not None
    keys = Keys(environ, order.key_variable, target)
    keys.check({(dialect_for(each).name, each) for each in {path_of(ask) for ask in asks}})
    token = token_of(environ, order.token_variable, target)
    settings = load(flags, environ=environ, cwd=cwd, prog="hivemind replay")
    _allow_many_connections()
    outcome = server.run_loop(_Run(journal.path, order, plan, target, keys, token, settings).go())
    print(as_json(outcome)) if order.json else show(as_text(outcome, width()))
    return _INTERRUPTED if outcome.interrupted else 0


def _read(journal: Journal, order: Order) -> tuple[tuple[Ask, ...], Counter[str], str]:
    """What can be sent, what can't by its path, and the journal's name. Raises: UsageError."""
    reading = Reading(journal.began.at)
    for event in journal.events():
        reading.apply(event)
    tell(journal)
    asks = reading.asks(order.selection, bodies=not order.synthetic)
    good = tuple(ask for ask in asks if can_be_made(ask))
    left_out = Counter(ask.path for ask in asks if not can_be_made(ask))
    if not good:
        raise UsageError(f"none of the requests can be made up: their path is {left_out.most_common(1)[0][0]}")
    return good, left_out, journal.began.journal


def _estimated(asks: Sequence[Ask], target: Target | None) -> sides.Estimate:
    prices = Prices()
    prices.load()
    return sides.estimate(asks, "generic" if target is None else target.provider, prices.cost)


def _allow_many_connections() -> None:
    """As many as this user may have; usually a program begins with far fewer."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses what it calls no limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Run:
    """One replay that does send something."""

    def __init__(
        self, path: Path, order: Order, plan: Plan, target: Target, keys: Keys, token: str | None, settings: Settings
    ) -> None:
        self._path = path
        self._order = order
        self._plan = plan
        self._target = target
        self._keys = keys
        self._token = token
        self._settings = settings

    async def go(self) -> Outcome:
        """Raises: UsageError, Unreachable."""
        self._agree(self._target.url, self._target.paid)
        upstream = self._open()
        try:
            greeting = await greet(upstream, self._target, self._token)
            if greeting.hivemind:
                theirs = ", ".join(greeting.upstreams) or "upstreams that it doesn't tell"
                self._agree(f"{self._target.url}, which sends them to {theirs}", greeting.paid is not False)
            return await self._send(upstream, greeting)
        finally:
            await upstream.aclose()

    def _open(self) -> Upstream:
        settings = self._settings
        via = settings.via.get_secret_value() if settings.via and not self._target.private else None
        ca_file = str(settings.ca_file) if settings.ca_file else None
        try:
            return open_upstream(
                self._target.url, via=via, ca_file=ca_file, timeouts=settings.timeouts(), max_idle=_CONNECTIONS
            )
        except ValueError as error:
            raise UsageError(f"--against: {error}") from None

    def _agree(self, where: str, paid: bool) -> None:
        """Raises: UsageError: it may cost money, and nobody said that it may."""
        if paid and not self._order.confirmed:
            raise UsageError(
                f"{self._plan.wanted} would go to {where}; that may cost money, so say --yes if they should"
            )

    async def _send(self, upstream: Upstream, greeting: Greeting) -> Outcome:
        order, asks = self._order, self._plan.asks
        exchange = Exchange(upstream, asyncio.get_running_loop().time, time.time)
        bodies = Bodies(open_journal(self._path).events(), (ask.ticket for ask in asks if ask.has_body))
        maker = Maker(
            self._target,
            self._keys,
            bodies,
            agent_header=order.agent_header or (_AGENT_HEADER if greeting.hivemind else ""),
            token=self._token if greeting.hivemind else None,
            hivemind=greeting.hivemind,
            as_allowed=order.as_allowed,
        )
        sender = Sender(exchange, maker.make, speed=order.speed, most=order.most)
        stopped = await _until_stopped(sender, asks, causes(asks) if order.think else None)
        if not stopped and not exchange.answers:
            raise Unreachable(f"{self._target.url} answered none of {len(asks)} requests: {exchange.last_error}")
        return Outcome(self._plan, tuple(sender.sent), greeting.hivemind, stopped)


async def _until_stopped(sender: Sender, asks: Sequence[Ask], after: list[Cause | None] | None) -> bool:
    """Send, until all is done or the first SIGINT or SIGTERM; whether it was that. A second one ends the process."""
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(sender.run(asks, after), name="replay")
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        sending.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    telling = asyncio.create_task(_tell(sender, len(asks)), name="progress")
    try:
        with suppress(asyncio.CancelledError):
            await sending
    finally:
        telling.cancel()
        _tell_progress("")
    return stopped


async def _tell(sender: Sender, wanted: int) -> None:
    began = asyncio.get_running_loop().time()
    while True:
        over, wrong = len(sender.sent), sum(bool(each.course.error) for each in sender.sent)
        passed = asyncio.get_running_loop().time() - began
        failed = f", {wrong:,} failed" if wrong else ""
        _tell_progress(f"{over:,} of {wanted:,} over{failed}, {sender.flying:,} in flight, {passed:.0f} s")
        await asyncio.sleep(_PROGRESS_S)


def _tell_progress(text: str) -> None:
    """Replace the line of progress on a terminal; an empty text takes it away."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
