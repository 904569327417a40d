"""Why requests waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.kit import FREE, LANE, recorded, served
from lab.random_events import soup
from world.kit import state

from benchmarks.prediction import WORLDS, record
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.reader import open_journal
from hivemind.journal.wait_causes import CAUSES, GATE_CAUSES, NAMES, STAGGER_S, WAITED_FOR, WaitCauses, shares_text
from hivemind.journal.waits import WaitsFold
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.simulation import simulate
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, Priority, WindowKind, WindowReading

FEW = replace(FREE, max_concurrency=2)


def asks(at: float, ticket: int, agent: str = "ann", lane: str = LANE, parent: str | None = None) -> ev.Arrived:
    """Return the arrival of a request."""
    return ev.Arrived(at, ticket, agent, lane, "m", "m", Priority.NORMAL, True, 100, 50, parent=parent)


def goes(at: float, ticket: int, waited_s: float, attempt: int = 1, agent: str = "ann", lane: str = LANE) -> ev.Granted:
    """Return the grant of an attempt."""
    return ev.Granted(at, ticket, agent, lane, attempt, waited_s)


def ends(at: float, ticket: int, agent: str = "ann", lane: str = LANE) -> ev.Finished:
    """Return the end of an answered request."""
    return ev.Finished(at, ticket, agent, lane, "m", 200, 1, None, 1.0)


def fails(at: float, ticket: int, again_s: float, agent: str = "ann") -> ev.AttemptFailed:
    """Return the failure of an attempt that is retried."""
    return ev.AttemptFailed(at, ticket, agent, LANE, 1, FailureKind.OVERLOADED, 529, "", again_s)


def told(at: float, name: str, **arguments: Any) -> ev.Commanded:
    """Return an operator's command."""
    return ev.Commanded(at, "you", name, arguments)


def opened(config: LaneConfig | None = None, lane: str = LANE) -> ev.LaneOpened:
    """Return the first event of a lane."""
    return ev.LaneOpened(0.0, lane, "mock", "generic", config or FREE)


def figures_of(*events: ev.Event) -> Figures:
    """Return the figures of these, put in order of time."""
    fold = FiguresFold()
    for event in sorted(events, key=lambda each: each.at):
        fold.apply(event)
    return fold.figures()


def causes(*events: ev.Event) -> Mapping[str, float]:
    """Return why requests waited, and check that it adds up."""
    figures = figures_of(*events)
    assert figures.causes.total_s == pytest.approx(figures.waited_s)
    return figures.causes.seconds


def a_wait(from_s: float = 1.0, until_s: float = 5.0) -> list[ev.Event]:
    """A request that waits in between, and is answered."""
    return [asks(from_s, 1), goes(until_s, 1, until_s - from_s), ends(until_s + 1, 1)]


def in_flight(number: int, until_s: float = 5.0) -> list[ev.Event]:
    """So many requests that are sent at once, and answered then."""
    return [
        event
        for ticket in range(100, 100 + number)
        for event in (asks(0.5, ticket, "bob"), goes(0.5, ticket, 0.0, agent="bob"), ends(until_s, ticket, "bob"))
    ]


READING = WindowReading(WindowKind.REQUESTS, 50, 0, 4.0)
BY_CAUSE: Mapping[str, Sequence[ev.Event]] = {
    "paused": [told(0.0, "PauseAdmissions", paused=True), told(5.0, "PauseAdmissions", paused=False)],
    "rate_limited": [ev.LaneRateLimited(0.0, LANE, 5.0, "429"), ev.LaneReleased(5.0, LANE)],
    "circuit": [
        ev.CircuitChanged(0.0, LANE, "open", "529", 3.0),
        ev.CircuitChanged(3.0, LANE, "half_open", "cooldown over"),
        ev.CircuitChanged(5.0, LANE, "closed", "probe succeeded"),
    ],
    "rate_limited alone": [ev.LaneRateLimited(0.0, LANE, 5.0, "429", "m"), ev.LaneReleased(5.0, LANE, "m")],
    "circuit alone": [
        ev.CircuitChanged(0.0, LANE, "open", "429", 3.0, "m"),
        ev.CircuitChanged(3.0, LANE, "half_open", "cooldown over", None, "m"),
        ev.CircuitChanged(5.0, LANE, "closed", "probe succeeded"),
    ],
    "slots": in_flight(2),
    "level": [ev.LevelChanged(0.0, LANE, 2.0, "overloaded"), *in_flight(2)],
    "windows": [ev.LimitsRead(0.0, LANE, "m", (READING,))],
    "fleet": [ev.LeaseChanged(0.0, LANE, "leased", 2.0, 8.0, 3), *in_flight(2)],
    "other": [],
    "held": [told(0.0, "PauseAgent", agent="ann", paused=True)],
    "budget": [ev.BudgetWarned(0.0, "ann", ev.BudgetState("ann", 10, None, "ever", "agent", 11, 0.0, 0), True)],
    "task": [
        ev.TaskAdded(0.0, "t1", "b", "ann", Priority.NORMAL, 0, ("t0",)),
        ev.TaskChanged(0.0, "t1", "waiting", Priority.NORMAL, 0, ""),
    ],
}


@pytest.mark.parametrize("cause", BY_CAUSE)
def test_each_cause_is_found_where_it_alone_keeps(cause: str) -> None:
    """A wait of four seconds."""
    lane = {"slots": FEW, "level": replace(FREE, max_concurrency=9)}.get(cause)
    assert causes(opened(lane), *BY_CAUSE[cause], *a_wait()) == {cause.split()[0]: pytest.approx(4.0)}


def test_what_keeps_another_family_of_models_keeps_no_request() -> None:
    """Its pause is no cause of this one's wait."""
    assert causes(opened(), ev.LaneRateLimited(0.0, LANE, 5.0, "429", "n"), *a_wait()) == {"other": pytest.approx(4.0)}


def test_a_pause_before_a_retry_is_a_cause() -> None:
    """Until the attempt is due; what comes after is the queue."""
    run = [asks(0.0, 1), goes(0.0, 1, 0.0), fails(1.0, 1, 3.0), goes(6.0, 1, 2.0, 2), ends(7.0, 1)]
    assert causes(opened(), *run) == {"retry": pytest.approx(3.0), "other": pytest.approx(2.0)}


def test_a_pause_before_a_retry_is_over_when_it_was_to_be() -> None:
    """A sample that was taken a moment before, but is written after it, doesn't prolong it."""
    hold = ev.Hold(1, "backoff", 0.0, None)
    lane = state(lane=LANE, active=0, retrying=1, upcoming=(hold,))
    before = [asks(0.0, 1), goes(0.0, 1, 0.0), fails(1.0, 1, 3.0)]
    after = [goes(6.0, 1, 2.0, 2), ends(7.0, 1)]
    assert causes(opened(), *before, ev.Sampled(4.0, (lane,)), *after) == {
        "retry": pytest.approx(3.0),
        "other": pytest.approx(2.0),
    }


def test_every_cause_has_a_test_and_a_sentence() -> None:
    """One that is added needs both."""
    assert {*(cause.split()[0] for cause in BY_CAUSE), "retry"} == set(CAUSES) == set(WAITED_FOR)


def test_a_wait_can_have_several_causes_in_turn() -> None:
    """Slots, then the circuit; what holds the whole lane goes before what holds one agent."""
    found = causes(
        opened(FEW),
        *in_flight(2, until_s=3.0),
        asks(1.0, 1),
        ev.CircuitChanged(2.0, LANE, "open", "529"),
        told(3.0, "PauseAgent", agent="ann", paused=True),
        ev.CircuitChanged(4.0, LANE, "closed", "forced"),
        told(6.0, "PauseAgent", agent="ann", paused=False),
        goes(6.0, 1, 5.0),
        ends(7.0, 1),
    )
    assert found == {"slots": pytest.approx(1.0), "circuit": pytest.approx(2.0), "held": pytest.approx(2.0)}


def test_one_that_is_held_does_not_change_why_others_wait() -> None:
    """Bea waits for a slot, ann for the operator."""
    found = causes(
        opened(FEW),
        *in_flight(2),
        told(0.0, "PauseAgent", agent="ann", paused=True),
        *a_wait(1.0, 5.0),
        asks(2.0, 2, "bea"),
        goes(5.0, 2, 3.0, agent="bea"),
        ends(6.0, 2, "bea"),
    )
    assert found == {"held": pytest.approx(4.0), "slots": pytest.approx(3.0)}


def test_a_budget_of_a_tree_holds_those_below() -> None:
    """One that covers only its owner doesn't."""

    def kept(covers: str) -> Mapping[str, float]:
        state = ev.BudgetState("root", 10, None, "ever", covers, 11, 0.0, 0)
        wait = [asks(1.0, 1, "ann", parent="root"), goes(3.0, 1, 2.0), ends(4.0, 1)]
        return causes(opened(), ev.BudgetWarned(0.0, "root", state, True), *wait)

    assert kept("subtree") == {"budget": pytest.approx(2.0)}
    assert kept("agent") == {"other": pytest.approx(2.0)}


def test_lanes_of_an_upstream_share_its_slots() -> None:
    """Both of its slots are taken by another lane."""
    shared = replace(FREE, max_concurrency_per_upstream=2)
    other = "mock:2"
    taken = [
        event
        for ticket in (7, 8)
        for event in (
            asks(0.0, ticket, "bob", other),
            goes(0.0, ticket, 0.0, agent="bob", lane=other),
            ends(5.0, ticket, "bob", other),
        )
    ]
    assert causes(opened(shared), opened(shared, other), *taken, *a_wait()) == {"slots": pytest.approx(4.0)}


def test_after_a_pause_of_the_provider_requests_are_spaced_out() -> None:
    """The spaces count as part of the pause: without it they would have been sent at once."""
    run: list[ev.Event] = [opened(), ev.LaneRateLimited(0.0, LANE, 5.0, "429"), ev.LaneReleased(5.0, LANE)]
    grants = [5.0 + n * STAGGER_S for n in range(3)]
    for ticket, at in enumerate(grants):
        run += [asks(1.0, ticket), goes(at, ticket, at - 1.0), ends(9.0, ticket)]
    assert causes(*run) == {"rate_limited": pytest.approx(sum(grants) - 3)}


def test_waits_by_lane_and_by_agent_add_up() -> None:
    """Each alone, and together."""
    fold = FiguresFold()
    arrivals: list[ev.Event] = [opened(), opened(lane="mock:2"), asks(0.0, 1), asks(1.0, 2, "bea", "mock:2")]
    grants: list[ev.Event] = [goes(2.0, 1, 2.0), goes(4.0, 2, 3.0, agent="bea", lane="mock:2")]
    for event in (*arrivals, *grants, ends(5.0, 1), ends(5.0, 2, "bea", "mock:2")):
        fold.apply(event)
    other = NAMES.index("other")
    assert {lane: sums[other] for lane, sums in fold.why.by_lane.items()} == {LANE: 2.0, "mock:2": 3.0}
    assert {agent: sums[other] for agent, sums in fold.why.by_agent.items()} == {"ann": 2.0, "bea": 3.0}
    assert fold.figures().causes.seconds == {"other": 5.0}


def test_causes_add_up_to_the_waits_of_any_events() -> None:
    """Also of events that no proxy would write: in the sum, by lane and by agent, and none is negative."""
    for seed in range(25):
        fold = FiguresFold()
        for event in soup(seed, 300):
            fold.apply(event)
        figures = fold.figures()
        assert figures.waited_s > 0
        expected = pytest.approx(figures.waited_s)
        assert figures.causes.total_s == expected
        for sums in (fold.why.by_lane, fold.why.by_agent):
            assert sum(map(sum, sums.values())) == expected
        assert min(figures.causes.seconds.values()) > 0


def test_causes_are_listed_by_size() -> None:
    """The largest first."""
    found = WaitCauses({"slots": 10.0, "windows": 30.0})
    assert found.largest == "windows"
    assert found.by_size() == [("windows", 30.0), ("slots", 10.0)]
    assert (WaitCauses().largest, WaitCauses().total_s) == ("", 0.0)


def test_shares_are_told_in_a_sentence() -> None:
    """The largest first, small ones together, and those of next to nothing not at all; one alone has no number."""
    seconds = {"slots": 20.0, "windows": 60.0, "retry": 9.0, "circuit": 6.0, "task": 3.0, "held": 1.9, "other": 0.1}
    assert shares_text(WaitCauses(seconds)) == (
        "60 % for rate windows, 20 % for slots, 9 % between attempts, 6 % for the circuit to close and 5 % for other"
        " reasons"
    )
    assert shares_text(WaitCauses({"windows": 3.0, "slots": 1.0})) == "75 % for rate windows and 25 % for slots"
    assert shares_text(WaitCauses({"windows": 300.0, "slots": 0.5})) == "for rate windows"
    assert shares_text(WaitCauses()) == ""


# --- Real schedulers -------------------------------------------------------------------------------------------------


def test_a_simulation_says_why_its_requests_wait(tmp_path: Path) -> None:
    """Under fewer slots for slots, under fewer requests a minute for the window."""
    traffic = [event for n in range(30) for event in served(n / 10, n + 1, f"a{n}", takes_s=2.0)]
    recording = recorded(tmp_path, traffic)
    assert recording.figures.causes == WaitCauses()
    for change, cause in (("max_concurrency=2", "slots"), ("rpm=10", "windows")):
        found = simulate(recording, parse_changes([change]))
        assert found.causes.largest == cause
        assert found.causes.seconds[cause] > 0.95 * found.waited_s
        assert found.causes.total_s == pytest.approx(found.waited_s)


@pytest.mark.slow
def test_causes_are_those_that_the_scheduler_names(tmp_path: Path) -> None:
    """Nearly all requests wait for what the samples of a bad day and of few slots say. They don't say whether a slot is
    one that a cut of the level took away."""
    assert set(GATE_CAUSES) == {*ev.GATES, "next"}
    asked = agreed = 0
    for name in ("bad day", "few slots"):
        path = tmp_path / f"{name}.jsonl"
        record(next(world for world in WORLDS if world.name == name), path)
        fold = WaitsFold()
        for event in open_journal(path).events():
            if isinstance(event, ev.Sampled):
                for hold in (hold for lane in event.lanes for hold in lane.upcoming):
                    request = fold.open.by_ticket[hold.ticket]
                    expected = GATE_CAUSES[hold.gate]
                    found = "slots" if request.cause == "level" else request.cause
                    agreed += found == expected
                    asked += 1
            fold.apply(event)
    assert asked > 1000
    assert agreed / asked > 0.97
