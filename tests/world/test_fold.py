"""The fold from events to what people see."""

from __future__ import annotations

import random

import pytest
from scheduler.driving import Hands, lane_config
from world.histories import History, randomly
from world.kit import (
    LANE,
    USED,
    abandoned,
    arrived,
    budget,
    commanded,
    failed,
    finished,
    first_content,
    granted,
    only_agent,
    only_ticket,
    refused,
    sampled,
    state,
    told,
)

from hivemind.scheduler import events as ev
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import Priority, Usage, WindowKind
from hivemind.world.lanes import CURVE_KEPT
from hivemind.world.world import AGENTS_KEPT, LINES_KEPT


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
        ((granted(at=1.0), first_content(at=3.0)), "streaming", 7.0, 1),
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
    assert (agent.in_flight, agent.queued) == (int(flies), int(not flies))


def test_the_time_until_a_retry_runs_down() -> None:
    """To nothing, and no further."""
    world = told(arrived(), granted(), failed(30.0, at=2.0))
    assert [only_ticket(world.snapshot(at)).retry_in_s for at in (2.0, 12.0)] == [30.0, 20.0]
    again = only_ticket(world.snapshot(99.0))
    assert (again.state, again.since_s, again.retry_in_s) == ("queued", 97.0, None)
    assert only_agent(world.snapshot(99.0)).waited_s == 1.0 + 97.0  # the pause is a wait, too


@pytest.mark.parametrize(
    ("end", "count"),
    [(finished(), "finished"), (failed(None), "failed"), (abandoned(), "abandoned"), (refused(), "refused")],
)
@pytest.mark.parametrize("before", [(), (failed(1.0),), (failed(1.0), granted(attempt=2))])
def test_a_request_ends_in_one_of_four_ways(end: ev.Event, count: str, before: tuple[ev.Event, ...]) -> None:
    """Wherever it stood, each has a count, and the ticket is gone."""
    snapshot = told(arrived(), granted(), *before, end).snapshot(10.0)
    assert (snapshot.slots, snapshot.queue) == ((), ())
    counts = {name: getattr(snapshot.totals, name) for name in ("finished", "failed", "abandoned", "refused")}
    assert counts == {**dict.fromkeys(counts, 0), count: 1}
    assert only_agent(snapshot).state == ("refused" if count == "refused" else "idle")


def test_usage_is_added_up_part_by_part() -> None:
    """By agent and over all; what a failed or abandoned attempt used is wasted."""
    world = told(arrived(), granted(), failed(1.0, usage=Usage(1, 2, 3, 4)), granted(attempt=2), finished(attempts=2))
    world.apply(arrived(2))
    world.apply(abandoned(2, usage=Usage(10, 0, 0, 1)))
    totals = world.snapshot(10.0).totals
    assert totals.usage == USED
    assert totals.wasted == Usage(11, 2, 3, 5)
    assert only_agent(world.snapshot(10.0)).usage == Usage(111, 22, 33, 45)


def test_a_rescued_request_saves_its_agent_and_what_it_had_used() -> None:
    """Also if one of its requests fails after all: neither figure falls, and what is retried OK later adds nothing."""
    world = told(arrived(), granted(), finished())
    world.apply(arrived(1, at=6.0))
    for event in (granted(at=6.0), failed(1.0, at=7.0), granted(at=8.0, attempt=2), finished(at=9.0, attempts=2)):
        world.apply(event)
    totals = world.snapshot(10.0).totals
    assert (totals.retries, totals.retried_ok, totals.agents_recovered, totals.tokens_saved) == (1, 1, 1, USED.total)
    for last in (arrived(1, at=10.0), granted(at=10.0), failed(None, at=11.0)):
        world.apply(last)
    totals = world.snapshot(12.0).totals
    assert (totals.retried_ok, totals.agents_recovered, totals.tokens_saved) == (1, 1, USED.total)
    for last in (arrived(1, at=13.0), granted(at=13.0), failed(1.0, at=14.0), granted(at=15.0, attempt=2)):
        world.apply(last)
    world.apply(finished(at=16.0, attempts=2))
    totals = world.snapshot(17.0).totals
    assert (totals.retried_ok, totals.agents_recovered, totals.tokens_saved) == (2, 1, USED.total)


def test_what_was_saved_never_falls() -> None:
    """Whatever happens, also to agents that are forgotten; the state in an older journal says as much."""
    events, most = History().after(randomly(2, 1200)), (0, 0)
    world = told()
    for event in events:
        world.apply(event)
        if isinstance(event, ev.Finished | ev.AttemptFailed | ev.Refused):
            totals = world.snapshot(event.at).totals
            found = totals.agents_recovered, totals.tokens_saved
            assert found >= most
            assert found[1] >= most[1]
            most = found
    assert most[0] >= 2
    state = world.keep(events[-1].at)
    state.counts.agents_recovered = state.counts.recovered_tokens = 0
    older = told()
    older.restore(state)
    saved = [agent for agent in state.agents if agent.retried_ok and not agent.spoiled]
    assert older.snapshot(events[-1].at).totals.agents_recovered == len(saved)


@pytest.mark.parametrize(("reason", "saved"), [("draining", 1), ("agent_stopped", 1), ("budget", 1), ("queue_full", 0)])
def test_what_an_operator_turned_away_is_no_error(reason: str, saved: int) -> None:
    """After a drain an agent can still be saved; after an error of the proxy's own it can't."""
    world = told(arrived(2), ev.Refused(0.5, 2, "ann", LANE, reason, 503))
    for event in (arrived(1, at=1.0), granted(), failed(1.0), granted(attempt=2), finished(attempts=2)):
        world.apply(event)
    assert world.snapshot(8.0).totals.agents_recovered == saved


def test_progress_is_shown_while_it_streams() -> None:
    """Output tokens so far."""
    world = told(arrived(), granted(), ev.Progress(4.0, 1, "ann", LANE, 77))
    assert only_ticket(world.snapshot(5.0)).output_tokens == 77


@pytest.mark.parametrize(
    ("commands", "mode"),
    [
        ((commanded("PauseAdmissions", paused=True),), "paused"),
        ((commanded("PauseAdmissions", paused=True), commanded("PauseAdmissions", paused=False)), "serving"),
        ((commanded("Drain", draining=True),), "draining"),
        ((commanded("Drain", draining=True), commanded("Drain", draining=False)), "serving"),
        ((commanded("PauseAdmissions", paused=True), commanded("Drain", draining=True)), "draining"),
        (
            (
                commanded("PauseAdmissions", paused=True),
                commanded("Drain", draining=True),
                commanded("Drain", draining=False),
            ),
            "paused",
        ),
    ],
)
def test_the_mode_follows_the_operator(commands: tuple[ev.Commanded, ...], mode: str) -> None:
    """A drain goes before a pause, which is there again when the drain is over."""
    assert told(*commands).snapshot(2.0).mode == mode


@pytest.mark.parametrize(
    "command", [commanded("PauseAdmissions", paused=False), commanded("Drain", draining=False)], ids=["resume", "undo"]
)
def test_no_command_ends_the_drain_of_a_shutdown(command: ev.Commanded) -> None:
    """A proxy on its way out stays on it."""
    world = told()
    world.end()
    world.apply(command)
    assert world.snapshot(2.0).mode == "draining"


@pytest.mark.parametrize(
    "event",
    [
        granted(),
        first_content(),
        ev.Progress(4.0, 1, "ann", LANE, 77),
        failed(1.0, usage=USED),
        failed(None),
        finished(),
        abandoned(usage=USED),
        refused(),
        refused(ticket=None),
        ev.BoostEnded(1.0, "ann"),
        ev.PriceUnknown(1.0, "ann", "model"),
        ev.AgentBegan(1.0, "ann", None, None, False),
        ev.RunSilent(1.0, "ann", ("bob",)),
        ev.StartRefused(1.0, "ann", "the tree of lead has 32 processes"),
        ev.AgentEnded(1.0, "ann", 1),
        ev.TaskChanged(1.0, "lint", "done", Priority.NORMAL, 1, ""),
        ev.TaskForgotten(1.0, "lint"),
        commanded("SetTaskPriority", task="lint", priority="high"),
        ev.BudgetWarned(1.0, "ann", budget(), False),
        ev.LevelChanged(1.0, LANE, 3.0, "rate_limited"),
        ev.CircuitChanged(1.0, LANE, "open", "x"),
        ev.LaneRateLimited(1.0, LANE, 3.0, "429"),
        ev.LaneReleased(1.0, LANE),
        ev.ResetDoubted(1.0, LANE, "m", WindowKind.REQUESTS, 1e12, True),
        ev.LeaseChanged(1.0, LANE, "leased", 4.0, 12.0, 3),
        commanded("SetPriority", agent="ann", priority="high"),
        commanded("StopAgent", agent="ann", stopped=True),
        commanded("Tune", knob="aimd.beta", value=0.7, upstream=None),
        commanded("PinLevel", level=None, lane=LANE),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_fold_may_begin_in_the_middle(event: ev.Event) -> None:
    """Whatever it hears of a ticket, an agent or a lane that it never saw, it goes on; no ticket is made up."""
    world = told(event, event)
    snapshot = world.snapshot(9.0)
    assert (snapshot.slots, snapshot.queue, snapshot.queued, world.requests(0, 9.0).changed) == ((), (), 0, ())
    used = getattr(event, "usage", None) or Usage()
    assert snapshot.totals.usage.total + snapshot.totals.wasted.total == 2 * used.total


def test_the_past_is_bounded() -> None:
    """Agents long gone, old lines and points fall out; an agent at work stays, and so does one with a budget."""
    world = told(arrived(0, agent="at work"), commanded("SetPriority", agent="kept", priority="low"))
    world.apply(sampled(0.5, budgets=(budget("kept"),)))
    for n in range(1, AGENTS_KEPT + 50):
        world.apply(arrived(n, agent=f"a{n}", at=float(n)))
        world.apply(ev.Refused(float(n), n, f"a{n}", LANE, "queue_full", 503))
    for n in range(CURVE_KEPT + 50):
        world.apply(sampled(10_000.0 + n, state()))
    snapshot = world.snapshot(20_000.0)
    names = [agent.name for agent in snapshot.agents]
    assert 0.8 * AGENTS_KEPT <= len(names) <= AGENTS_KEPT
    assert names[:2] == ["at work", "kept"]
    assert "a1" not in names
    assert names[-1] == f"a{AGENTS_KEPT + 49}"
    assert len(snapshot.lines) == LINES_KEPT
    assert len(snapshot.lanes[0].curve) == CURVE_KEPT
    assert snapshot.totals.requests == AGENTS_KEPT + 50


@pytest.mark.parametrize("newcomers", [0, 3])
def test_the_queue_is_in_the_order_in_which_requests_are_granted(newcomers: int) -> None:
    """In random histories, if nothing else happens, also where classes were passed over; nearly so while some arrived
    after the last sample, which a second later says their places."""
    wrong = pairs = 0
    for seed in range(40):
        draw, hands = random.Random(seed), Hands(lane_config(slots=2), checked=False)
        tickets = [
            hands.arrive(draw.choice("abcdefg"), priority=draw.choice(list(Priority)), size=draw.randrange(100, 4000))
            for _ in range(4)
        ]
        for number in range(30):
            in_flight = [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]
            if draw.random() < 0.3 and in_flight:
                hands.wait(draw.choice((0.1, 1.0, 5.0)))
                hands.succeed(draw.choice(in_flight))
            priority = draw.choice(list(Priority))
            tickets.append(hands.arrive(draw.choice("abcdefg"), priority=priority, size=draw.randrange(100, 4000)))
            if number == 29 - newcomers:
                hands.log.append(hands.scheduler.sample(hands.now))
                hands.wait(0.1)
        queue, before = [each.ticket for each in told(*hands.log).snapshot(hands.now).queue], len(hands.granted)
        while in_flight := [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]:
            hands.succeed(in_flight[0])
        places = {ticket.id: place for place, ticket in enumerate(hands.granted[before:])}
        order = [places[number] for number in queue if number in places]
        wrong += sum(one > other for place, one in enumerate(order) for other in order[place + 1 :])
        pairs += len(order) * (len(order) - 1) // 2
    assert pairs > 2000
    # An agent that has just been answered is waited for a moment, for which another may go first.
    assert wrong <= pairs * (0.06 if newcomers else 0.001)


def test_an_answer_whose_grant_a_journal_has_lost_counts() -> None:
    """As one of a provider whose cache is known, too."""
    world = told(sampled(0.0, state(provider="anthropic")), arrived(), finished())
    assert world.snapshot(6.0).totals.finished == 1
