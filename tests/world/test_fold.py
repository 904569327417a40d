"""The fold from events to what people see."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind.snapshot import AgentView, Snapshot, TicketView
from hivemind.world.fold import AGENTS_KEPT, CURVE_KEPT, LINES_KEPT, World
from hivemind.world.lines import line_of

LANE = "up/1"
USED = Usage(100, 20, 30, 40)


def told(*events: ev.Event) -> World:
    world = World(at=0.0, wall=1000.0, address="http://127.0.0.1:8765", upstreams=(("up", "https://up"),))
    for event in events:
        world.apply(event)
    return world


def arrived(ticket: int = 1, agent: str = "ann", at: float = 0.0, **about: str) -> ev.Arrived:
    return ev.Arrived(at, ticket, agent, LANE, "model", "family", Priority.NORMAL, True, 100, 256, **about)


def granted(ticket: int = 1, agent: str = "ann", at: float = 1.0, attempt: int = 1) -> ev.Granted:
    return ev.Granted(at, ticket, agent, LANE, attempt, 1.0)


def failed(
    retry_in_s: float | None, at: float = 2.0, usage: Usage | None = None, message: str = ""
) -> ev.AttemptFailed:
    return ev.AttemptFailed(at, 1, "ann", LANE, 1, FailureKind.RATE_LIMITED, 429, message, retry_in_s, usage)


def finished(at: float = 5.0, attempts: int = 1, usage: Usage | None = USED) -> ev.Finished:
    return ev.Finished(at, 1, "ann", LANE, "model", 200, attempts, usage, at)


def state(at_level: float = 4.0, **about: object) -> ev.LaneState:
    lane = ev.LaneState(
        lane=LANE,
        upstream="up",
        provider="generic",
        active=2,
        waiting=0,
        retrying=0,
        level=at_level,
        ceiling=8.0,
        floor=1.0,
        pinned=False,
        mean_ttft_s=0.5,
        latency_target_s=2.0,
        parked_for_s=0.0,
        paused=False,
        circuit="closed",
        circuit_forced=False,
        circuit_errors=0,
        circuit_results=0,
        circuit_window=20,
        circuit_threshold=0.5,
        circuit_reopens_in_s=None,
        windows=(),
        plan=(),
    )
    return replace(lane, **about)  # type: ignore[arg-type]


def only_agent(snapshot: Snapshot) -> AgentView:
    (agent,) = snapshot.agents
    return agent


def only_ticket(snapshot: Snapshot) -> TicketView:
    (ticket,) = (*snapshot.queue, *snapshot.slots)
    return ticket


def test_an_empty_world_has_its_address_and_its_time() -> None:
    """Nothing has happened, and that can be shown."""
    snapshot = told().snapshot(5.0)
    assert (snapshot.at, snapshot.wall, snapshot.uptime_s, snapshot.mode) == (5.0, 1005.0, 5.0, "serving")
    assert (snapshot.agents, snapshot.lanes, snapshot.queue, snapshot.slots, snapshot.lines) == ((), (), (), (), ())
    assert snapshot.totals.requests == 0


@pytest.mark.parametrize(
    ("events", "is_in", "since_s", "attempt"),
    [
        ((), "queued", 10.0, 0),
        ((granted(at=1.0),), "waiting", 9.0, 1),
        ((granted(at=1.0), ev.FirstContent(3.0, 1, "ann", LANE, 2.0)), "streaming", 7.0, 1),
        ((granted(at=1.0), failed(30.0, at=2.0)), "retry", 8.0, 1),
        ((granted(at=1.0), failed(0.5, at=2.0), granted(at=4.0, attempt=2)), "waiting", 6.0, 2),
    ],
)
def test_a_ticket_is_in_one_state_at_a_time(
    events: tuple[ev.Event, ...], is_in: str, since_s: float, attempt: int
) -> None:
    """And it is known since when; the agent is in the same."""
    snapshot = told(arrived(), *events).snapshot(10.0)
    ticket, agent = only_ticket(snapshot), only_agent(snapshot)
    assert (ticket.state, ticket.since_s, ticket.age_s, ticket.attempt) == (is_in, since_s, 10.0, attempt)
    assert agent.state == is_in
    flies = is_in in ("waiting", "streaming")
    assert (len(snapshot.slots), snapshot.queued) == (int(flies), int(not flies))
    assert (agent.flying, agent.queued) == (int(flies), int(not flies))


def test_the_time_until_a_retry_runs_down() -> None:
    """To nothing, and no further."""
    world = told(arrived(), granted(), failed(30.0, at=2.0))
    assert [only_ticket(world.snapshot(at)).retry_in_s for at in (2.0, 12.0)] == [30.0, 20.0]
    again = only_ticket(world.snapshot(99.0))
    assert (again.state, again.since_s, again.retry_in_s) == ("queued", 67.0, None)
    assert only_agent(world.snapshot(99.0)).waited_s == 1.0 + 67.0


@pytest.mark.parametrize(
    ("end", "count"),
    [
        (finished(), "finished"),
        (failed(None), "failed"),
        (ev.Abandoned(5.0, 1, "ann", LANE, True), "abandoned"),
        (ev.Refused(5.0, 1, "ann", LANE, "queue_full", 503), "refused"),
    ],
)
def test_a_request_ends_in_one_of_four_ways(end: ev.Event, count: str) -> None:
    """Each has a count, and the ticket is gone."""
    snapshot = told(arrived(), granted(), end).snapshot(10.0)
    assert (snapshot.slots, snapshot.queue) == ((), ())
    counts = {name: getattr(snapshot.totals, name) for name in ("finished", "failed", "abandoned", "refused")}
    assert counts == {**dict.fromkeys(counts, 0), count: 1}
    assert only_agent(snapshot).state == "idle"


def test_usage_is_added_up_part_by_part() -> None:
    """By agent and over all; what a failed or abandoned attempt used is wasted."""
    world = told(arrived(), granted(), failed(1.0, usage=Usage(1, 2, 3, 4)), granted(attempt=2), finished(attempts=2))
    world.apply(arrived(2))
    world.apply(ev.Abandoned(9.0, 2, "ann", LANE, True, Usage(10, 0, 0, 1)))
    totals = world.snapshot(10.0).totals
    assert totals.usage == USED
    assert totals.wasted == Usage(11, 2, 3, 5)
    assert only_agent(world.snapshot(10.0)).usage == Usage(111, 22, 33, 45)


def test_a_rescued_request_saves_its_agent_and_what_it_had_used() -> None:
    """Until one of its requests fails after all."""
    world = told(arrived(), granted(), finished())
    world.apply(arrived(1, at=6.0))
    for event in (granted(at=6.0), failed(1.0, at=7.0), granted(at=8.0, attempt=2), finished(at=9.0, attempts=2)):
        world.apply(event)
    totals = world.snapshot(10.0).totals
    assert (totals.retries, totals.rescued, totals.agents_saved, totals.tokens_saved) == (1, 1, 1, USED.total)
    for last in (arrived(1, at=10.0), granted(at=10.0), failed(None, at=11.0)):
        world.apply(last)
    totals = world.snapshot(12.0).totals
    assert (totals.rescued, totals.agents_saved, totals.tokens_saved) == (1, 0, 0)


def test_an_agent_shows_its_liveliest_ticket_and_what_is_known_of_it() -> None:
    """Client and parent from the requests, the last error, and how long it waited in all."""
    world = told(
        arrived(1, client="claude-code", parent="lead"),
        granted(1, at=3.0),
        arrived(2, at=5.0),
    )
    agent = only_agent(world.snapshot(5.0))
    assert (agent.state, agent.client, agent.parent) == ("waiting", "claude-code", "lead")
    assert (agent.requests, agent.flying, agent.queued, agent.waited_s, agent.last_seen_s) == (2, 1, 1, 1.0, 0.0)
    world.apply(failed(None, message="too many"))
    assert only_agent(world.snapshot(5.0)).last_error == "too many"


def test_progress_is_shown_while_it_streams() -> None:
    """Output tokens so far."""
    world = told(arrived(), granted(), ev.Progress(4.0, 1, "ann", LANE, 77))
    assert only_ticket(world.snapshot(5.0)).output_tokens == 77


@pytest.mark.parametrize(
    ("name", "arguments", "mode", "paused", "priority"),
    [
        ("PauseAdmissions", {"paused": True}, "paused", False, Priority.NORMAL),
        ("PauseAdmissions", {"paused": False}, "serving", False, Priority.NORMAL),
        ("PauseAgent", {"agent": "ann", "paused": True}, "serving", True, Priority.NORMAL),
        ("SetPriority", {"agent": "ann", "priority": "critical"}, "serving", False, Priority.CRITICAL),
    ],
)
def test_the_hand_on_the_dial_shows(
    name: str, arguments: dict[str, object], mode: str, paused: bool, priority: Priority
) -> None:
    """A command that was carried out changes the picture; waiting tickets move with their agent."""
    snapshot = told(arrived(), ev.Commanded(1.0, "you", name, arguments)).snapshot(2.0)
    agent = only_agent(snapshot)
    assert (snapshot.mode, agent.paused, agent.priority) == (mode, paused, priority)
    assert only_ticket(snapshot).priority is priority
    assert agent.state == ("paused" if paused else "queued")


def test_resuming_admissions_does_not_end_a_drain() -> None:
    """A proxy on its way out stays on it."""
    world = told()
    world.mode = "draining"
    world.apply(ev.Commanded(1.0, "you", "PauseAdmissions", {"paused": False}))
    assert world.snapshot(2.0).mode == "draining"


def test_the_queue_is_shown_in_the_order_in_which_it_flies() -> None:
    """As the last sample had it; those that came since follow by class and age."""
    world = told(*(arrived(n, agent=f"a{n}", at=float(n)) for n in (1, 2, 3)))
    world.apply(ev.Sampled(4.0, (state(upcoming=(3, 1, 2, 99)),)))
    world.apply(arrived(4, at=5.0))
    assert [ticket.ticket for ticket in world.snapshot(6.0).queue] == [3, 1, 2, 4]
    world.apply(granted(3, agent="a3", at=7.0))
    assert [ticket.ticket for ticket in world.snapshot(8.0).queue] == [1, 2, 4]


def test_the_curve_has_about_a_point_a_second() -> None:
    """Samples in between replace the last point; a cut gets one of its own, with its cause."""
    world = told(*(ev.Sampled(at, (state(level),)) for at, level in ((0.0, 8.0), (0.5, 7.0), (1.0, 6.0))))
    world.apply(ev.LevelChanged(1.1, LANE, 3.0, "rate_limited"))
    world.apply(ev.Sampled(1.2, (state(3.0),)))
    (lane,) = world.snapshot(2.0).lanes
    assert [(point.at, point.level, point.mark) for point in lane.curve] == [
        (0.0, 7.0, ""),
        (1.0, 6.0, ""),
        (1.2, 3.0, "rate_limited"),
    ]


def test_a_level_without_limit_is_drawn_at_what_flies() -> None:
    """Infinity has no place on a plot."""
    (lane,) = told(ev.Sampled(0.0, (state(math.inf),))).snapshot(1.0).lanes
    assert lane.curve[0].level == 2.0


def test_the_past_is_bounded() -> None:
    """Agents long gone, old lines and old points fall out; an agent at work stays."""
    world = told(arrived(0, agent="at work"))
    for n in range(1, AGENTS_KEPT + 50):
        world.apply(arrived(n, agent=f"a{n}", at=float(n)))
        world.apply(ev.Refused(float(n), n, f"a{n}", LANE, "queue_full", 503))
    for n in range(CURVE_KEPT + 50):
        world.apply(ev.Sampled(10_000.0 + n, (state(),)))
    snapshot = world.snapshot(20_000.0)
    assert len(snapshot.agents) == AGENTS_KEPT
    assert snapshot.agents[0].name == "at work"
    assert len(snapshot.lines) == LINES_KEPT
    assert len(snapshot.lanes[0].curve) == CURVE_KEPT
    assert snapshot.totals.requests == AGENTS_KEPT + 50


@pytest.mark.parametrize(
    ("event", "level", "tag", "who", "text"),
    [
        (failed(1.5, message="slow down"), "warn", "429", "ann", "slow down; attempt 2 in 1.5 s"),
        (failed(None), "bad", "429", "ann", "rate limited; passed on to the agent"),
        (finished(attempts=3), "good", "saved", "ann", "answered at attempt 3; the agent saw no error"),
        (ev.Abandoned(1.0, 1, "ann", LANE, True), "info", "left", "ann", "the client left while its answer came"),
        (ev.Abandoned(1.0, 1, "ann", LANE, False), "info", "left", "ann", "the client left in the queue"),
        (ev.Refused(1.0, 1, "ann", LANE, "queue_full", 503), "bad", "503", "ann", "refused: queue full"),
        (ev.LevelChanged(1.0, LANE, 2.5, "rate_limited"), "warn", "aimd", LANE, "concurrency level 2.5 (rate limited)"),
        (ev.CircuitChanged(1.0, LANE, "open", "529", 10.0), "bad", "circuit", LANE, "open (529), a probe in 10 s"),
        (ev.CircuitChanged(1.0, LANE, "half_open", "x"), "warn", "circuit", LANE, "half open (x)"),
        (ev.CircuitChanged(1.0, LANE, "closed", "x"), "good", "circuit", LANE, "closed (x)"),
        (ev.LaneParked(1.0, LANE, 7.0, "429"), "warn", "429", LANE, "the provider asks for a pause of 7.0 s"),
        (ev.LaneReleased(1.0, LANE), "good", "lane", LANE, "goes on"),
        (ev.LaneOpened(1.0, LANE, "up", "generic"), "info", "lane", LANE, "first request (generic)"),
        (
            ev.Commanded(1.0, "you", "SetCeiling", {"ceiling": 4, "lane": None}),
            "info",
            "you",
            "you",
            "SetCeiling ceiling 4",
        ),
    ],
)
def test_what_people_read(event: ev.Event, level: str, tag: str, who: str, text: str) -> None:
    """One line for what matters."""
    line = line_of(event, 1001.0)
    assert line is not None
    assert (line.at, line.wall, line.level, line.tag, line.who, line.text) == (event.at, 1001.0, level, tag, who, text)


@pytest.mark.parametrize(
    "event",
    [arrived(), granted(), finished(), ev.LevelChanged(1.0, LANE, 4.5, "grow"), ev.Sampled(1.0, ())],
)
def test_what_happens_all_the_time_has_no_line(event: ev.Event) -> None:
    """Else the rest would drown."""
    assert line_of(event, 0.0) is None
