"""Several proxies' snapshots as one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from fleet.members import lease, member
from world.kit import (
    LANE,
    USED,
    arrived,
    budget,
    commanded,
    failed,
    finished,
    first_content,
    granted,
    hold,
    refused,
    sampled,
    state,
    task_added,
    told,
)

from hivemind.records import names_of, replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import Priority, WindowKind
from hivemind.world import merge
from hivemind.world.fleet import MemberLane, gathered, labelled
from hivemind.world.health import Alert
from hivemind.world.merge import LINES_SHOWN, TICKETS_APART, ProxyPart, merged
from hivemind.world.snapshot import AgentView, Alarm, RecordingView, Snapshot, Totals


def part(machine: str, snapshot: Snapshot, *lanes: MemberLane, number: int = 0, skew_s: float = 0.0) -> ProxyPart:
    """Its snapshot, with its leases."""
    return ProxyPart(member(machine, *lanes), snapshot, number, skew_s)


def busy(agent: str = "ann", at: float = 10.0) -> Snapshot:
    """One request answered, one that streams, one that waits, and a command."""
    world = told(
        *(arrived(1, agent), granted(1, agent), finished(1, agent)),
        *(arrived(2, agent, at=2.0), granted(2, agent, at=3.0), first_content(2, agent, at=4.0, ttft_s=1.0)),
        arrived(3, agent, at=6.0, priority=Priority.HIGH),
        commanded("PauseAdmissions", at=6.5, paused=False),
        sampled(7.0, state(active=1, waiting=1, level=8.0, upcoming=(hold(3),))),
    )
    return world.snapshot(at)


@pytest.mark.parametrize(
    ("made", "rules"),
    [
        (AgentView, merge.AGENT_RULES),
        (Totals, merge.TOTALS_RULES),
        (LaneState, merge.LANE_RULES),
        (WindowState, merge.WINDOW_RULES),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_every_field_of_what_is_merged_has_a_rule(made: type[Any], rules: Mapping[str, object]) -> None:
    """A field without one would be lost where several proxies are shown as one."""
    missing = sorted(set(names_of(made) or ()) ^ rules.keys())
    assert not missing, f"{made.__name__}: add to its rules in hivemind/world/merge.py, or take from them: {missing}"


def test_nothing_makes_no_snapshot() -> None:
    """The caller says what to show then."""
    with pytest.raises(ValueError, match="no snapshot"):
        merged([])


def test_one_proxy_stays_as_it_is_but_for_the_machine() -> None:
    """Its own sums, lanes and times."""
    alone = busy()
    found = merged([part("a", alone)])
    assert found.totals == alone.totals
    assert found.lanes[0].state == replace(alone.lanes[0].state, upcoming=found.lanes[0].state.upcoming)
    assert [agent.machines for agent in found.agents] == [("a",)]
    assert {line.machine for line in found.lines} == {"a"}
    assert (found.at, found.wall) == (alone.at, alone.wall)


def test_agents_of_all_machines_stand_in_one_table() -> None:
    """Each says where it runs."""
    found = merged([part("a", busy("ann")), part("b", busy("bob"))])
    assert [(agent.name, agent.machines) for agent in found.agents] == [("ann", ("a",)), ("bob", ("b",))]
    assert found.totals.requests == 6
    assert found.queued == 2


def test_an_agent_on_two_machines_is_one_with_the_sums_of_both() -> None:
    """A worker pool that goes by one name, as an example."""
    one, other = busy("ann"), busy("ann", at=20.0)
    (agent,) = merged([part("a", one), part("b", other)]).agents
    (first,), (second,) = one.agents, other.agents
    assert agent.machines == ("a", "b")
    assert agent.requests == 6
    assert (agent.in_flight, agent.queued, agent.finished) == (2, 2, 2)
    assert agent.usage == first.usage + second.usage
    assert agent.waited_s == pytest.approx(first.waited_s + second.waited_s)
    assert agent.last_seen_s == min(first.last_seen_s, second.last_seen_s)
    assert agent.state == "streaming"


def test_an_agent_that_recovered_on_two_machines_did_once() -> None:
    """Requests and tokens add up."""
    retried = [arrived(), granted(), failed(1.0), granted(attempt=2), finished(attempts=2)]
    one, none = told(*retried).snapshot(9.0), told(arrived(), granted(), finished()).snapshot(9.0)
    assert one.agents[0].recovered
    found = merged([part("a", one), part("b", one), part("c", none)])
    assert found.agents[0].recovered
    assert (found.totals.agents_recovered, found.totals.retried_ok) == (1, 2)


def test_a_hold_on_one_of_two_machines_is_no_hold_of_the_agent() -> None:
    """So that the same key holds the rest of it too."""
    held = told(arrived(1), commanded("PauseAgent", agent="ann", paused=True)).snapshot(3.0)
    free = told(arrived(1)).snapshot(3.0)
    assert held.agents[0].held
    assert not merged([part("a", held), part("b", free)]).agents[0].held
    assert merged([part("a", held), part("b", held)]).agents[0].held


def test_a_budget_by_name_isnt_counted_twice() -> None:
    """The ledger is the fleet's: the proxy that knows of more has the newer figure."""
    agents = []
    for used in (1_000, 1_200):
        world = told(arrived(1), sampled(2.0, state(), budgets=(budget(used_tokens=used),)))
        agents.append(world.snapshot(3.0))
    (agent,) = merged([part("a", agents[0]), part("b", agents[1])]).agents
    assert agent.budget is not None
    assert agent.budget.used_tokens == 1_200


def test_a_lane_of_one_key_is_one_lane_whatever_each_calls_it() -> None:
    """Requests are summed; the level is the fleet's, not a sum of it."""
    there = busy("bob")
    there = replace(
        there,
        lanes=tuple(replace(lane, state=replace(lane.state, lane="mine:1")) for lane in there.lanes),
        slots=tuple(replace(ticket, lane="mine:1") for ticket in there.slots),
    )
    found = merged([part("a", busy(), lease()), part("b", there, lease("mine:1"), number=1)])
    (lane,) = found.lanes
    assert (lane.state.lane, lane.state.active, lane.state.waiting, lane.state.level) == (LANE, 2, 2, 8.0)
    assert {ticket.lane for ticket in found.slots} == {LANE}
    assert lane.curve[-1].active == 2
    assert lane.curve[-1].level == 8.0


def test_without_a_fleet_levels_add_up() -> None:
    """Each proxy has its own then."""
    found = merged([part("a", busy()), part("b", busy("bob"))])
    assert found.lanes[0].state.level == 16.0
    assert found.lanes[0].curve[-1].level == 16.0


def test_lanes_of_different_keys_stay_apart() -> None:
    """Also where both call theirs the same."""
    found = merged([part("a", busy(), lease()), part("b", busy("bob"), lease(lane="cd" * 16))])
    assert len(found.lanes) == 2


def test_windows_arent_counted_twice() -> None:
    """The limit is one limit, and what all used is what the leases say, or the sum where that is newer."""
    window = WindowState("family", WindowKind.REQUESTS, 50.0, 10.0, 0.0, 5.0, None, "headers")
    world = told(arrived(1), sampled(1.0, state(windows=(window,)))).snapshot(2.0)
    leased = merged([part("a", world, lease(mine=10.0)), part("b", world, lease(mine=25.0))])
    (shown,) = leased.lanes[0].state.windows
    assert (shown.limit, shown.used, shown.remaining) == (100.0, 35.0, 65.0)
    (shown,) = merged([part("a", world), part("b", world)]).lanes[0].state.windows
    assert (shown.limit, shown.used, shown.remaining) == (50.0, 20.0, 5.0)


def test_a_lane_without_limits_stays_without() -> None:
    """JSON's null is infinity."""
    found = merged([part("a", busy(), lease(level=None)), part("b", busy(), lease(level=None))])
    assert math.isinf(found.lanes[0].state.level)


def test_log_lines_are_in_the_order_of_the_day() -> None:
    """Of machines whose clocks differ too, and each with the machine's name."""
    early = told(failed(0.5, at=2.0)).snapshot(10.0)
    late = told(failed(0.5, at=4.0)).snapshot(10.0)
    wrong = replace(
        early, wall=early.wall + 3600, lines=tuple(replace(line, wall=line.wall + 3600) for line in early.lines)
    )
    lines = merged([part("a", late), part("b", wrong, skew_s=-3600.0)]).lines
    assert [(line.machine, line.at) for line in lines] == [("b", 2.0), ("a", 4.0)]
    assert lines[0].wall < lines[1].wall


def test_times_are_on_the_clock_of_the_first() -> None:
    """A monotonic clock begins anywhere."""
    here, there = told(failed(0.5, at=2.0)).snapshot(10.0), told(failed(0.5, at=2.0)).snapshot(10.0)
    moved = replace(there, at=there.at + 500, lines=tuple(replace(line, at=line.at + 500) for line in there.lines))
    assert [line.at for line in merged([part("a", here), part("b", moved)]).lines] == [2.0, 2.0]


def test_only_the_newest_lines_are_kept() -> None:
    """As many as one proxy shows."""
    events = [commanded("PauseAdmissions", at=float(n), paused=bool(n % 2)) for n in range(LINES_SHOWN)]
    world = told(*events).snapshot(500.0)
    lines = merged([part("a", world), part("b", world)]).lines
    assert len(lines) == LINES_SHOWN
    assert lines[0].at == LINES_SHOWN / 2


def test_tickets_have_numbers_of_their_own() -> None:
    """From which the proxy and its own number can be told."""
    found = merged([part("a", busy(), number=0), part("b", busy("bob"), number=7)])
    numbers = [ticket.ticket for ticket in (*found.slots, *found.queue)]
    assert len({*numbers}) == 4
    assert {divmod(number, TICKETS_APART) for number in numbers} == {(2, 0), (3, 0), (2, 7), (3, 7)}
    assert {each.ticket for each in found.lanes[0].state.upcoming} <= {*numbers}


def test_tasks_of_one_id_are_two_tasks_on_two_machines() -> None:
    """And what waits for them waits for its own."""
    graph = told(task_added("lint"), task_added("test", after=("lint",))).snapshot(1.0)
    found = merged([part("a", graph), part("b", graph)])
    assert [(task.id, task.after) for task in found.tasks] == [
        ("lint", ()),
        ("test", ("lint",)),
        ("lint@b", ()),
        ("test@b", ("lint@b",)),
    ]
    assert sum(found.task_counts.values()) == 4


def test_a_pause_of_one_proxy_is_no_pause_of_the_fleet() -> None:
    """Only where all pause."""
    paused = told(commanded("PauseAdmissions", paused=True)).snapshot(1.0)
    assert merged([part("a", paused), part("b", busy())]).mode == "serving"
    assert merged([part("a", paused), part("b", paused)]).mode == "paused"


def test_proxies_of_one_machine_are_told_apart() -> None:
    """By their processes."""
    found = labelled([member("b", pid=7), member("a"), member("b", pid=8)])
    assert [each.label for each in found] == ["a", "b:7", "b:8"]
    found = labelled([member("c", pid=1), member("c", pid=1, id="c-other")])
    assert [each.label for each in found] == ["c:c-1", "c:c-othe"]


def test_a_fleet_has_the_sums_of_its_keys() -> None:
    """And who took what."""
    fleet = gathered(
        [
            member("a", lease(mine=30.0, used=40.0, agents=3.0, in_flight=3, waiting=2)),
            member("b", lease(mine=10.0, used=35.0, agents=1.0, lease_age_s=4.0, level=6.0)),
        ],
        me="b-1",
    )
    (lane,) = fleet.lanes
    assert (lane.in_flight, lane.waiting, lane.level) == (4, 2, 8.0)
    assert [(window.limit, window.used) for window in lane.windows] == [(100.0, 40.0)]
    assert [(each.label, each.share, each.demand) for each in lane.taken] == [("a", 0.75, 0.75), ("b", 0.25, 0.25)]
    assert [each.used for each in lane.taken] == [(30.0,), (10.0,)]


@pytest.mark.parametrize(
    ("states", "gravest"),
    [((), "idle"), (("leased", "leased"), "leased"), (("leased", "joining"), "joining"), (("safe", "alone"), "alone")],
)
def test_a_member_is_in_the_gravest_state_of_its_lanes(states: tuple[str, ...], gravest: str) -> None:
    """One lane in trouble is worth a look."""
    assert member("a", *(lease(state=each) for each in states)).state == gravest


def test_the_state_of_a_fleet_is_that_of_the_proxy_that_answers() -> None:
    """The header shows it."""
    fleet = gathered([member("a", lease(state="safe")), member("b", lease())], me="a-1")
    assert fleet.state == "safe"


def test_vitals_add_up() -> None:
    """Rates and histograms are sums, quantiles are over all requests, and the newest points of series stay last."""
    quick = told(*(event for n in range(19) for event in (arrived(n), granted(n), finished(n, at=4.0)))).snapshot(9.0)
    slow = told(arrived(1), ev.Granted(2.0, 1, "ben", LANE, 1, 30.0), arrived(1, "ben", 3.0), refused(1, at=6.0))
    found = merged([part("a", quick), part("b", slow.snapshot(16.0))]).vitals
    assert found.requests_per_s == 19 / 9.0 + 1 / 16.0
    assert found.failed_share == pytest.approx((1 / 16.0) / (19 / 9.0 + 1 / 16.0))
    assert [found.wait_p50_s, found.wait_p95_s] == pytest.approx([1.0, 1.0], rel=0.1)
    assert sum(found.recent_waits.bins) == sum(found.waits.bins) == 20
    assert found.waits.sum_s == 19 + 30
    assert found.series["requests_per_s"] == (0.0, 0.2, 19 / 5.0)
    assert found.series["wait_p95_s"][0] == pytest.approx(30.0, rel=0.1)
    assert merged([part("a", quick)]).vitals == quick.vitals


def test_activity_and_waits_of_an_agent_on_two_machines() -> None:
    """Its tokens add up step by step, and its longest wait counts."""
    one = told(arrived(1), granted(1), finished(1, at=2.0), arrived(2, at=3.0)).snapshot(11.0)
    other = told(arrived(1), granted(1), finished(1, at=2.0), arrived(2, at=1.0)).snapshot(4.0)
    (ann,) = merged([part("a", one), part("b", other)]).agents
    assert ann.activity == (USED.total, 0, USED.total)
    assert ann.waiting_s == 8.0


def test_what_is_wrong_anywhere_is_told_with_the_machine() -> None:
    """Of alerts about the same that which still holds, of journals the first in trouble, and every broken rule."""
    old, new = Alert(1, "wait", "", "waits 70 s", 5.0, over=True), Alert(1, "wait", "", "waits 90 s", 8.0)
    alarm, journal = Alarm("slots", LANE, "", "a slot too many", 3.0), RecordingView("/j", 1, 0, "")
    fine = replace(busy(), alerts=(old,), recording=journal)
    worse = replace(busy(), alerts=(new,), alarms=(alarm,), recording=replace(journal, failing="disk full"))
    both = merged([part("a", fine), part("b", worse)])
    assert both is not None
    assert [(each.text, each.over) for each in both.alerts] == [("waits 90 s", False)]
    assert [each.text for each in both.alarms] == ["b: a slot too many"]
    assert both.recording == replace(journal, failing="b: disk full")
