"""Samples by difference: what of the gauges a journal has to hold, and how they stand where it holds nothing.

A sample that is written names the lanes and budgets that aren't as expected from the one before it. Expected is that
nothing changes but countdowns, which go on. While all is as expected, nothing is written, whatever time passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from operator import attrgetter

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, FamilyHold, Hold, LaneState, LeaseGauges, Sampled, WindowState
from hivemind.scheduler.types import Utilisation

WHOLE_EVERY_S = 60.0
"""A sample that is written so long after the last one with all lanes and budgets has all of them again, for readers
that begin in the middle of a journal."""
_PERIOD_S = 60.0
"""A rate window that nothing is taken from begins anew after this."""
_TOLERANCE_S = 0.05
"""Countdowns that differ by less are the same."""
_FRESH_S = 2.0
"""A lease that is no older is as young as any: it is renewed several times a second. An older one isn't renewed."""

_COUNTDOWNS = frozenset({"rate_limited_for_s", "circuit_reopens_in_s"})
_APART = _COUNTDOWNS | {"windows", "plan", "upcoming", "lease", "families"}
_standing = attrgetter(*(each for each in LaneState.__struct_fields__ if each not in _APART))
_counting = attrgetter(*sorted(_COUNTDOWNS))
_OF_PLAN = ("reset_in_s", "ends_in_s", "low_held_s", "normal_held_s")
_plan_standing = attrgetter(*(each for each in Utilisation.__struct_fields__ if each not in _OF_PLAN))
_plan_counting = attrgetter(*_OF_PLAN)
_window_standing = attrgetter(
    *(each for each in WindowState.__struct_fields__ if each not in ("resets_in_s", "probe_in_s"))
)


def aged(lane: LaneState, for_s: float) -> LaneState:
    """Return the lane's gauges after so many seconds in which nothing happened."""
    return replace(
        lane,
        rate_limited_for_s=max(0.0, lane.rate_limited_for_s - for_s),
        circuit_reopens_in_s=_less(lane.circuit_reopens_in_s, for_s),
        windows=tuple([_window_aged(each, for_s) for each in lane.windows]),
        plan=tuple([_plan_aged(each, for_s) for each in lane.plan]),
        upcoming=tuple(
            [
                Hold(each.ticket, each.gate, _less(each.opens_in_s, for_s), _less(each.estimate_s, for_s))
                for each in lane.upcoming
            ]
        ),
        lease=_lease_aged(lane.lease, for_s),
        families=tuple([replace(each, opens_in_s=_less(each.opens_in_s, for_s)) for each in lane.families]),
    )


def _plan_aged(window: Utilisation, for_s: float) -> Utilisation:
    return replace(
        window,
        reset_in_s=_less(window.reset_in_s, for_s),
        ends_in_s=_less(window.ends_in_s, for_s),
        low_held_s=max(0.0, window.low_held_s - for_s),
        normal_held_s=max(0.0, window.normal_held_s - for_s),
    )


def _lease_aged(lease: LeaseGauges | None, for_s: float) -> LeaseGauges | None:
    if lease is None or lease.age_s is None or lease.age_s <= _FRESH_S:
        return lease
    return replace(lease, age_s=lease.age_s + for_s)


def _less(countdown_s: float | None, for_s: float) -> float | None:
    return None if countdown_s is None else max(0.0, countdown_s - for_s)


def _is_whole(window: WindowState) -> bool:
    """Return whether nothing is taken from the window, so that its end changes nothing.

    What remains says less: of a leased one that rests it is 0, and where other clients of the key have used some, it
    changes at the end, which is told then.
    """
    return not window.used


def _window_aged(window: WindowState, for_s: float) -> WindowState:
    if window.resets_in_s is None:
        return window
    left_s = window.resets_in_s - for_s
    if left_s < 0:
        left_s = left_s % _PERIOD_S if _is_whole(window) else 0.0
    return replace(window, resets_in_s=left_s, probe_in_s=_less(window.probe_in_s, for_s))


def is_expected(lane: LaneState, before: LaneState, passed_s: float) -> bool:
    """Return whether the lane is as its gauges of so many seconds ago tell (:func:`aged`)."""
    if lane == before and not lane.windows and not any((lane.plan, lane.upcoming, lane.families, *_counting(lane))):
        return True
    return (
        _standing(lane) == _standing(before)
        and not lane.upcoming
        and not before.upcoming
        and len(lane.windows) == len(before.windows)
        and all(_counts_down(*pair, passed_s) for pair in zip(_counting(lane), _counting(before), strict=True))
        and all(_is_window_expected(*pair, passed_s) for pair in zip(lane.windows, before.windows, strict=True))
        and len(lane.plan) == len(before.plan)
        and all(_is_plan_expected(*pair, passed_s) for pair in zip(lane.plan, before.plan, strict=True))
        and len(lane.families) == len(before.families)
        and all(_is_hold_expected(*pair, passed_s) for pair in zip(lane.families, before.families, strict=True))
        and _is_lease_expected(lane.lease, before.lease, passed_s)
    )


def _is_plan_expected(now: Utilisation, before: Utilisation, passed_s: float) -> bool:
    if _plan_standing(now) != _plan_standing(before):
        return False
    pairs = zip(_plan_counting(now), _plan_counting(before), strict=True)
    return all(_counts_down(*pair, passed_s) for pair in pairs)


def _is_hold_expected(now: FamilyHold, before: FamilyHold, passed_s: float) -> bool:
    same = (now.family, now.gate) == (before.family, before.gate)
    return same and _counts_down(now.opens_in_s, before.opens_in_s, passed_s)


def _counts_down(now_s: float | None, before_s: float | None, passed_s: float) -> bool:
    if now_s is None or before_s is None:
        return now_s is before_s
    return abs(now_s - max(0.0, before_s - passed_s)) <= _TOLERANCE_S


def _is_window_expected(now: WindowState, before: WindowState, passed_s: float) -> bool:
    if _window_standing(now) != _window_standing(before):
        return False
    if _is_whole(now):
        return (now.resets_in_s is None) == (before.resets_in_s is None)
    return _counts_down(now.resets_in_s, before.resets_in_s, passed_s) and _counts_down(
        now.probe_in_s, before.probe_in_s, passed_s
    )


def _is_lease_expected(now: LeaseGauges | None, before: LeaseGauges | None, passed_s: float) -> bool:
    if now is None or before is None or now.age_s is None or before.age_s is None:
        return now == before
    if replace(now, age_s=0.0) != replace(before, age_s=0.0):
        return False
    if before.age_s <= _FRESH_S:
        return now.age_s <= _FRESH_S
    return abs(now.age_s - before.age_s - passed_s) <= _TOLERANCE_S


class Differences:
    """What a journal holds of the gauges, and so what of a sample it doesn't tell yet."""

    def __init__(self) -> None:
        self._lanes: dict[str, tuple[float, LaneState]] = {}
        self._budgets: dict[str | None, tuple[BudgetState, ...]] = {}
        """As of the last sample."""
        self._untold: dict[str | None, tuple[BudgetState, ...]] = {}
        """By owner whose budgets aren't as they were told: how they were."""
        self._work: list[tuple[str, str, int]] = []
        self._whole_at: float | None = None
        """When all was told; None: it wasn't, or what was told is lost."""

    def forget(self) -> None:
        """Tell all lanes and budgets in the next sample."""
        self._whole_at = None

    def take(self, sample: Sampled) -> None:
        """Take in a sample's budgets, of which nothing may be told: a partial sample has them only once."""
        budgets = by_owner(sample.budgets)
        if not sample.partial and self._budgets.keys() - budgets.keys():
            self._whole_at = None
        for owner, states in budgets.items():
            before = self._budgets.get(owner, ())
            if states != before and self._untold.setdefault(owner, before) == states:
                del self._untold[owner]
        if sample.partial:
            self._budgets |= budgets
        else:
            self._budgets = budgets

    def of(self, sample: Sampled) -> Sampled | None:
        """Return what the sample has that isn't told yet; None if there is nothing. It counts as told from now on.

        A sample may have only the budgets that aren't as in the last one; of lanes it has all.
        """
        self.take(sample)
        at, lanes, work = sample.at, {lane.lane: lane for lane in sample.lanes}, _counts(sample)
        if self._whole_at is None or self._lanes.keys() - lanes.keys():
            return self._whole(sample, lanes)
        news = [lane for lane in sample.lanes if not self._is_told(lane, at)]
        if not news and not self._untold and work == self._work:
            return None
        if at - self._whole_at >= WHOLE_EVERY_S:
            return self._whole(sample, lanes)
        self._lanes.update((lane.lane, (at, lane)) for lane in news)
        told = tuple([state for owner in self._untold for state in self._budgets[owner]])
        self._untold, self._work = {}, work
        return Sampled(at, tuple(news), told, partial=True, work=sample.work)

    def _is_told(self, lane: LaneState, at: float) -> bool:
        told = self._lanes.get(lane.lane)
        return told is not None and is_expected(lane, told[1], at - told[0])

    def _whole(self, sample: Sampled, lanes: Mapping[str, LaneState]) -> Sampled:
        self._whole_at, self._untold, self._work = sample.at, {}, _counts(sample)
        self._lanes = {name: (sample.at, lane) for name, lane in lanes.items()}
        return replace(sample, budgets=tuple(chain.from_iterable(self._budgets.values())), partial=False)


def _counts(sample: Sampled) -> list[tuple[str, str, int]]:
    return [(work.agent, work.kind, work.count) for work in sample.work]


def by_owner(states: Iterable[BudgetState]) -> dict[str | None, tuple[BudgetState, ...]]:
    """Return the budgets by their owner: an agent may have two, or None for the pool."""
    found: dict[str | None, tuple[BudgetState, ...]] = {}
    for state in states:
        found[state.owner] = (*found.get(state.owner, ()), state)
    return found
