"""The rate windows of one lane and model family, taken and settled together."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.credits import Credits, Terms
from hivemind.scheduler.events import WindowState
from hivemind.scheduler.limits import LEAST_FULL, PERIOD_S, Reservation, Window
from hivemind.scheduler.pace import Pace
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage, WindowKind, WindowReading

_OF_A_MINUTE = frozenset(kind for kind in WindowKind if not kind.is_long)  # which a frozenset tells sooner


class Fate:
    """How a family of models fares: when requests of it were refused, and answered."""

    __slots__ = ("answered_at", "answered_from", "most_at_once", "refused_at", "refused_since")

    def __init__(self) -> None:
        self.refused_at = self.refused_since = -math.inf  # last, and first since the last answer
        self.answered_at = self.answered_from = -math.inf
        """The last answer, and the latest beginning of an attempt that was answered."""
        self.most_at_once = 0
        """Most requests in flight at the beginning of an attempt that was answered."""

    @property
    def works(self) -> bool:
        """Whether a request sent since the last refusal was answered."""
        return self.answered_from > self.refused_at

    def answered(self, now: float, ticket: Ticket) -> None:
        """Note an answer to the ticket's attempt."""
        self.answered_at = now
        if ticket.granted_at > self.answered_from:
            self.answered_from = ticket.granted_at
        if ticket.at_once > self.most_at_once:
            self.most_at_once = ticket.at_once

    def refused(self, now: float) -> None:
        """Note a refusal."""
        if self.works or math.isinf(self.refused_at):
            self.refused_since = now
        self.refused_at = now


class Allowance:
    """Windows of requests, input, output and total tokens: a request is sent when each has room for it."""

    def __init__(self, config: LaneConfig, terms: Terms | None = None) -> None:
        """`terms`: of the lane's lease; None: it has none."""
        self._config = config
        self._reads_free = not config.count_cache_reads
        self._terms = terms
        self.fate = Fate()
        self.pace = Pace.new()
        self.emit_at = -math.inf  # what replies say is reported again from this moment on
        self.doubtful = False  # a window has been doubtful, so there may have been probes
        self.windows: dict[WindowKind, Window] = {}
        self._taken_at = -math.inf
        for kind, (limit, binding) in _limits(config).items():
            if limit:
                self._open(kind, limit, binding=binding)

    def _open(self, kind: WindowKind, limit: float | None, *, binding: bool = False) -> Window:
        credits = None if self._terms is None or kind.is_long else Credits(self._terms)
        window = Window(kind, limit, binding=binding, grows=self._config.grows, credits=credits)
        self.windows[kind] = window
        return window

    def part(self, kind: WindowKind) -> Window:
        """Have a window of its own, which this returns, in place of one that other families share."""
        shared = self.windows[kind]
        return self._open(kind, shared.limit, binding=shared.binding)

    def configure(self, config: LaneConfig) -> None:
        """Change our own limits. A window that is new begins empty."""
        before, self._config = _limits(self._config), config
        for kind, (limit, binding) in _limits(config).items():
            if (limit, binding) == before[kind]:
                continue
            if kind in self.windows:
                self.windows[kind].set_limit(limit or None, binding=binding, grows=config.grows)
            elif limit:
                self._open(kind, limit, binding=binding)

    @property
    def disposable(self) -> bool:
        """Whether nothing would be lost with it but what was used in the last minute."""
        return not any(
            window.reserved or window.stated.limit is not None or (window.credits is not None and window.credits.used)
            for window in self.windows.values()
        )

    def superseded(self, kind: WindowKind) -> bool:
        """Whether the provider's headers have replaced a limit that was only assumed."""
        window = self.windows.get(kind)
        return window is not None and not window.enforced

    def amount(self, kind: WindowKind, ticket: Ticket) -> float:
        """Return what the ticket's request will likely take from a window of this kind."""
        tokens = ticket.estimated_input
        if self._reads_free:
            tokens -= ticket.cached
        if kind is WindowKind.INPUT:
            return float(tokens)
        if kind is WindowKind.OUTPUT:
            return float(ticket.estimated_output)
        if kind.counts_requests:
            return 1.0
        tokens += ticket.estimated_output
        if self._config.reserve_max_tokens:
            tokens = max(tokens, ticket.request.max_output_tokens or 0)
        return float(tokens)

    def delay_s(self, now: float, ticket: Ticket) -> float:
        """Return the seconds until the ticket may be sent, 0 for now."""
        delay = 0.0
        for kind, window in self.windows.items():
            amount = 1.0 if kind is WindowKind.REQUESTS else self.amount(kind, ticket)
            if (window_delay := window.delay_s(now, amount)) > delay:
                delay = window_delay
        return delay

    def spaced_s(self, now: float) -> float:
        """Return the seconds until the next request may be sent if a minute's requests are sent evenly."""
        window = self.windows.get(WindowKind.REQUESTS)
        if window is None or not window.limiting or not (full := window.full):
            return 0.0
        return self._taken_at + PERIOD_S / full - now

    def takes_s(self, ticket: Ticket) -> float:
        """Return in how many seconds the windows of a minute allow as much as the ticket will likely take."""
        longest_s = 0.0
        for kind, window in self.windows.items():
            full = window.full
            if full and kind in _OF_A_MINUTE and window.limiting:
                takes_s = self.amount(kind, ticket) * PERIOD_S / full
                if takes_s > longest_s:
                    longest_s = takes_s
        return longest_s

    def grow(self, now: float, ticket: Ticket, settle_s: float) -> tuple[list[Window], float]:
        """Raise the assumed limits that hold the ticket up (:meth:`.limits.Window.grow`). Return those that grew, and
        the seconds until the ticket may be sent, or another one of them may grow."""
        grown, delay, next_s = [], 0.0, math.inf
        for kind, window in self.windows.items():
            amount = self.amount(kind, ticket)
            window_delay = window.delay_s(now, amount)
            if window_delay > 0 and (wait_s := window.grow(now, settle_s, self.fate.answered_from)) is not None:
                if wait_s == 0:
                    grown.append(window)
                    window_delay, wait_s = window.delay_s(now, amount), settle_s
                next_s = min(next_s, wait_s)
            delay = max(delay, window_delay)
        return grown, min(delay, next_s)

    def refused(self, now: float, ticket: Ticket) -> Window | None:
        """Cut the fullest of the assumed limits, if it is full enough for a refusal of this ticket to be about it.
        Return it; None: none was cut.

        The refusal may be about requests at once instead, unless as many were answered, or it was alone: then it is
        left to the level, which finds back in seconds. Nor is it about them where a stated window has no room.
        """
        if 1 < ticket.at_once >= self.fate.most_at_once:
            return None
        if any(window.stated.level < self.amount(kind, ticket) for kind, window in self.windows.items()):
            return None
        windows = [window for window in self.windows.values() if window.grows]
        fullest = max(windows, key=lambda window: window.fill(now), default=None)
        if fullest is None or fullest.fill(now) < LEAST_FULL or ticket.granted_at < fullest.changed_at:
            return None
        fullest.refuse(now)
        self.fate.most_at_once = 0
        return fullest

    def shut(self, now: float, ticket: Ticket) -> tuple[str, float | None] | None:
        """Return the gate that is shut to the ticket, `requests` before `tokens`, and for how many seconds; None: none
        is. `credits`, for an unknown time: only another lease opens it."""
        if self._terms is not None and self.waits_for_lease(now, ticket):
            return "credits", None
        gates = {"requests": 0.0, "tokens": 0.0}
        for kind, window in self.windows.items():
            gate = "requests" if kind.counts_requests else "tokens"
            gates[gate] = max(gates[gate], window.delay_s(now, self.amount(kind, ticket)))
        return next(((gate, delay) for gate, delay in gates.items() if delay > 0), None)

    def waits_for_lease(self, now: float, ticket: Ticket) -> bool:
        """Whether the ticket waits for credits of the lane's lease, or for its limit a minute."""
        return any(window.waits_for_lease(now, self.amount(kind, ticket)) for kind, window in self.windows.items())

    def take(self, now: float, ticket: Ticket) -> Reservation:
        """Reserve what the granted ticket will likely use."""
        self._taken_at = now
        reservation = []
        for kind, window in self.windows.items():
            amount = 1.0 if kind is WindowKind.REQUESTS else self.amount(kind, ticket)
            reservation.append((window, window.take(now, amount)))
        return reservation

    def read(
        self, now: float, readings: tuple[WindowReading, ...], started_at: float, reservation: Reservation | None
    ) -> list[WindowReading]:
        """Take in a reply's headers; `started_at` and `reservation` are of the attempt that got it.

        Returns the readings whose reset is to be reported: see :meth:`.limits.Window.read`.
        """
        doubted = []
        charges = {window.kind: charge for window, charge in reservation or ()}
        for reading in readings:
            if (window := self.windows.get(reading.kind)) is None:
                if not reading.limit:
                    continue
                window = self._open(reading.kind, None)
            if window.read(now, reading, started_at, charges.get(reading.kind)):
                doubted.append(reading)
            if window.stated.doubtful:
                self.doubtful = True
            total = self.windows.get(WindowKind.TOKENS)
            counted_apart = reading.kind in (WindowKind.INPUT, WindowKind.OUTPUT)
            if counted_apart and total is not None and not total.binding and total.source != "headers":
                total.enforced = False  # an assumed limit on their sum means nothing any more
        return doubted

    def release(self, now: float) -> None:
        """Forget what headers stated; our own limits hold."""
        for window in self.windows.values():
            window.stated.forget(now)

    def settle(self, now: float, reservation: Reservation, usage: Usage | None, *, sent: bool = True) -> None:
        """Settle the attempt's real usage. If unknown, its request and input count as used, its output as not produced;
        an attempt that was never sent used nothing."""
        for window, charge in reservation:
            real = charge.amount
            if not sent or (usage is None and window.kind is WindowKind.OUTPUT):
                real = 0.0
            elif usage is not None and not window.kind.counts_requests:
                real = self._used(window.kind, usage)
            window.present.settle(now, charge, real)

    def states(self, names: Mapping[Window, str], now: float) -> list[WindowState]:
        """Return every window in `names` that has a limit, for people."""
        states = []
        for kind, window in self.windows.items():
            family, limit = names.get(window), window.shown_limit
            if (
                family is None
                or limit is None
                or (limit and not window.enforced and window.source in ("assumed", "refused"))
            ):
                continue
            remaining = window.remaining(now)
            states.append(
                WindowState(
                    family=family,
                    kind=kind,
                    limit=limit,
                    used=window.used_by_all,
                    reserved=window.reserved,
                    remaining=remaining if not math.isinf(remaining) else limit,
                    resets_in_s=window.resets_in_s(now),
                    source=window.source,
                    probe_in_s=window.stated.probe_in_s(now),
                    used_here=None if window.credits is None else window.used,
                )
            )
        return states

    def _used(self, kind: WindowKind, usage: Usage) -> float:
        tokens_in = usage.input_tokens + usage.cache_write_tokens
        if self._config.count_cache_reads:
            tokens_in += usage.cache_read_tokens
        if kind is WindowKind.INPUT:
            return float(tokens_in)
        return float(usage.output_tokens if kind is WindowKind.OUTPUT else tokens_in + usage.output_tokens)


def _limits(config: LaneConfig) -> dict[WindowKind, tuple[int, bool]]:
    return {WindowKind.REQUESTS: (config.rpm, config.rpm_binding), WindowKind.TOKENS: (config.tpm, config.tpm_binding)}
