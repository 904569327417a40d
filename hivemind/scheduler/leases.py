"""Taking a lane's lease, and making its report."""

from __future__ import annotations

import math

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.leasing import Leasing
from hivemind.scheduler.credits import AHEAD_S
from hivemind.scheduler.lane import FAMILIES_KEPT, Lane
from hivemind.scheduler.lease import SPARE, LaneReport, Lease, LeaseState, WindowKey, WindowReport
from hivemind.scheduler.limits import MAX_SHARE, Window
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Priority

_OWN_PAUSE_S = 1.0
"""A pause that has so little left has ended elsewhere because of that, rather than because an operator ended it."""
_CAUSE = "fleet"
TOLD_EVERY_S = 1.0  # between two events about a lease, unless its state has changed


def take_lease(lane: Lane, leasing: Leasing, now: float, lease: Lease) -> bool:
    """Have the lane go on under this lease. Return whether that opened its circuit."""
    had_credits = leasing.shared
    cuts = leasing.lease.cuts
    leasing.take(now, lease)
    lane.leased_until = lease.until
    _take_windows(lane, leasing, now, had_credits=had_credits)
    if leasing.shared:
        _take_level(lane, leasing, now, cut=had_credits and lease.cuts > cuts, stale=lease.cuts != cuts)
        _take_pause(lane, leasing, now)
        opened = _take_circuit(lane, leasing, now)
    else:
        _go_alone(lane, leasing, now)
        opened = False
    lane.set_slots()
    return opened


def _take_windows(lane: Lane, leasing: Leasing, now: float, *, had_credits: bool) -> None:
    lease, given = leasing.lease, dict(leasing.lease.credits) if leasing.shared else {}
    limits = lease.limits or {}
    for family in {family for family, _ in (*given, *limits, *lease.in_force)} - lane.allowances.keys():
        if len(lane.allowances) < FAMILIES_KEPT // 2:  # those used here aren't dropped for those of others
            _ = lane.allowances[family]  # opens them
    for family, allowance in lane.allowances.items():
        for kind, window in allowance.windows.items():
            credits = window.credits
            if credits is None:
                continue
            key = family, kind
            if not (had_credits and leasing.shared):
                credits.void(all_of_it=not leasing.shared)
            credits.left += given.pop(key, 0.0)
            credits.limit = limits.get(key)
            before, credits.in_force = window.full, lease.in_force.get(key)
            credits.used_by_all = lease.used.get(key)
            if window.grows and window.follow(now, lease.changes.get(key, 0), refused=key in lease.refused):
                lane.assumed_changed(now, family, window, refused=window.full < before)
    for key, amount in given.items():
        leasing.unclaimed[key] = leasing.unclaimed.get(key, 0.0) + amount


def _take_level(lane: Lane, leasing: Leasing, now: float, *, cut: bool, stale: bool) -> None:
    """Follow the level of all proxies; `stale`: its number of cuts isn't the one that a cut here belongs to."""
    lease, aimd = leasing.lease, lane.aimd
    aimd.shared, aimd.ceiling = True, lane.ceiling
    if stale:
        aimd.cut = None
    if stale or now >= leasing.cut_until:
        leasing.cut = None
    if leasing.pin is not None or leasing.holds_pin(now):
        return  # the operator's level here is news to the others
    aimd.pinned = lease.pinned is not None
    level = lease.level if leasing.cut_here(aimd) == 1.0 else min(aimd.level, lease.level)
    aimd.follow(now, level, cut=cut)


def _take_pause(lane: Lane, leasing: Leasing, now: float) -> None:
    stated, own = leasing.lease.pauses, leasing.own_pauses
    for family, for_s in stated.items():
        own.discard(family)
        if not leasing.resumed:
            lane.pause(now, for_s, _CAUSE, family)
    unstated = (pause for family, pause in lane.all_pauses.items() if family not in stated and family not in own)
    if any(pause.until - now > _OWN_PAUSE_S for pause in unstated):
        lane.reopen(now)


def _take_circuit(lane: Lane, leasing: Leasing, now: float) -> bool:
    lease, circuit = leasing.lease, lane.circuit
    circuit.shared = True
    if lease.trips != leasing.trips:
        circuit.outcome = None  # it was about another state
        leasing.circuit_until = -math.inf
    leasing.trips = lease.trips
    if circuit.outcome is not None or leasing.forced is not None or now < leasing.circuit_until:
        return False
    if not circuit.follow(now, lease.circuit, lease.reopens_in_s, lease.forced, lease.family):
        return False
    lane.report_circuit(now, _CAUSE)
    return lease.circuit == "open"


def _go_alone(lane: Lane, leasing: Leasing, now: float) -> None:
    """Have AIMD and the circuit decide here, within the lease's slots."""
    aimd = lane.aimd
    fresh = aimd.shared and leasing.lease.state is not LeaseState.JOINING
    aimd.shared, aimd.cut = False, None
    lane.circuit.go_alone(now)
    lane.poll_circuit(now)
    aimd.ceiling = ceiling = lane.ceiling
    level = ceiling if fresh and not math.isinf(ceiling) else min(aimd.level, ceiling)
    level = max(level, min(aimd.config.floor, ceiling))
    if level != aimd.level:
        aimd.follow(now, level, cut=False)


def lane_report(lane: Lane, leasing: Leasing, now: float) -> LaneReport:
    """Return what the lane used since its last report, and what it wants; the caller has to deliver it."""
    waiting = [0] * len(Priority)
    needs: dict[WindowKey, list[float]] = {}
    can_probe = lane.circuit.probe is not None
    for family, priority, number, ticket in lane.queue.in_line(now):
        can_probe |= lane.circuit.keeps(family)
        if lane.family_gate(family, now) is not None:
            continue  # neither slots nor rate windows keep these
        waiting[priority] += number
        for key, window in _windows(lane, family):
            need = needs.setdefault(key, [0.0] * len(Priority))
            need[priority] += number * _amount(lane, window, ticket)
    shares = _sendable(lane, leasing, waiting)
    first = lane.queue.first(now)
    aimd, circuit = lane.aimd, lane.circuit
    opened_for_s = None if circuit.outcome in (None, "probe_ok") else lane.config.circuit.cooldown_s
    report = LaneReport(
        windows=_window_reports(lane, leasing, now, needs, shares, first),
        in_flight=list(leasing.in_flight),
        waiting=waiting,
        agents=lane.queue.agents_at_work(),
        ceiling=float(lane.config.max_concurrency or math.inf) if lane.settings.admission else math.inf,
        begin=lane.beginning,
        floor=aimd.config.floor,
        cut=aimd.cut,
        cuts=leasing.lease.cuts,
        grow=aimd.take_growth() if leasing.shared else 0.0,
        settle_s=aimd.settle_s,
        pauses={
            family: pause.until - now
            for family, pause in lane.all_pauses.items()
            if family in leasing.own_pauses and pause.until > now
        },
        resumed=leasing.resumed,
        trips=leasing.trips,
        opened_for_s=opened_for_s,
        opened_family=None if opened_for_s is None else circuit.family,
        can_probe=can_probe,
        probe_ok={"probe_ok": True, "probe_failed": False}.get(circuit.outcome or ""),
        forced=leasing.forced,
        pin=leasing.pin,
    )
    leasing.reported(now, aimd, circuit, lane.queue.places())
    return report


def _windows(lane: Lane, family: str) -> list[tuple[WindowKey, Window]]:
    if not lane.settings.rate_windows:
        return []
    windows = lane.allowances[family].windows
    return [((family, kind), window) for kind, window in windows.items() if window.limiting]


def _amount(lane: Lane, window: Window, ticket: Ticket) -> float:
    """Return what has to be left of the window's credits for the ticket to be sent."""
    amount = lane.allowances[ticket.request.family].amount(window.kind, ticket)
    return min(amount, MAX_SHARE * window.full)


def _sendable(lane: Lane, leasing: Leasing, waiting: list[int]) -> list[float]:
    """Return the shares of waiting requests, by class, that slots may let through until about three syncs from now: of
    credits for others nobody had anything."""
    lease, hold_s = leasing.lease, lane.hold_s
    slots = max(lease.slots, lease.level / max(lease.members, 1), 1.0)
    if lease.state is LeaseState.JOINING or hold_s is None or math.isinf(slots):
        return [1.0] * len(waiting)
    left = slots * (1.0 + AHEAD_S / max(hold_s, 0.001))
    shares = []
    for count in waiting:
        shares.append(min(1.0, left / count) if count else 1.0)
        left = max(0.0, left - count)
    return shares


def _window_reports(
    lane: Lane,
    leasing: Leasing,
    now: float,
    needs: dict[WindowKey, list[float]],
    shares: list[float],
    first: dict[str, Ticket],
) -> dict[WindowKey, WindowReport]:
    reports = {key: WindowReport(returned=amount) for key, amount in leasing.unclaimed.items()}
    leasing.unclaimed = {}
    nothing = [0.0] * len(Priority)
    for family, allowance in lane.allowances.items():
        for kind, window in allowance.windows.items():
            credits, key = window.credits, (family, kind)
            if credits is None:
                continue
            credits.forget_before(now)
            limiting = window.limiting and lane.settings.rate_windows
            if not limiting and not credits.left:
                continue
            need = [each * share for each, share in zip(needs.get(key, nothing), shares, strict=True)]
            next_one = first.get(family)
            wanted = credits.wanted(now, need) if limiting else [0.0] * (SPARE + 1)
            returned = credits.give_back(wanted, tight=not limiting or key in leasing.lease.tight)
            limit = window.own_limit if limiting else None
            grow = window.may_grow(allowance.fate.answered_from) and key in leasing.lease.tight
            refused, credits.refused = credits.refused, False
            news = refused or credits.used or credits.left or returned or any(wanted) or credits.stated is not None
            if not news and limit == credits.reported_limit:
                continue
            credits.reported_limit = limit
            unclaimed = reports[key].returned if key in reports else 0.0
            stated, credits.stated = credits.stated, None
            reports[key] = WindowReport(
                used=credits.take_used(),
                left=credits.left,
                returned=returned + unclaimed,
                wanted=wanted,
                first=_amount(lane, window, next_one) if next_one is not None else 0.0,
                limit=limit,
                source=window.source,
                stated=stated,
                open=window.reserved if window.grows else 0.0,
                grow=grow,
                refused=refused,
                changes=credits.changes,
            )
    return reports


def lease_changed(lane: Lane, leasing: Leasing, now: float) -> None:
    """Report to people what has changed of the lease, if it matters."""
    lease, gate, level = leasing.lease, lane.gate, lane.aimd.level
    before = leasing.shown
    if (
        before is not None
        and before[0] is lease.state
        and not (now >= before[3] + TOLD_EVERY_S and (_differ(before[1], gate.slots) or _differ(before[2], level)))
    ):
        return
    leasing.shown = lease.state, gate.slots, level, now
    entered = before is None or before[0] is not lease.state
    lane.emit(ev.LeaseChanged(now, lane.key, lease.state.value, gate.slots, level, lease.members, entered))


def _differ(before: float, after: float) -> bool:
    """Whether two numbers of slots differ by more than a fifth, or one of them is 0."""
    if before == after:
        return False
    return not before or not after or math.isinf(before + after) or abs(after - before) > 0.2 * before
