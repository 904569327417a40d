"""What a report makes of a run's events: sums, rows, lanes, and nothing that the events don't show."""

from __future__ import annotations

import random

import pytest
from examples import examples
from lab import report_kit
from lab.report_kit import (
    LANE,
    MODEL,
    START,
    a_night,
    arrived,
    content,
    failed,
    finished,
    granted,
    opened,
    run_of,
    sampled,
)
from msgspec import structs
from world.histories import History, randomly
from world.kit import told

from hivemind.journal.records import Gap, JournalEnded
from hivemind.lab.report import fold as folding
from hivemind.lab.report.headline import _dead_agents, causes_message, facts, windows_message
from hivemind.lab.report.lanes import Series
from hivemind.lab.report.tables import agents, causes, windows
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage, WindowKind, WindowReading
from hivemind.world.state import Carried
from hivemind.world.world import World


def test_what_was_saved() -> None:
    """Saved is who met a fault unseen and never saw one, and what it had used when the last one would have ended it."""
    run = run_of(a_night())
    spent = run.saved_spending
    assert (len(run.saved), spent.tokens, spent.dollars, spent.unpriced) == (1, 1000, 1.0, 0)


def test_saved_as_the_control_room_counts() -> None:
    """Agents and tokens saved are those of the world's totals, whatever happened."""
    rng = random.Random(7)
    events: list[ev.Event] = [opened()]
    for ticket in range(400):
        agent, at = f"agent-{rng.randrange(30)}", ticket * 10.0
        events += [arrived(at, ticket, agent), granted(at, ticket, agent)]
        tries = 1
        while rng.random() < 0.2:
            events += [failed(at + tries, ticket, agent, 0.5, usage=Usage(rng.randrange(50)))]
            events += [granted(at + tries + 0.6, ticket, agent, tries + 1)]
            tries += 1
        end = rng.random()
        if end < 0.03:
            events.append(failed(at + 9, ticket, agent, None))
        elif end < 0.06:
            events.append(ev.Refused(START + at + 9, ticket, agent, LANE, rng.choice(["budget", "deadline"]), 503))
        elif end < 0.09:
            events.append(ev.Abandoned(START + at + 9, ticket, agent, LANE, True, Usage(20)))
        else:
            events.append(finished(at + 9, ticket, agent, tries, rng.randrange(500)))
    world = World(at=START, wall=0.0, address="", upstreams=())
    for event in events:
        world.apply(event)
    totals, run = world.snapshot(events[-1].at).totals, run_of(events)
    assert totals.agents_recovered > 3
    assert (len(run.saved), run.saved_spending.tokens) == (totals.agents_recovered, totals.tokens_saved)


def test_faults_and_what_became_of_them() -> None:
    """Each fault counts by its kind, and by how the request that met it ended."""
    faults = run_of(a_night()).fold.faults
    assert {name: (kind.count, kind.retried, dict(kind.outcomes)) for name, kind in faults.kinds.items()} == {
        "overloaded": (2, 2, {"failed": 1, "answered": 1}),
        "server_error": (1, 0, {"failed": 1}),
        "disconnected": (1, 1, {"answered": 1}),
    }
    assert (faults.count, faults.ended("answered"), faults.ended("failed")) == (4, 2, 2)


def test_a_lanes_course() -> None:
    """A lane has its cuts, and its pauses and open circuit from beginning to end."""
    run = run_of(a_night())
    lane = run.fold.lanes[LANE]
    assert [(cut.at, cut.level, cut.cause) for cut in lane.cuts.kept] == [(3, 3.0, "overloaded")]
    assert [(each.begins, each.ends, each.state) for each in lane.spans.kept] == [(8, 10, "paused"), (8, 10, "open")]
    assert (lane.paused_s, lane.open_s, lane.max_in_flight, lane.longest_queue) == (2, 2, 2, 2)
    assert [window.fullest for window in lane.windows.values()] == [0.9]
    assert [(word.at, word.text) for word in run.fold.commands.kept] == [(13, "aimd.beta is 0.6 now")]


def limits(at: float, remaining: int | None, reset_in_s: float | None = None, limit: int | None = 50) -> ev.LimitsRead:
    """Return what the headers of a reply said of the lane's requests a minute."""
    return ev.LimitsRead(START + at, LANE, MODEL, (WindowReading(WindowKind.REQUESTS, limit, remaining, reset_in_s),))


def test_rate_windows_are_as_the_headers_said() -> None:
    """Our own sum is 194 % where the provider said 60 %, and 4 % where it said 98 %; the provider's figures count."""
    events = [opened(), sampled(1, used=97.0), limits(2, 20), sampled(5, used=2.0), limits(6, 1), sampled(10, used=2.0)]
    run = run_of(events)
    ((_, window),) = run.windows()
    assert (window.told, window.limit, window.source) == (True, 50.0, "headers")
    assert window.fullest == pytest.approx(0.98)
    shares = {round(mean, 6) for _, mean, _ in window.points(10)}
    assert {0.6, 0.98} <= shares
    assert max(shares) <= 0.98
    assert windows_message(run) == "By the provider's headers at most 98 % of the requests window was used."
    assert windows(run).rows[0][2:] == ["requests", "50", *["the provider's headers", "98 %", "the provider's headers"]]


def test_a_rate_window_is_whole_when_the_headers_said_so() -> None:
    """Nobody asks any more after a burst, so no header says it again."""
    run = run_of([opened(), limits(2, 5, reset_in_s=3.0), sampled(10, used=40.0)])
    ((_, window),) = run.windows()
    points = window.points(10)
    assert {round(mean, 6) for at, mean, _ in points if 2.1 < at < 4.9} == {0.9}
    assert {round(mean, 6) for at, mean, _ in points if at > 5.1} == {0.0}


def test_rate_windows_of_which_no_header_tells_are_our_own_sums() -> None:
    """Headers that state a limit alone don't say what is used."""
    run = run_of([opened(), sampled(1, used=40.0), limits(2, None), limits(3, 5, limit=None), sampled(4, used=45.0)])
    ((_, window),) = run.windows()
    assert window.told  # the limit is known from before
    run = run_of([opened(), sampled(1, used=40.0), limits(2, None), sampled(4, used=45.0)])
    ((_, window),) = run.windows()
    assert (window.told, window.fullest) == (False, 0.9)
    assert windows_message(run) == (
        "By HiveMind's own sums over 60 s (dotted) at most 90 % of the requests window was used; no header tells of it."
    )
    assert windows(run).rows[0][-1] == "our own sum"


def test_a_full_window_whose_limit_is_assumed_is_named() -> None:
    """Requests may have waited for nothing, which a setting mends; not where a header or a setting states it."""

    def message(source: str, used: float) -> str:
        sample = sampled(1, used=used)
        (state,) = sample.lanes
        (window,) = state.windows
        state = replace(state, windows=(replace(window, source=source),))
        return windows_message(run_of([opened(), structs.replace(sample, lanes=(state,)), JournalEnded(START + 2)]))

    assert "limit of a full window is assumed" in message("assumed", 50)
    for source, used in (("assumed", 20), ("settings", 50), ("headers", 50)):
        assert "assumed" not in message(source, used)


def test_why_requests_waited() -> None:
    """In a sentence, a table, by agent and over time."""
    run = run_of(a_night())
    assert causes_message(run) == (
        "Requests waited 11 s in all: 55 % for rate windows, 27 % between attempts and 18 % for pauses that the"
        " provider asks for (Retry-After)."
    )
    assert causes(run).rows == [
        ["rate windows", "6 s", "55 %"],
        ["pause before a retry", "3 s", "27 %"],
        ["rate-limited (Retry-After)", "2 s", "18 %"],
    ]
    assert {row[0]: row[6:8] for row in agents(run).rows} == {
        "ann": ["7 s", "rate windows"],
        "bob": ["4 s", "rate windows"],
        "cleo": ["0 s", ""],
    }


def test_a_pause_ends_with_the_run() -> None:
    """A pause and an open circuit that nothing ends are told up to the last event."""
    events = [
        ev.CircuitChanged(START + 1, LANE, "open", "x"),
        ev.LaneRateLimited(START + 2, LANE, 60.0, "429"),
        sampled(5),
    ]
    lane = run_of([opened(), *events]).fold.lanes[LANE]
    assert [(each.begins, each.ends, each.state) for each in lane.spans.kept] == [(2, 5, "paused"), (1, 5, "open")]


def test_a_gap() -> None:
    """What becomes of a request in a gap isn't known; samples tell what flies."""
    events = [
        opened(),
        arrived(0, 1, "ann"),
        granted(0, 1, "ann"),
        sampled(0.5, active=1),
        arrived(1, 2, "bob"),
        granted(1, 2, "bob"),
        failed(2, 2, "bob", 1.0),
        Gap(START + 10, START + 3, 40, "disk full"),
        sampled(11, active=1),
        content(12, 1, "ann"),
        finished(14, 1, "ann"),
        sampled(15),
    ]
    fold = run_of(events).fold
    assert fold.gaps.kept == [(3, 10, 40)]
    assert fold.faults.ended("open") == 1
    in_flight = {round(at, 2): mean for at, mean, _ in fold.lanes[LANE].in_flight.points(16)}
    assert (in_flight[0.5], in_flight[1.5], in_flight[2.5], in_flight[13.5], in_flight[15.5]) == (1, 2, 1, 1, 0)
    assert not [at for at in in_flight if 3.05 < at < 10.95]
    assert [fold.agents[name].last_end for name in ("ann", "bob")] == ["answered", ""]


def test_what_was_open_when_the_recording_begins_counts_from_there() -> None:
    """As in the figures beside; its lane's counts begin with it."""
    past = [arrived(0, 1, "ann"), granted(0, 1, "ann"), arrived(1, 2, "bob")]
    world = World(at=START, wall=0.0, address="", upstreams=())
    for event in (opened(), sampled(0, active=1), *past):
        world.apply(event)
    carried = Carried(START + 2, world.keep(START + 2))
    run = run_of([carried, granted(3, 2, "bob", waited_s=2.0), finished(4, 1, "ann"), finished(5, 2, "bob")])
    ann, bob = (run.fold.agents[name] for name in ("ann", "bob"))
    assert (ann.requests, ann.answered, ann.spent.dollars) == (1, 1, 1.0)
    assert (bob.requests, bob.answered) == (1, 1)
    lane = run.fold.lanes[LANE]
    assert (lane.requests, lane.max_in_flight, lane.longest_queue) == (2, 2, 1)
    assert (run.figures.requests, run.figures.answered, run.figures.waited_s) == (2, 2, 1.0)


def test_a_state_after_a_gap_shows_what_is_open() -> None:
    """At once, and of what ended in the gap nobody knows how."""
    world = World(at=START, wall=0.0, address="", upstreams=())
    for event in (opened(), sampled(0), arrived(0, 1, "ann"), granted(0, 1, "ann")):
        world.apply(event)
    run = run_of(
        [
            opened(),
            arrived(0, 1, "ann"),
            arrived(1, 2, "bob"),
            granted(1, 2, "bob"),
            failed(2, 2, "bob", 1.0),
            Gap(START + 10, START + 3, 40, "disk full"),
            Carried(START + 11, world.keep(START + 11)),
            finished(14, 1, "ann"),
            sampled(15),
        ]
    )
    ann, bob = (run.fold.agents[name] for name in ("ann", "bob"))
    assert (ann.requests, ann.answered, bob.last_end, run.fold.faults.ended("open")) == (1, 1, "", 1)
    lane = run.fold.lanes[LANE]
    in_flight = {round(at, 2): mean for at, mean, _ in lane.in_flight.points(16)}
    assert (in_flight[12.5], in_flight[15.5]) == (1, 0)
    assert not [at for at in in_flight if 3.05 < at < 10.95]


def test_spent_by_model() -> None:
    """Sums by model are those of the agents, wasted ones too, and unpriced tokens stand apart."""
    events = [*a_night()[:-1], arrived(20, 5, "dora", model="house-model")]
    run = run_of([*events, granted(20, 5, "dora"), finished(21, 5, "dora", tokens=50)])
    assert [(name, each.tokens, each.wasted, each.dollars, each.unpriced) for name, each in run.models.items()] == [
        ("claude-sonnet-4-5", 6200, 300, pytest.approx(6.2), 0),
        ("house-model", 50, 0, 0, 50),
    ]
    assert sum(each.tokens for each in run.models.values()) == run.figures.tokens


def test_agents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many agents the others are only counted, which the report says."""
    monkeypatch.setattr(folding, "AGENTS_KEPT", 3)
    events: list[ev.Event] = [opened()]
    for number in range(5):
        events += [arrived(number, number, f"a{number}"), granted(number, number, f"a{number}")]
        events += [finished(number + 0.5, number, f"a{number}")]
    run = run_of(events)
    assert (len(run.fold.agents), run.fold.untracked_requests) == (3, 2)
    assert "other agents sent 2 requests" in run.notes[0]


def test_a_series_is_bounded_and_keeps_means() -> None:
    """However long it is, a series has a bounded number of buckets; their means keep its area, their tops its peaks."""
    series = Series(most=100)
    for at in range(0, 10_000, 10):
        series.set(at, 1)
        series.set(at + 5, 3 if at != 5000 else 50)
    points = series.points(10_000)
    assert len(points) <= 100
    assert sum(mean for _, mean, _ in points) * series.width_s == pytest.approx(20_000 + 47 * 5, rel=0.02)
    assert max(top for _, _, top in points) == 50


def test_a_command_of_another_version() -> None:
    """A command whose arguments aren't as they are here is told by its name."""
    fold = run_of([ev.Commanded(START + 1, "you", "Tune", {})]).fold
    assert [word.text for word in fold.commands.kept] == ["Tune"]


def test_what_was_used_beside_answers_counts() -> None:
    """Work in the background and other models are no requests of their agent's, but it has used what they did."""
    run = run_of(
        [opened(), arrived(0.0, 1, "ann"), granted(0.0, 1, "ann"), finished(1.0, 1, "ann"), finished(2.0, 0, "ann", 0)]
    )
    ann = run.fold.agents["ann"]
    assert (ann.requests, ann.answered, sum(use.tokens for use in ann.models.values())) == (1, 1, 2000)


@pytest.mark.hypothesis
def test_the_dead_are_those_of_the_control_room() -> None:
    """In random histories, read from the beginning, and from a part on that begins with the state of the world."""
    dead = 0
    for seed in range(examples(480, few=24)):
        events = History().after(randomly(seed, 120))
        world, half = told(), len(events) // 2
        for event in events[:half]:
            world.apply(event)
        carried = Carried(events[half].at, world.keep(events[half].at))
        for event in events[half:]:
            world.apply(event)
        wanted = {agent.name for agent in world.keep(events[-1].at).agents if agent.trouble == "died"}
        for part in (events, [carried, *events[half:]]):
            run = run_of([opened(), *part])
            assert {agent.name for agent in run.died} == wanted, seed
            assert all(agent.name in _dead_agents(run) for agent in run.died[:3])
        dead += len(wanted)
    assert dead > 1


def test_what_caches_lost_and_the_order_saved_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line and by agent; where nothing was, there is neither."""
    assert not any(fact.what == "saved by order" for fact in facts(run_of(a_night())))
    monkeypatch.setattr(report_kit, "dear", lambda _, __, usage: 0.001 * usage.cache_write_tokens)
    told_of = [ev.PromptCached(START + 2, 1, "ann", LANE, MODEL, "waited", 2000)]
    told_of += [ev.PromptCached(START + 2, 1, "ann", LANE, MODEL, "order", 3000)]
    run = run_of([*a_night()[:-1], *told_of])
    (fact,) = [fact for fact in facts(run) if fact.what == "saved by order"]
    assert (fact.value, "$2.00 for prompts that expired while they waited" in fact.more) == ("$3.00", True)
    (row,) = [row for row in agents(run).rows if row[0] == "ann"]
    assert row[-3:] == ["$3.00", "$2.00", "$0.00"]
