"""Samples by difference."""

from __future__ import annotations

import random

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.driving import Hands, lane_config
from world.kit import LANE, arrived, budget, hold, sampled, state, told

from hivemind.records import replace
from hivemind.scheduler.commands import SetBudget
from hivemind.scheduler.events import BudgetState, FamilyHold, LaneState, LeaseGauges, Sampled, WindowState
from hivemind.scheduler.types import Usage, Utilisation, WindowKind, WindowReading
from hivemind.world.gauges import WHOLE_EVERY_S, Differences, aged
from hivemind.world.snapshot import Snapshot
from hivemind.world.world import World


def window(remaining: float = 100.0, resets_in_s: float | None = 30.0) -> WindowState:
    """Of 100 requests a minute."""
    return WindowState("family", WindowKind.REQUESTS, 100.0, 100.0 - remaining, 0.0, remaining, resets_in_s, "headers")


def written(*samples: Sampled) -> list[Sampled]:
    """What a journal gets of them."""
    differences = Differences()
    return [found for each in samples if (found := differences.of(each)) is not None]


def test_nothing_while_nothing_changes() -> None:
    """Countdowns go on, a window that is whole begins anew every minute, and a lease is renewed."""
    lease = LeaseGauges("leased", 2, 4.0, 8.0)
    whole = replace(state(), windows=(window(), window(remaining=20.0, resets_in_s=5000.0)), rate_limited_for_s=4000.0)
    whole = replace(whole, families=(FamilyHold("opus", "rate_limited", 3800.0), FamilyHold("haiku", "circuit", None)))
    samples = [
        sampled(
            float(at),
            replace(
                aged(whole, float(at)),
                lease=replace(lease, age_s=at % 7 / 10),
                windows=(window(resets_in_s=float(60 - at % 55)), window(remaining=20.0, resets_in_s=5000.0 - at)),
            ),
            budgets=(budget(), budget(None)),
        )
        for at in range(900)
    ]
    assert written(*samples) == samples[:1]


def test_an_idle_scheduler_tells_nothing() -> None:
    """Two minutes after its last request, of fifty agents with budgets, nothing is left to tell, for hours."""
    hands = Hands(lane_config(slots=8, rpm=1000), checked=False)
    for number in range(50):
        hands.now = number / 10
        ticket = hands.arrive(f"agent-{number}")
        readings = (
            WindowReading(WindowKind.REQUESTS, 1000, 990 - number, 20.0),
            WindowReading(WindowKind.INPUT, 400_000, 300_000, 30.0),
        )
        hands.scheduler.headers(hands.now, ticket, readings, (Utilisation("5h", 0.5, 9000.0, "allowed"),))
        hands.content(ticket)
        hands.succeed(ticket, Usage(500, 0, 0, 100))
        hands.apply(SetBudget(f"agent-{number}", 50_000))
    moments = [*(5.0 + second for second in range(150)), *(160.0 + 11.3 * number for number in range(150))]
    told_at = [each.at for each in written(*map(hands.scheduler.sample, moments))]
    assert 0 < len(told_at) < 120
    assert max(told_at) < 125


@pytest.mark.parametrize("leases", ["renewed", "ended"])
def test_an_idle_lane_of_a_fleet_tells_nothing(leases: str) -> None:
    """Its windows go on beginning anew, though without a lease nothing remains of them."""
    hands = Hands(lane_config(slots=8, rpm=1000), checked=False, leasing=True)
    key = "m", WindowKind.REQUESTS
    limits = {key: 1000.0}
    hands.lease(slots=8, level=8, credits={key: 50.0}, in_force=limits)
    ticket = hands.arrive()
    readings = (WindowReading(*key[1:], 1000, 990, 20.0), WindowReading(WindowKind.INPUT, 400_000, 300_000, 30.0))
    hands.scheduler.headers(hands.now, ticket, readings, ())
    hands.content(ticket)
    hands.succeed(ticket, Usage(500, 0, 0, 100))
    samples = []
    while hands.now < 400.0:
        hands.until(hands.now + 0.5)
        if leases == "renewed" or hands.now < 5.0:
            hands.lease(slots=8, level=8, in_force=limits, used={key: 0.0}, until=hands.now + 3.0)
            hands.report()
        samples.append(hands.scheduler.sample(hands.now))
    (window, _) = samples[-1].lanes[0].windows
    assert (window.used, window.resets_in_s is None) == (0.0, False)
    told_at = [each.at for each in written(*samples)]
    assert 0 < len(told_at) < 30
    assert max(told_at) < 125


def test_a_lease_that_is_not_renewed() -> None:
    """It is told once that it grows old, and once that it is young again."""
    ages = [*(at % 3 / 4 for at in range(10)), *(2.5 + at for at in range(100)), 0.2, 0.1, 0.4]
    lane = replace(state(), lease=LeaseGauges("joining", 1, 0, 5.0))
    samples = [
        sampled(float(at), replace(lane, lease=LeaseGauges("joining", 1, 0, 5.0, age_s=age)))
        for at, age in enumerate(ages)
    ]
    assert [each.at for each in written(*samples)] == [0.0, 10.0, 110.0]
    world = told(*written(*samples[:50]))
    shown = world.snapshot(49.0).lanes[0].state.lease
    assert shown is not None
    assert shown.age_s == ages[49]


def test_only_what_changed() -> None:
    """One lane of two, and one owner's budgets, both of them."""
    other, two = replace(state(), lane="up:2"), (budget(used_tokens=1), budget(covers="subtree"))
    first = sampled(0.0, state(), other, budgets=(budget(None), *two))
    second = sampled(1.0, state(), replace(other, active=1), budgets=(budget(None), *two))
    third = sampled(2.0, state(), replace(other, active=1), budgets=(budget(None), budget(used_tokens=2), two[1]))
    assert written(first, second, third) == [
        first,
        Sampled(1.0, (replace(other, active=1),), partial=True),
        Sampled(2.0, (), (budget(used_tokens=2), two[1]), partial=True),
    ]


def test_all_from_time_to_time() -> None:
    """For readers that begin in the middle; and where a lane or a budget has gone."""
    levels = [
        sampled(float(at), state(4.0 + at), replace(state(), lane="up:2")) for at in range(int(WHOLE_EVERY_S) + 2)
    ]
    assert [each.at for each in written(*levels) if not each.partial] == [0.0, WHOLE_EVERY_S]
    gone = written(sampled(0.0, state(), budgets=(budget(),)), sampled(1.0, state()), sampled(2.0))
    assert [(each.at, each.partial) for each in gone] == [(0.0, False), (1.0, False), (2.0, False)]


def test_what_was_lost_is_told_again() -> None:
    """After a gap in the journal the next sample has everything."""
    differences = Differences()
    assert differences.of(sampled(0.0, state())) is not None
    differences.forget()
    assert differences.of(sampled(1.0, state())) == sampled(1.0, state())


def test_requests_that_wait_are_told() -> None:
    """What holds them is an estimate that changes."""
    waits = state(waiting=1, upcoming=(hold(1, estimate_s=3.0),))
    assert len(written(*(sampled(float(at), waits) for at in range(5)))) == 5


def lanes_of(snapshot: Snapshot) -> list[LaneState]:
    """Without a countdown that says nothing, of windows from which nothing is taken."""
    return [
        replace(
            view.state,
            windows=tuple(
                replace(each, resets_in_s=None if each.remaining == each.limit else each.resets_in_s)
                for each in view.state.windows
            ),
        )
        for view in snapshot.lanes
    ]


@given(st.integers(0, 2**32))
@settings(max_examples=examples(80) // 2, deadline=None)
def test_a_replay_shows_the_same(seed: int) -> None:
    """At each moment, gauges, curves and budgets are those of all samples, also where one has only what has changed of
    budgets, or isn't written."""
    rng = random.Random(seed)
    live, changing, replayed, differences = told(), told(), told(), Differences()
    lanes = [replace(state(), lane=LANE), replace(state(), lane="up:2", windows=(window(40.0, 7.0), window()))]
    budgets: list[BudgetState] = [budget(None), budget("bob")]
    at, before = 0.0, list[BudgetState]()
    for _ in range(60):
        at += 1.0
        lanes = [aged(each, 1.0) for each in lanes]
        for place in range(len(lanes)):
            if rng.random() < 0.15:
                lanes[place] = replace(lanes[place], active=rng.randrange(3), level=rng.random())
            if rng.random() < 0.05:
                lanes[place] = replace(lanes[place], windows=(window(rng.choice((10.0, 100.0)), rng.random() * 50),))
        if rng.random() < 0.1:
            budgets[1] = budget("bob", used_tokens=rng.randrange(9000))
        if rng.random() < 0.05:
            came = arrived(int(at), agent=rng.choice(("bob", "cat")), at=at, lane="up:2")
            live.apply(came)
            changing.apply(came)
            replayed.apply(came)
        sample = sampled(at, *lanes, budgets=tuple(budgets))
        live.apply(sample)
        news = tuple(each for each in budgets if each not in before)
        changes = replace(sample, budgets=news, partial=True) if before and rng.random() < 0.8 else sample
        before = budgets.copy()
        changing.apply(changes)
        if rng.random() < 0.2:  # another one comes at once, and only that is written
            differences.take(changes)
            changes = replace(sample, budgets=(), partial=True)
        found = differences.of(changes)
        if found is not None:
            replayed.apply(found)
        if rng.random() < 0.3:
            _same(live, replayed, at)
            _same(live, changing, at)


def _same(live: World, replayed: World, at: float) -> None:
    ours, theirs = replayed.snapshot(at), live.snapshot(at)
    assert _rounded(lanes_of(ours)) == _rounded(lanes_of(theirs))
    # The last point comes a little later where no sample came.
    assert [[each for each in view.curve if each.at < at] for view in ours.lanes] == [
        [each for each in view.curve if each.at < at] for view in theirs.lanes
    ]
    assert (ours.pool, [(each.name, each.budget) for each in ours.agents]) == (
        theirs.pool,
        [(each.name, each.budget) for each in theirs.agents],
    )


def _rounded(lanes: list[LaneState]) -> list[LaneState]:
    return [
        replace(
            lane,
            windows=tuple(
                replace(each, resets_in_s=None if each.resets_in_s is None else round(each.resets_in_s, 6))
                for each in lane.windows
            ),
        )
        for lane in lanes
    ]
