"""Checks the running proxy: every second its invariants and the rules of alerts, and all the time whether its event
loop goes on.

What is found is an event, and with that a line of the log, an alarm or an alert on every screen, and a mark in the
journal.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from hivemind.proxy.engine import Engine, Server
from hivemind.scheduler.events import AlertOver, AlertRaised, InvariantBroken
from hivemind.scheduler.invariants import Violation
from hivemind.text.humanise import duration, plural
from hivemind.waiting import cancel_all
from hivemind.world.alerts import AlertBook
from hivemind.world.health import AlertLimits
from hivemind.world.snapshot import Snapshot

CHECK_EVERY_S = 1.0
"""Between the end of one check of the invariants and the next."""
BEAT_S = 0.25
LATE_S = 1.0
"""An event loop that made no step for so long was held."""
SHOWN_S = 60.0
"""How long a held loop stays an alarm after it went on."""
_ALERTS_SHARE = 0.01
"""Share of the time that may be spent on the rules of alerts."""
_NO_ALERTS = AlertLimits(died=False, wait_s=0.0, budget_share=0.0, circuit_s=0.0)
_About = tuple[str, str, str]
_OURS = ("hivemind", "hivemind_tui", "hivemind_mock")

_log = logging.getLogger(__name__)


class Watch:
    """The checks of one proxy, on the running loop from its creation to :meth:`aclose`.

    `direct` returns how many requests the data plane counts as served without a task.
    """

    def __init__(self, engine: Engine, direct: Callable[[], int], alerts: AlertLimits = _NO_ALERTS) -> None:
        self._engine = engine
        self._direct = direct
        self._alerts = AlertBook(alerts)
        self.on_alert: Callable[[AlertRaised | AlertOver, Snapshot], object] | None = None
        """Called with each alert that begins or is over, and what it was found in."""
        self._look_again_at = 0.0
        """When the rules of alerts are looked at again."""
        self._unserved: set[tuple[int, int]] = set()
        """Tickets that nothing served at the last check, and the number of their attempts."""
        self._broken: dict[_About, str] = {}
        self._held_until = 0.0
        """When the alarm for a held loop ends."""
        self._watchdog: Watchdog | None = None
        self._checking = asyncio.create_task(self._check_again(), name="check the invariants")

    def watch_loop(self) -> None:
        """Watch the event loop too."""
        self._watchdog = Watchdog(self._loop_held)

    async def aclose(self) -> None:
        """Stop watching."""
        if self._watchdog is not None:
            self._watchdog.close()
        await cancel_all((self._checking,))

    async def check(self) -> None:
        """Check every invariant once, in steps between which traffic is served, and emit what changed."""
        found: dict[_About, str] = {}
        for part in self._steps():
            for each in part:
                found.setdefault((each.rule, each.lane, each.agent), each.text)
            await asyncio.sleep(0)
        if (held := self._broken.get(_LOOP)) is not None and self._engine.now() < self._held_until:
            found[_LOOP] = held
        for about, text in found.items():
            if about not in self._broken:
                self._emit(about, text)
        for about, text in self._broken.items():
            if about not in found:
                self._emit(about, text, over=True)
        self._broken = found

    def _steps(self) -> Iterator[list[Violation]]:
        yield from self._engine.checks()
        yield list(self._exchanges())

    def _exchanges(self) -> Iterator[Violation]:
        """Check that each ticket has a request that is being answered, and each such request without a task a ticket.

        What answers a request leaves its mark at the ticket. One has none for as long as its task takes to begin.
        """
        unserved, self._unserved = self._unserved, set()
        direct = 0
        for ticket in self._engine.tickets:
            server: Server | None = ticket.tag
            if server is not None:
                direct += server.without_task
            else:
                self._unserved.add(each := (ticket.id, ticket.attempts))
                if each in unserved:
                    lane, agent = ticket.request.lane, ticket.agent.name
                    what = "waits" if ticket.waiting else "is in flight"
                    yield Violation("exchange", lane, agent, f"Request {ticket.id} {what}, but nothing answers it.")
        if (counted := self._direct()) != direct:
            are, have = plural(counted, "request is", "requests are"), plural(direct, "has", "have")
            yield Violation("exchange", "", "", f"{are} counted as served without a task, but {have} a ticket.")

    def check_alerts(self) -> None:
        """Publish the alerts that begin and that are over."""
        if not self._alerts.limits.any:
            return
        began = self._engine.now()
        snapshot = self._engine.snapshot(newest=0)
        events = self._alerts.check(snapshot)
        for event in events:
            self._engine.publish(event)
        if events and self.on_alert is not None:
            after = self._engine.snapshot()
            for event in events:
                self.on_alert(event, after)
        # Where there are so many agents that looking takes long, it is done less often.
        self._look_again_at = began + (self._engine.now() - began) / _ALERTS_SHARE

    async def _check_again(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                await self.check()
                if self._engine.now() >= self._look_again_at:
                    self.check_alerts()
            except Exception:  # a check that fails mustn't end the checks, nor go unseen
                _log.exception("the invariants and alerts couldn't be checked")

    def _loop_held(self, for_s: float, where: str) -> None:
        text = f"The event loop was held for {duration(for_s)} by {where}."
        self._held_until = self._engine.now() + SHOWN_S
        self._broken[_LOOP] = text
        self._emit(_LOOP, text)

    def _emit(self, about: _About, text: str, *, over: bool = False) -> None:
        self._engine.publish(InvariantBroken(self._engine.now(), *about, text, over))


_LOOP: _About = ("loop", "", "")


class Watchdog:
    """A thread that looks where the running loop's thread is while that makes no step.

    `held` is called on the loop, once it goes on, with the seconds and the place. A process that was stopped, or a
    machine that slept, is none: then the thread was late itself, without the process using the processor.
    """

    def __init__(self, held: Callable[[float, str], object]) -> None:
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._beaten_at = time.monotonic()
        self._where = ""
        """Where the loop's thread was when it was found late; empty: it isn't late."""
        self._closed = threading.Event()
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        threading.Thread(target=self._watch, name="hivemind-watchdog", daemon=True).start()

    def close(self) -> None:
        """Stop watching; the thread ends by itself."""
        self._timer.cancel()
        self._closed.set()

    def _beat(self) -> None:
        now = time.monotonic()
        for_s, self._beaten_at = now - self._beaten_at - BEAT_S, now
        where, self._where = self._where, ""
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        if where:
            self._held(for_s, where)

    def _watch(self) -> None:
        looked_at, used_s = time.monotonic(), time.process_time()
        while not self._closed.wait(BEAT_S):
            now, used_before = time.monotonic(), used_s
            used_s = time.process_time()
            late_s, looked_at = now - looked_at - BEAT_S, now
            if late_s > LATE_S / 2 and used_s - used_before < late_s / 2:
                self._beaten_at = now  # the whole process stood still
            elif not self._where and now - self._beaten_at > BEAT_S + LATE_S:
                self._where = place(sys._current_frames().get(self._thread_id))
                if self._where:
                    _log.warning("the event loop is held by %s", self._where)


def place(frame: FrameType | None) -> str:
    """Return where a thread is, as module:function:line: the innermost frame of ours, and the innermost at all."""
    innermost = named = "" if frame is None else _named(frame)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
            named = _named(frame)
            break
        frame = frame.f_back
    return named if named == innermost else f"{named} (in {innermost})"


def _named(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}:{frame.f_lineno}"
