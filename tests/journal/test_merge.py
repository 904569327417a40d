"""Journals of several proxies as one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.kit import FREE, LANE, began, request, served
from lab.random_events import soup
from msgspec import structs
from world.kit import state

from hivemind.journal.codec import line_of
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.merge import Merge, strictest
from hivemind.journal.read.several import open_journals
from hivemind.journal.records import Gap, JournalBegan, JournalEnded
from hivemind.lab.simulate.recording import load
from hivemind.lab.simulate.simulation import simulate
from hivemind.lab.trace.steps import RequestStep
from hivemind.lab.trace.trace import Trace
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import AimdConfig, SchedulerConfig
from hivemind.scheduler.types import Priority, WindowKind
from hivemind.world.state import Carried
from hivemind.world.world import World

URL = "http://provider.example"


def first(name: str, at: float = 0.0, wall: float = 1000.0, url: str = URL, **more: Any) -> JournalBegan:
    """The first line of a journal of a proxy with one upstream."""
    return structs.replace(began(), journal=name, at=at, wall=wall, upstreams=(("mock", url),), **more)


def moved(events: Sequence[ev.Event], by_s: float) -> list[ev.Event]:
    """The same events by another clock."""
    return [structs.replace(event, at=event.at + by_s) for event in events]


def merged(*journals: tuple[JournalBegan, Sequence[ev.Event]]) -> tuple[Merge, list[tuple[int, ev.Event]]]:
    """All events of these journals."""
    merge = Merge([each for each, _ in journals])
    return merge, list(merge.events([events for _, events in journals]))


def figures(events: Sequence[ev.Event]) -> Figures:
    """What they come to."""
    tally = FiguresFold()
    for event in events:
        tally.apply(event)
    return tally.figures()


def summary(events: Sequence[tuple[int, ev.Event]], start: JournalBegan, proxies: int) -> list[tuple[Any, ...]]:
    """What a trace says of each request, but for names that differ from proxy to proxy."""
    trace = Trace(start, proxies)
    for proxy, event in events:
        trace.apply(event, proxy)
    place = {id(step): number for number, step in enumerate(trace.requests)}
    return [
        (
            each.arrived.agent,
            each.end,
            round(each.at, 5),
            [(round(one.granted_at, 5), one.in_flight, round(one.duration_s, 5)) for one in each.attempts],
            [(round(delay_s, 5), place[id(step)]) for delay_s, step in each.after if isinstance(step, RequestStep)],
        )
        for each in trace.requests
    ]


def written(folder: Path, start: JournalBegan, events: Sequence[ev.Event], name: str = "") -> Path:
    """A journal with these events."""
    path = folder / f"{name or start.journal}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(line_of, (start, *events))))
    return path


def notes(*paths: Path) -> list[str]:
    """What is told of journals once they were read."""
    journals = open_journals(paths)
    list(journals.events())
    return journals.notes()


# --- Splitting a run and merging it again -----------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[int, list[ev.Event]]]:
    """Agents' requests, each with the proxy that it goes through; no two events are at the same time."""
    found = []
    times = iter(range(1, 10_000))
    for number in range(draw(st.integers(1, 6))):
        proxy, at = draw(st.integers(0, 2)), draw(st.floats(0, 20))
        events: list[ev.Event] = []
        for turn in range(draw(st.integers(1, 4))):
            waits_s, takes_s = draw(st.floats(0, 3)), draw(st.floats(0.1, 4))
            ticket = 100 * (number + 1) + turn
            events += served(at, ticket, f"agent-{number}", waits_s=waits_s, takes_s=takes_s)
            at += waits_s + takes_s + draw(st.floats(0.01, 2))
        found.append((proxy, [structs.replace(event, at=event.at + next(times) * 1e-4) for event in events]))
    return found


@given(run=runs(), offsets=st.lists(st.floats(-1e6, 1e6).map(lambda each: round(each, 3)), min_size=3, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_a_split_run_merges_to_what_it_was(run: list[tuple[int, list[ev.Event]]], offsets: list[float]) -> None:
    """One proxy's journal, its agents divided among three with clocks of their own, has the same figures, and the same
    follows from the same."""
    opened = ev.LaneOpened(0.0, LANE, "mock", "generic", FREE)
    whole = sorted((event for _, events in run for event in events), key=lambda event: event.at)
    alone = [opened, *whole]
    journals = []
    for proxy, offset in enumerate(offsets):
        mine = sorted((event for at, events in run if at == proxy for event in events), key=lambda event: event.at)
        journals.append((first(f"j{proxy}", offset), moved([opened, *mine], offset)))
    merge, together = merged(*journals)
    found, expected = figures([event for _, event in together]), figures(alone)
    for name in ("agents", "finished", "requests", "answered", "attempts", "tokens", "busiest"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("wall_s", "waited_s", "fairness"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-4)
    before = summary([(0, event) for event in alone], began(), 1)
    after = summary(together, merge.began, 3)
    shift_s = merge.began.at
    for one, other in zip(before, after, strict=True):
        _same(one, other, shift_s)


def _same(one: Any, other: Any, shift_s: float) -> None:
    agent, end, at, attempts, after = one
    assert (agent, end, pytest.approx(at + shift_s, abs=1e-4)) == other[:3]
    assert [(pytest.approx(g + shift_s, abs=1e-4), n, pytest.approx(s, abs=1e-4)) for g, n, s in attempts] == other[3]
    assert [(pytest.approx(delay_s, abs=1e-4), step) for delay_s, step in after] == other[4]


@given(seeds=st.lists(st.integers(0, 10**9), min_size=1, max_size=4), count=st.integers(0, 60))
@settings(max_examples=examples(60), deadline=None)
def test_any_journals_can_be_merged(seeds: list[int], count: int) -> None:
    """Whatever is in them: in order, nothing lost, and no ticket of two proxies."""
    journals = [(first(f"j{number}"), list(soup(seed, count))[1:]) for number, seed in enumerate(seeds)]
    merge, events = merged(*journals)
    assert len(events) == sum(len(each) for _, each in journals)
    times = [event.at for _, event in events]
    assert times == sorted(times)
    owners: dict[int, int] = {}
    for proxy, event in events:
        ticket = getattr(event, "ticket", None)
        if ticket is not None:
            assert owners.setdefault(ticket, proxy) == proxy
    counted = [figures([event for _, event in merged(each)[1]]) for each in journals]
    together = figures([event for _, event in events])
    assert together.requests == sum(each.requests for each in counted)
    assert together.tokens == sum(each.tokens for each in counted)
    trace = Trace(merge.began, len(seeds))
    for proxy, event in events:
        trace.apply(event, proxy)
    assert len(trace.requests) == together.requests


# --- What becomes one, and what doesn't -------------------------------------------------------------------------------


def test_clocks_are_aligned_by_the_time_of_day() -> None:
    """A proxy's own clock begins anywhere; what it says is put where it was by the time of day."""
    one = first("a", at=5.0, wall=1000.0), [*served(6.0, 1, "x")]
    other = first("b", at=900.0, wall=1000.5), [*served(900.25, 1, "y")]
    _, events = merged(other, one)
    assert [(proxy, event.at) for proxy, event in events if isinstance(event, ev.Arrived)] == [(0, 5.75), (1, 6.0)]


def test_an_agent_counts_once_by_name() -> None:
    """What it does follows from what it did at the same proxy."""
    one = first("a"), [*served(0.0, 1, "x"), *served(5.0, 2, "x")]
    other = first("b"), [*served(2.0, 1, "x"), *served(4.5, 2, "x")]
    merge, events = merged(one, other)
    found = figures([event for _, event in events])
    assert (found.agents, found.finished, found.requests) == (1, 1, 4)
    delays = [after for *_, after in summary(events, merge.began, 2)]
    assert delays == [[(4.0, 3)], [(1.5, 2)], [], []]


@pytest.mark.parametrize(
    ("name", "url", "lane"),
    [
        ("mock", URL, "mock:1"),
        ("mock", f"{URL}/v1", "mock:1"),
        ("mock", "http://[", "mock@2:1"),
        ("other", URL, "mock:1"),
        ("mock", "http://elsewhere.example", "mock@2:1"),
        ("third", "http://elsewhere.example", "third:1"),
    ],
)
def test_upstreams_are_one_by_their_url(name: str, url: str, lane: str) -> None:
    """Whatever they are called; the same name at two URLs is two."""
    start = structs.replace(first("b"), upstreams=((name, url),))
    opened = ev.LaneOpened(0.0, f"{name}:1", name, "generic", replace(FREE, upstream=name))
    turned = ev.Commanded(0.0, "you", "Tune", {"knob": "rpm", "value": 1.0, "upstream": name})
    own = [structs.replace(event, lane=f"{name}:1") for event in served(1.0, 1, "y")]
    merge, events = merged((first("a"), [*served(0.0, 1, "x")]), (start, [opened, turned, *own]))
    theirs = [event for proxy, event in events if proxy == 1]
    assert {getattr(event, "lane", lane) for event in theirs} == {lane}
    upstream = lane.partition(":")[0]
    assert isinstance(theirs[0], ev.LaneOpened)
    assert theirs[0].config is not None
    assert (theirs[0].upstream, theirs[0].config.upstream) == (upstream, upstream)
    assert isinstance(theirs[1], ev.Commanded)
    assert theirs[1].arguments["upstream"] == upstream
    assert (upstream, url) in merge.began.upstreams
    assert merge.unshared() == ([] if lane == LANE else [0, 1])


def test_a_server_on_the_machine_itself_is_another_on_another_machine() -> None:
    """Its URL is the same everywhere."""
    here = first("a", url="http://127.0.0.1:9", machine="1")
    assert dict(Merge([here, first("b", url="http://127.0.0.1:9", machine="1")]).began.upstreams).keys() == {"mock"}
    found = dict(Merge([here, first("b", url="http://127.0.0.1:9", machine="2")]).began.upstreams)
    assert found.keys() == {"mock", "mock@2"}


def test_the_smallest_limit_holds() -> None:
    """Of a lane that proxies share: as for the members of a fleet."""
    one = replace(FREE, max_concurrency=8, rpm=60, tpm=1000, tpm_binding=True, aimd=AimdConfig(beta=0.7))
    other = replace(FREE, max_concurrency=4, rpm=90, rpm_binding=True, tpm=500)
    found = strictest(one, other)
    assert (found.max_concurrency, found.rpm, found.rpm_binding) == (4, 90, True)
    assert (found.tpm, found.tpm_binding, found.aimd.beta) == (1000, True, 0.7)
    assert strictest(FREE, one).max_concurrency == 8
    merge, events = merged(
        (first("a"), [ev.LaneOpened(0.0, LANE, "mock", "generic", one)]),
        (first("b", config=SchedulerConfig(max_agents=3)), [ev.LaneOpened(1.0, LANE, "mock", "generic", other)]),
    )
    trace = Trace(merge.began, 2)
    for proxy, event in events:
        trace.apply(event, proxy)
    assert trace.lanes[LANE].config == found
    assert list(merge.differing) == ["max_agents", "max_concurrency", "rpm", "tpm", "aimd.beta"]


def test_gauges_are_added_up() -> None:
    """Of proxies apart, each of which has a level of its own; those of a fleet share one."""

    def sample(at: float, active: int, level: float) -> ev.Sampled:
        window = ev.WindowState("m", WindowKind.REQUESTS, 60, active, 0, 60 - active, None, "profile")
        return ev.Sampled(at, (state(level, lane=LANE, active=active, waiting=1, windows=(window,)),))

    one, other = [sample(0.0, 2, 4.0)], [sample(1.0, 3, 5.0), ev.LevelChanged(2.0, LANE, 6.0, "grow")]
    for fleet, levels in ((False, (9.0, 10.0)), (True, (5.0, 6.0))):
        again = [*one, sample(3.0, 2, 4.0)]  # so that it isn't over before
        _, events = merged((first("a", fleet=fleet), again), (first("b", fleet=fleet), other))
        (_, second), (_, changed) = events[1:3]
        assert isinstance(second, ev.Sampled)
        assert isinstance(changed, ev.LevelChanged)
        (lane,) = second.lanes
        assert (lane.active, lane.waiting, lane.level, changed.level) == (5, 2, *levels)
        assert (lane.windows[0].used, lane.windows[0].remaining) == (5, 57)


def test_leases_are_added_up() -> None:
    """Two proxies with a request in flight each have used half of the four slots that they are leased together."""
    one: list[ev.Event] = [ev.LeaseChanged(0.0, LANE, "leased", 2.0, 8.0, 2), *served(1.0, 1, "ann", takes_s=9.0)]
    other: list[ev.Event] = [
        ev.LeaseChanged(0.5, LANE, "leased", 2.0, 8.0, 2),
        *served(1.0, 1, "bea", takes_s=9.0),
        *served(2.0, 2, "cleo", waits_s=3.0),
    ]
    other.sort(key=lambda event: event.at)
    _, events = merged((first("a", fleet=True), one), (first("b", fleet=True), other))
    assert [event.slots for _, event in events if isinstance(event, ev.LeaseChanged)] == [2.0, 4.0]
    assert figures([event for _, event in events]).causes.seconds == {"other": 3.0}


def test_a_journal_that_begins_in_the_middle_ends_nothing_of_others() -> None:
    """The state that a part begins with lists what is open there; at the other proxy requests go on."""
    world = World(at=90.0, wall=1090.0, address="", upstreams=())
    for event in (ev.LaneOpened(90.0, LANE, "mock", "generic", FREE), request(100.0, 7, "carried")):
        world.apply(event)
    world.apply(ev.Granted(100.5, 7, "carried", LANE, 1, 0.5))
    state = world.take(101.0).state()
    other = [Carried(101.0, state), ev.Finished(103.0, 7, "carried", LANE, "m", 200, 1, None, 3.0)]
    merge, events = merged((first("a"), [*served(0.5, 1, "x", takes_s=5.0)]), (first("b", at=100.0), other))
    found = figures([event for _, event in events])
    assert (found.requests, found.answered, found.open, found.busiest) == (2, 2, 0, 2)
    (_, carried) = next(each for each in events if isinstance(each[1], Carried))
    assert isinstance(carried, Carried)
    (own, _) = carried.state.tickets
    assert (own.arrived.at, own.attempts[0].granted.at) == (0.0, 0.5)
    steps = summary(events, merge.began, 2)
    assert [(agent, end) for agent, end, *_ in steps] == [("x", "answered"), ("carried", "answered")]


def test_gaps_and_tasks_have_times_and_names_of_their_own() -> None:
    """A batch that was submitted to two proxies is two."""
    events = [
        ev.Commanded(1.0, "you", "SubmitTasks", {"tasks": ["b.t"], "batch": "b"}),
        ev.TaskAdded(1.0, "b.t", "b", "b.t", Priority.NORMAL, 0, ("b.s",)),
        ev.TaskChanged(2.0, "b.t", "running", Priority.NORMAL, 1, ""),
        ev.AgentBegan(2.0, "b.t", None, "b.t", False),
        Gap(5.0, 4.0, 3, "the disk is full"),
        ev.TaskForgotten(6.0, "b.t"),
    ]
    later = [
        structs.replace(event, since=event.since + 10.0) if isinstance(event, Gap) else event
        for event in moved(events, 10.0)
    ]
    _, found = merged((first("a"), events), (first("b", at=10.0), later))
    theirs = [event for proxy, event in found if proxy == 1]
    assert theirs == [
        ev.Commanded(1.0, "you", "SubmitTasks", {"tasks": ["b.t.2"], "batch": "b.2"}),
        ev.TaskAdded(1.0, "b.t.2", "b.2", "b.t", Priority.NORMAL, 0, ("b.s.2",)),
        ev.TaskChanged(2.0, "b.t.2", "running", Priority.NORMAL, 1, ""),
        ev.AgentBegan(2.0, "b.t", None, "b.t.2", False),
        Gap(5.0, 4.0, 3, "the disk is full"),
        ev.TaskForgotten(6.0, "b.t.2"),
    ]
    assert [event for proxy, event in found if proxy == 0] == events


def test_one_proxy_that_drains_stops_no_other(tmp_path: Path) -> None:
    """A command that holds a proxy as a whole isn't one for the scheduler of all."""
    orders = [ev.Commanded(0.5, "you", "PauseAdmissions", {"paused": True})]
    orders.append(ev.Commanded(3.0, "you", "Drain", {"draining": True}))
    one = written(tmp_path, first("a"), [*served(0.0, 1, "x"), *orders])
    later = sorted([*served(0.2, 1, "y"), *served(5.0, 2, "y")], key=lambda event: event.at)
    other = written(tmp_path, first("b"), later)
    recording = load([one, other])
    assert simulate(recording).answered == 3
    left_out = "2 commands that paused or drained one of the proxies are left out: one scheduler would stop for all"
    assert left_out in recording.warnings


# --- What is told -----------------------------------------------------------------------------------------------------


def test_journals_of_one_name_from_two_machines(tmp_path: Path) -> None:
    """Two machines may begin a journal in the same second; their files are told apart by their folders."""
    events = [*served(0.0, 1, "x"), JournalEnded(2.0)]
    one = written(tmp_path / "a", first("run"), events)
    other = written(tmp_path / "b", first("run", at=700.0, wall=1000.2), moved(events[:-1], 700.0))
    journals = open_journals([one, other])
    assert len(list(journals.events())) == 11
    other.write_bytes(other.read_bytes()[:-20])
    assert notes(one, other) == [
        f"{other}: the last line isn't whole: the program that wrote it was killed, or the disk was full"
    ]


def test_strangers_are_told(tmp_path: Path) -> None:
    """Journals that share no lane have nothing to share; one that shares none with the others is named."""
    foreign = [structs.replace(event, lane="mock:2") for event in served(0.0, 1, "z")]
    one = written(tmp_path, first("a"), [*served(0.0, 1, "x")])
    other = written(tmp_path, first("b"), [*served(0.5, 1, "y")])
    stranger = written(tmp_path, first("c"), foreign)
    assert notes(one, other) == []
    assert notes(one, stranger) == [
        "no two of these journals share a lane, so these proxies had no key in common"
        " (a.jsonl: mock:1; c.jsonl: mock:2)"
    ]
    assert notes(one, other, stranger) == [
        "c.jsonl shares no lane with the others: its requests used other upstreams or keys"
    ]


def test_another_time_is_told(tmp_path: Path) -> None:
    """Nothing was at the same time, by the clocks."""
    one = written(tmp_path, first("a"), [*served(0.0, 1, "x")])
    other = written(tmp_path, first("b", wall=5000.0), [*served(0.5, 1, "y")])
    assert [line.partition(" is from another time than the others")[0] for line in notes(one, other)] == [
        "a.jsonl",
        "b.jsonl",
    ]


def test_settings_that_differ_are_told(tmp_path: Path) -> None:
    """With what is taken of them."""
    one = written(tmp_path, first("a"), [*served(0.0, 1, "x")])
    other = written(tmp_path, first("b", config=SchedulerConfig(max_agents=3)), [*served(0.5, 1, "y")])
    assert notes(one, other) == [
        "the proxies' settings differ (max_agents): of limits the smallest is taken, of the rest what a.jsonl has"
    ]


def test_a_member_of_a_fleet_alone(tmp_path: Path) -> None:
    """Its journal doesn't have the requests of the others."""
    path = written(tmp_path, first("a", fleet=True), [*served(0.0, 1, "x")])
    (line,) = notes(path)
    assert line.startswith(
        "it was recorded in a fleet: requests of the other proxies that used the same keys aren't in it"
    )
    other = written(tmp_path, first("b", fleet=True), [*served(0.0, 1, "y")])
    assert notes(path, other) == []
