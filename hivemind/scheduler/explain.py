"""A lane's gauges, and why its waiting tickets wait and for how long about.

Computed for a sample, several times a second, and so in one pass: a gate that is shut for all is found once, and the
rate windows are computed once a family; tickets further back are counted rather than examined.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from itertools import islice

from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.admission.leasing import Leasing
from hivemind.scheduler.events import UPCOMING_SHOWN, FamilyHold, Hold, LaneState, LeaseGauges, WindowState
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.lease import LeaseState
from hivemind.scheduler.limits import MAX_SHARE, PERIOD_S, Window
from hivemind.scheduler.operator.knobs import readings
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import WindowKind

_Shut = tuple[str, float | None]  # a gate, and seconds until it opens by itself where that is known
_NEXT: _Shut = ("next", None)
MOST_LOOKED_AT = 1000
"""Tickets before one that are looked at to tell when its turn comes."""
_DISPROVED = 2
"""After so many failures in a row nobody knows when an attempt gets through."""


def lane_state(lane: Lane, now: float, *, paused: bool) -> LaneState:
    """Return the lane's gauges; `paused`: the operator holds all admissions."""
    circuit, aimd, total = lane.circuit, lane.aimd, lane.total
    rate_limited_for_s, families = lane.paused_until - now, _families(lane, now)
    circuit_state, reopens_at = circuit.state.value, circuit.reopens_at
    if circuit.family is not None or lane.pauses:
        alone = len(lane.allowances) == 1
        if alone:  # what keeps the only family keeps the lane
            rate_limited_for_s = max([rate_limited_for_s, *(pause.until - now for pause in lane.pauses.values())])
            families = ()
        elif circuit.family is not None:
            circuit_state, reopens_at = "closed", None
    retrying = sum([ticket.attempts > 0 for ticket in lane.backing_off.values()])
    superseded = tuple(
        name
        for name, kind in (("rpm", WindowKind.REQUESTS), ("tpm", WindowKind.TOKENS))
        if any(allowance.superseded(kind) for allowance in lane.allowances.values())
    )
    return LaneState(
        lane=lane.key,
        upstream=lane.config.upstream,
        provider=lane.config.provider,
        active=lane.gate.active,
        waiting=lane.queue.waiting + len(lane.backing_off) - retrying,
        retrying=retrying,
        level=aimd.level,
        ceiling=aimd.ceiling,
        floor=aimd.config.floor,
        pinned=aimd.pinned,
        mean_ttft_s=aimd.mean_latency_s,
        mean_excess_s=aimd.mean_excess_s,
        latency_target_s=aimd.config.latency_target_s,
        rate_limited_for_s=max(0.0, rate_limited_for_s),
        paused=paused,
        circuit=circuit_state,
        circuit_forced=circuit.forced is not None,
        circuit_errors=circuit.errors,
        circuit_results=circuit.results,
        circuit_window=circuit.config.window,
        circuit_threshold=circuit.config.threshold,
        circuit_reopens_in_s=None if reopens_at is None else max(0.0, reopens_at - now),
        windows=_windows(lane, now),
        plan=lane.long.states(now),
        knobs=readings(lane.config, lane.settings.retry, superseded),
        refusal=lane.refusal,
        used_up=lane.used_up,
        upcoming=_holds(lane, now, paused),
        upstream_active=0 if total is None else total.active,
        upstream_limit=0 if total is None else int(total.limit),
        lease=None if lane.leasing is None else _lease_gauges(lane, lane.leasing, now),
        families=families,
    )


def _windows(lane: Lane, now: float) -> tuple[WindowState, ...]:
    names = lane.named_windows
    states = []
    for allowance in lane.allowances.values():
        states += allowance.states(names, now)
        for window in allowance.windows.values():
            names.pop(window, None)  # others take from it too
    return tuple(states)


def _families(lane: Lane, now: float) -> tuple[FamilyHold, ...]:
    names = dict.fromkeys([*lane.pauses, *([] if lane.circuit.family is None else [lane.circuit.family])])
    gates = [(name, lane.family_gate(name, now)) for name in names]
    return tuple([FamilyHold(name, gate[0], _finite(gate[1])) for name, gate in gates if gate is not None])


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds


def _lease_gauges(lane: Lane, leasing: Leasing, now: float) -> LeaseGauges:
    lease = leasing.lease
    return LeaseGauges(
        state=lease.state.value,
        members=lease.members,
        slots=lane.gate.slots,
        level=lease.level if leasing.shared else lane.aimd.level,
        in_flight=lease.in_flight,
        waiting=lease.waiting,
        age_s=None if math.isinf(leasing.taken_at) else now - leasing.taken_at,
    )


def _slot_gate(lane: Lane, now: float) -> str:
    """Return the gate of a lane without a free slot, or without a lease: whose slots they are."""
    if lane.leasing is None:
        return "slot"
    lease = lane.leasing.lease
    if lease.state is LeaseState.JOINING or now >= lane.leased_until:
        return "fleet"
    return "fleet_slots" if lease.slots < lease.level else "slot"


def _holds(lane: Lane, now: float, paused: bool) -> tuple[Hold, ...]:
    """Return what keeps the first :data:`UPCOMING_SHOWN` waiting tickets, those in line before those that aren't.

    A ticket outside the line (its agent is held, or it is between two attempts) isn't kept by slots or rate windows,
    but by what keeps it from the line.
    """
    if not (lane.queue.waiting or lane.backing_off):
        return ()
    view = _LaneView(lane, now, paused)
    found = [view.in_line(ticket) for ticket in lane.queue.upcoming(now, UPCOMING_SHOWN)]
    found += [view.left_out(ticket) for ticket in islice(lane.queue.left_out(now), UPCOMING_SHOWN - len(found))]
    soon = sorted(islice(lane.backing_off.values(), UPCOMING_SHOWN - len(found)), key=lambda ticket: ticket.retry_at)
    found += [view.backing_off(ticket) for ticket in soon]
    return tuple(found)


def hold_of(lane: Lane, ticket: Ticket, now: float, *, paused: bool) -> Hold | None:
    """Return what keeps one waiting ticket; None: it is further back than is looked."""
    view = _LaneView(lane, now, paused)
    if ticket.id in lane.backing_off:
        return view.backing_off(ticket)
    if ticket.agent.held:
        return view.left_out(ticket)
    holds = (view.in_line(each) for each in lane.queue.upcoming(now, MOST_LOOKED_AT))
    return next((hold for hold in holds if hold.ticket == ticket.id), None)


class _LaneView:
    """A lane at a moment, as its waiting tickets see it."""

    def __init__(self, lane: Lane, now: float, paused: bool) -> None:
        self._lane = lane
        self._now = now
        self._for_all: _Shut | None = ("paused", None) if paused else None
        self._lead_s = self._stagger_s = 0.0  # until no gate is shut to all, and between two grants after that
        only = next(iter(lane.allowances)) if len(lane.allowances) == 1 else None  # what keeps it keeps the lane
        pause = lane.whole if only is None or lane.whole.until > now else lane.pauses.get(only, lane.whole)
        if now < pause.until:
            self._for_all = self._for_all or ("rate_limited", pause.until - now)
        if now < max(pause.until, pause.next_grant_at):
            self._lead_s = max(pause.until, pause.next_grant_at) - now
            self._stagger_s = lane.settings.retry.stagger_s
        if lane.shut_for_all or (lane.circuit.family is not None and lane.circuit.family == only and lane.circuit_shut):
            reopens_at = lane.circuit.reopens_at
            opens_in_s = None if reopens_at is None else max(0.0, reopens_at - now)
            self._for_all = self._for_all or ("circuit", opens_in_s)
            # Then a probe goes alone, and its outcome decides about the others.
            self._lead_s = max(self._lead_s, (opens_in_s or 0.0) + (lane.hold_s or 0.0))
        self._for_line = None if lane.gate.free and now < lane.leased_until else (_slot_gate(lane, now), None)
        no_lease = self._for_all is None and self._for_line == ("fleet", None)
        self._unknowable = paused or lane.circuit.forced == "open" or no_lease
        self._unknowable |= lane.disproved >= _DISPROVED
        if self._for_all is None and self._for_line is None and lane.total is not None and not lane.total.free:
            self._for_line = ("upstream", None)
            self._unknowable = True  # other lanes may come first
        slots, active, hold_s = lane.gate.slots, lane.gate.active, lane.hold_s
        self._pace_s = None if hold_s is None else hold_s / max(slots, 1)  # between two slots coming free
        self._free = slots - active
        if self._lead_s and hold_s:
            self._free += active * min(1.0, self._lead_s / hold_s)
        self._outlooks: dict[str, Outlook] = {}  # by family
        self._openings: dict[Window, Opening] = {}
        self._flowing = self._ahead = 0  # tickets so far that no rate window keeps, and all
        self._kept: Counter[str] = Counter()  # tickets so far of families that are held while others aren't

    def in_line(self, ticket: Ticket) -> Hold:
        """Explain the next ticket in the queue; to be called in their order."""
        held: _Shut | None = None
        window_s = 0.0
        own = self._family_gate(ticket)
        if self._lane.settings.rate_windows:
            family = ticket.request.family
            if (outlook := self._outlooks.get(family)) is None:
                outlook = self._outlooks[family] = Outlook(
                    self._lane.allowances[family], ticket, self._now, self._openings
                )
            held, window_s = outlook.held, outlook.after(ticket)
        if own is not None and self._for_all is None:
            before = self._kept[ticket.request.family]
            self._kept[ticket.request.family] += 1
            own_s = own[1] or self._lane.hold_s or 0.0
            return Hold(ticket.id, *own, self._estimate(before, max(own_s, window_s), own_s))
        ahead = self._ahead if window_s else self._flowing
        self._ahead += 1
        self._flowing += not window_s
        gate, opens_in_s = self._for_all or self._for_line or held or _NEXT
        return Hold(ticket.id, gate, opens_in_s, self._estimate(ahead, max(window_s, opens_in_s or 0.0)))

    def _family_gate(self, ticket: Ticket) -> _Shut | None:
        """Return what keeps the ticket's family alone, but for the short distance between two grants."""
        family, paced = ticket.request.family, self._lane.queue.paced
        if paced is not None and (held_s := paced(family, ticket.priority, self._now)) > 0:
            return "pace", held_s
        gate = self._lane.family_gate(family, self._now)
        if gate is None or (gate[0] == "rate_limited" and self._lane.pauses[family].until <= self._now):
            return None
        return gate[0], _finite(gate[1])

    def left_out(self, ticket: Ticket) -> Hold:
        """Explain a ticket of an agent that is held."""
        agent = ticket.agent
        own = "budget" if agent.out_of_budget else "held" if agent.on_hold else "dependency"
        gate, opens_in_s = self._for_all or self._family_gate(ticket) or (own, None)
        return Hold(ticket.id, gate, opens_in_s, None)

    def backing_off(self, ticket: Ticket) -> Hold:
        """Explain a ticket between two attempts, or one that follows another's. It comes back ahead of its agent's
        others, so not at the end."""
        if ticket.agent.held:
            return self.left_out(ticket)
        retry_in_s = max(0.0, ticket.retry_at - self._now)
        own = "backoff" if ticket.attempts else "first_write"
        gate, opens_in_s = self._for_all or self._family_gate(ticket) or (own, retry_in_s)
        return Hold(ticket.id, gate, opens_in_s, self._estimate(0, max(retry_in_s, opens_in_s or 0.0)))

    def _estimate(self, ahead: int, at_least_s: float, lead_s: float = 0.0) -> float | None:
        """Return the seconds until so many other tickets and then this one have got a slot, none of them before
        `lead_s`; None: unknowable."""
        if self._unknowable:
            return None
        wait_s = ahead * self._stagger_s
        behind = ahead + 1 - self._free
        if behind > 0:
            if self._pace_s is None:
                return None
            wait_s = max(wait_s, behind * self._pace_s)
        return max(max(self._lead_s, lead_s) + wait_s, at_least_s)


class Outlook:
    """The windows of one family, to be asked about its tickets in the order in which they will be sent."""

    def __init__(
        self, allowance: Allowance, first: Ticket, now: float, openings: dict[Window, Opening] | None = None
    ) -> None:
        """`openings` are those of all families, which may take from the same window."""
        openings = {} if openings is None else openings
        self._allowance = allowance
        self._openings = [
            (kind, openings.setdefault(window, Opening(window, now)))
            for kind, window in allowance.windows.items()
            if window.shown_limit is not None
        ]
        self.held: _Shut | None = None
        """The gate that is shut to the first ticket, and so to all, and for how many seconds; None: none is."""
        if self._openings:
            self.held = allowance.shut(now, first)

    def after(self, ticket: Ticket) -> float:
        """Return the seconds until the windows let the ticket through, after all earlier ones."""
        amount = self._allowance.amount
        return max((opening.after(amount(kind, ticket)) for kind, opening in self._openings), default=0.0)


class Opening:
    """When one window will have room for one amount after another."""

    def __init__(self, window: Window, now: float) -> None:
        self._window = window
        self._now = now
        self._total = 0.0  # amounts asked for so far
        limit = window.shown_limit
        self._most = math.inf if limit is None else limit * MAX_SHARE
        self._room, self._charges = window.sliding(now)
        self._left = window.stated_left
        self._freed: list[float] = []  # the sum that has come free by each moment of `_freed_at`
        self._freed_at: list[float] = []

    def after(self, amount: float) -> float:
        """Return the seconds until this amount may be taken besides all earlier ones."""
        self._total += min(amount, self._most)
        delay_s = self._sliding() if self._total > self._room else 0.0
        missing = self._total - self._left
        return max(delay_s, self._window.stated.refilled_in_s(self._now, missing)) if missing > 0 else delay_s

    def _sliding(self) -> float:
        """Return the seconds by our own limit: a charge comes free after a minute, its successor one later. By a lease
        it is a guess."""
        if self._window.credits is not None:
            return self._window.leased_in_s(self._now, self._total - self._room)
        limit = self._window.limit
        assert limit is not None
        minutes = math.ceil(self._total / limit) - 1
        missing = self._total - minutes * limit - self._room
        if missing <= 0:
            return minutes * PERIOD_S
        while not self._freed or self._freed[-1] < missing:
            charge = next(self._charges, None)
            if charge is None:
                return (minutes + 1) * PERIOD_S
            self._freed.append(charge.amount + (self._freed[-1] if self._freed else 0.0))
            self._freed_at.append(charge.at)
        at = self._freed_at[bisect_left(self._freed, missing)]
        return minutes * PERIOD_S + max(0.0, at + PERIOD_S - self._now)
