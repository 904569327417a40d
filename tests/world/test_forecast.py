"""What happens next at the present rate."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import pytest
from world.kit import arrived, budget, finished, granted, sampled, state, task_added, task_changed, told
from world.test_vitals import many

from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import WindowState
from hivemind.scheduler.types import Usage, WindowKind
from hivemind.world.forecast import period_left_s, tasks_done_in_s, used_up
from hivemind.world.health import Forecast
from hivemind.world.snapshot import Snapshot

LANE = state().lane


def window(used: float, remaining: float, resets_in_s: float | None, limit: float = 100.0) -> WindowState:
    """Of requests."""
    return WindowState("m", WindowKind.REQUESTS, limit, used, 0.0, remaining, resets_in_s, "headers")


def with_window(stands: WindowState, busy_s: float) -> Forecast:
    """A lane of which requests have been in flight for so long."""
    before = [sampled(200.0 + n, state(active=0)) for n in range(3)]
    busy = [sampled(300.0 - busy_s + n, state(active=2, windows=(stands,))) for n in range(int(busy_s) + 1)]
    return told(*before, *busy).snapshot(300.0).forecast


@pytest.mark.parametrize(
    ("stands", "busy_s", "left_s"),
    [
        (window(60.0, 40.0, 50.0), 60, 40.0),  # one a second, 40 left
        (window(60.0, 40.0, 30.0), 60, None),  # whole again before that
        (window(60.0, 40.0, 30.0), 30, 20.0),  # two a second, since half a minute
        (window(60.0, 40.0, None), 60, None),  # it slides, and a minute's worth fits
        (window(60.0, 40.0, None), 20, pytest.approx(40 / 3)),  # but not at this rate
        (window(99.5, 0.5, 20.0), 60, 0.0),
        (window(0.0, 100.0, 20.0), 60, None),
        (window(0.0, 0.0, 20.0, limit=0.0), 60, None),
        (window(1.0, 99.0, 50.0), 0, None),  # the first request of all: 495 s by the least span
    ],
)
def test_when_a_rate_window_runs_out(stands: WindowState, busy_s: float, left_s: float | None) -> None:
    """At the rate since the lane has been in use, of a minute at most; None: it resets before that."""
    assert with_window(stands, busy_s).windows == {LANE: (left_s,)}


def test_a_lane_without_windows_has_no_forecast() -> None:
    """Nor one that was never used."""
    assert told(sampled(1.0, state())).snapshot(2.0).forecast.windows == {}
    idle = told(sampled(1.0, state(active=0, windows=(window(0.0, 100.0, None),)))).snapshot(2.0).forecast
    assert idle.windows == {LANE: (None,)}


def steady(agent: str = "ann", every_s: float = 5.0, count: int = 24, **about: str) -> list[ev.Event]:
    """An agent that uses 100 tokens in each of its requests."""
    events: list[ev.Event] = []
    for n in range(count):
        number, at = 1000 * ord(agent[0]) + n, n * every_s
        usage = Usage(60, 40, 0, 0)
        events += [arrived(number, agent, at, **about), granted(number, agent, at)]
        events.append(finished(number, agent, at, usage=usage))
    return events


def budgets(at: float, *events: ev.Event) -> dict[str, float]:
    """When each is used up, a dollar for a thousand tokens."""
    found = told(*sorted(events, key=lambda event: event.at), price=lambda *_: 0.1).snapshot(at)
    assert found.forecast.budgets == used_up(found)
    return dict(found.forecast.budgets)


def test_when_a_budget_is_used_up() -> None:
    """An agent uses 20 tokens a second, which is 2 cents."""
    events = steady()
    for stands, left_s in (
        (budget(tokens=5_000, used_tokens=2_000), 150.0),
        (budget(tokens=None, dollars=10.0, used_tokens=2_000, used_dollars=4.0), 300.0),
        (budget(tokens=5_000, dollars=10.0, used_tokens=2_000, used_dollars=4.0), 150.0),
    ):
        found = budgets(116.0, *events, sampled(116.0, state(), budgets=(stands,)))
        assert found == {"ann": pytest.approx(left_s, rel=0.1)}


def test_budgets_that_are_not_forecast() -> None:
    """Used up already, of an agent that rests, or enough for more than a day."""
    for stands in (budget(used_tokens=5_000), budget("ben"), budget(tokens=10**9), budget(tokens=None, dollars=None)):
        assert budgets(116.0, *steady(), arrived(1, "ben"), sampled(116.0, state(), budgets=(stands,))) == {}
    assert budgets(600.0, *steady(), sampled(116.0, state(), budgets=(budget(),))) == {}


def test_a_budget_of_a_subtree_counts_all_below() -> None:
    """Also those that name each other as parents, once each; others don't count."""
    family = (steady(), steady("ben", parent="ann"), steady("cem", parent="ben"), steady("dan"))
    events = [event for each in family for event in each] + [arrived(1, parent="cem")]
    stands = budget(tokens=10_000, used_tokens=4_000, covers="subtree")
    found = budgets(116.0, *events, sampled(116.0, state(), budgets=(stands,)))
    assert found == {"ann": pytest.approx(100.0, rel=0.1)}


def test_the_pool_is_used_up_by_all() -> None:
    """At the rate of all agents."""
    events = [*steady(), *steady("ben")]
    found = budgets(116.0, *events, sampled(116.0, state(), budgets=(budget(None, tokens=8_000, used_tokens=4_000),)))
    assert found == {"": pytest.approx(100.0, rel=0.1)}


def test_the_first_answer_is_no_flood() -> None:
    """A second after the start nothing is forecast from less than half a minute's rate."""
    found = budgets(1.0, *steady(count=1), sampled(1.0, state(), budgets=(budget(tokens=1000, used_tokens=100),)))
    assert found == {"ann": 270.0}


def test_dollars_by_the_end_of_the_hour() -> None:
    """What was spent, and what will be at the present rate: 12 dollars an hour for another half."""
    world = told(*many(60, 3.0), price=lambda *_: 0.01)
    snapshot = world.snapshot(184.0)
    assert snapshot.vitals.dollars_per_hour == pytest.approx(12.0, rel=0.1)
    found = snapshot.forecast
    assert found.hour_ends_in_s == 3600.0 - (1000.0 + 184.0)
    assert found.dollars_by_hour == pytest.approx(0.6 + 12 * found.hour_ends_in_s / 3600, rel=0.1)
    assert world.snapshot(400.0).forecast.dollars_by_hour is None


# --- Tasks ------------------------------------------------------------------------------------------------------------

TIMES = dict[str, tuple[float, float | None]]


def graph(after: dict[str, Sequence[str]], ran: TIMES, at: float) -> Snapshot:
    """Tasks with those they wait for, when each was begun, and when it was done."""
    events: list[ev.Event] = [task_added(name, 0.0, after=tuple(names)) for name, names in after.items()]
    changes: list[ev.Event] = []
    for name, (began, ended) in ran.items():
        changes.append(task_changed("running", at=began, task=name))
        changes += [] if ended is None else [task_changed("done", at=ended, task=name)]
    ready = {name for name, names in after.items() if all(ran.get(each, (0, None))[1] is not None for each in names)}
    changes += [task_changed("ready", at=at, task=name) for name in ready - ran.keys()]
    return told(*events, *sorted(changes, key=lambda event: event.at)).snapshot(at)


def named(*names: Iterable[str]) -> dict[str, Sequence[str]]:
    """Tasks that wait for nothing."""
    return {name: () for each in names for name in each}


@pytest.mark.parametrize(
    ("after", "ran", "at", "left_s"),
    [
        # A chain: the one that runs has 6 of 10 s to go, two more follow.
        ({"a": (), "b": "a", "c": "b", "d": "c"}, {"a": (0, 10), "b": (10, None)}, 14.0, 6 + 10 + 10),
        # Side by side: two at a time, four to go after those that run.
        (named("abcdefgh"), {"a": (0, 10), "b": (0, 10), "c": (10, None), "d": (10, None)}, 15.0, 5 + 20),
        # Two ran at a time before, so they will again.
        (named("abcde"), {"a": (0, 10), "b": (0, 10), "c": (10, None)}, 12.0, 18.0),
        # One that takes longer than such tasks do needs a while yet.
        ({"a": (), "b": "a"}, {"a": (0, 10), "b": (10, None)}, 60.0, 2.5),
        # The next one is being begun.
        ({"a": (), "b": "a"}, {"a": (0, 10)}, 11.0, 10.0),
    ],
)
def test_when_the_tasks_are_done(after: dict[str, Sequence[str]], ran: TIMES, at: float, left_s: float) -> None:
    """By the times of those that are done, what waits for what, and how many run at once."""
    assert tasks_done_in_s(graph(after, ran, at)) == pytest.approx(left_s)


@pytest.mark.parametrize(
    ("after", "ran", "at"),
    [
        ({}, {}, 5.0),
        ({"a": ()}, {"a": (0, None)}, 5.0),
        ({"a": (), "b": ()}, {"a": (0, 10)}, 200.0),
        ({"a": ()}, {"a": (0, 10)}, 11.0),
    ],
    ids=["none", "none is done yet", "none is begun any more", "all are done"],
)
def test_when_nothing_can_be_told(after: dict[str, Sequence[str]], ran: TIMES, at: float) -> None:
    """Then nothing is."""
    assert tasks_done_in_s(graph(after, ran, at)) is None


def test_tasks_take_as_long_as_their_tokens_say() -> None:
    """If all have an estimate."""
    known = graph({"a": (), "b": "a"}, {"a": (0, 10), "b": (10, None)}, 14.0)
    tasks = tuple(
        replace(task, estimated_tokens=tokens) for task, tokens in zip(known.tasks, (1_000, 4_000), strict=True)
    )
    assert tasks_done_in_s(replace(known, tasks=tasks)) == pytest.approx(36.0)
    assert tasks_done_in_s(replace(known, tasks=(replace(tasks[0], estimated_tokens=0), tasks[1]))) == 6.0


def test_a_failed_branch_is_not_waited_for() -> None:
    """What is blocked by it is never done, so it doesn't count."""
    world = told(
        *(task_added("a", 0.0), task_added("b", 0.0), task_added("c", 0.0, after=("b",))),
        *(task_changed("running", task=name, at=0.0) for name in "ab"),
        *(task_changed("done", task="a", at=10.0), task_changed("failed", task="b", at=10.0)),
        task_changed("blocked", task="c", at=10.0),
        *(task_added("d", 10.0), task_changed("running", task="d", at=10.0)),
    )
    assert tasks_done_in_s(world.snapshot(13.0)) == 7.0


def test_held_requests_have_no_forecast_of_tasks() -> None:
    """Nobody knows when the operator lets them go on."""
    found = graph({"a": (), "b": "a"}, {"a": (0, 10), "b": (10, None)}, 14.0)
    assert found.forecast.tasks_done_in_s == 6.0
    paused = told(
        *(task_added("a"), task_added("b")),
        *(task_changed("running", task="a", at=0.0), task_changed("done", task="a", at=10.0)),
        task_changed("running", task="b", at=10.0),
        ev.Commanded(12.0, "you", "PauseAdmissions", {"paused": True}),
    )
    assert paused.snapshot(14.0).forecast.tasks_done_in_s is None


def test_a_month_ends_with_its_last_day() -> None:
    """By the machine's own calendar; what counts for ever has no end."""
    last = time.mktime((2026, 2, 28, 12, 0, 0, 0, 0, -1))
    assert period_left_s("month", last) == period_left_s("day", last) < 86_400
    assert period_left_s("month", last - 86_400) > period_left_s("day", last) + 86_000
    assert period_left_s("ever", last) == math.inf
