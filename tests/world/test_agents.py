"""An agent, and what the operator decided about it."""

from __future__ import annotations

import pytest
from world.kit import abandoned, arrived, commanded, failed, finished, granted, only_agent, only_ticket, refused, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority


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


def test_how_long_it_was_served() -> None:
    """From arrival to the last byte, over what was answered."""
    world = told(arrived(1), granted(1), finished(1, at=5.0), arrived(2), granted(2), finished(2, at=7.0), arrived(3))
    assert only_agent(world.snapshot(9.0)).served_s == 12.0


def test_waiting_tickets_move_with_their_agent() -> None:
    """A priority that the operator gives holds for them too."""
    snapshot = told(arrived(), commanded("SetPriority", agent="ann", priority="critical")).snapshot(2.0)
    assert only_agent(snapshot).priority is only_ticket(snapshot).priority is Priority.CRITICAL


@pytest.mark.parametrize(
    ("command", "held"),
    [
        (commanded("PauseAgent", agent="ann", paused=True), "paused"),
        (commanded("StopAgent", agent="ann", stopped=True), "stopped"),
    ],
    ids=["pause", "stop"],
)
def test_an_agent_that_is_held_says_so(command: ev.Commanded, held: str) -> None:
    """Also while it has nothing to wait for; what it has in flight is shown before that."""
    assert only_agent(told(command).snapshot(2.0)).state == held
    assert only_agent(told(arrived(), command).snapshot(2.0)).state == held
    assert only_agent(told(arrived(), granted(), command).snapshot(2.0)).state == "waiting"


def test_what_was_held_goes_on() -> None:
    """A pause and a stop can be taken back."""
    pauses = [commanded("PauseAgent", agent="ann", paused=paused) for paused in (True, False)]
    stops = [commanded("StopAgent", agent="ann", stopped=stopped) for stopped in (True, False)]
    agent = only_agent(told(*pauses, *stops).snapshot(2.0))
    assert (agent.state, agent.paused, agent.stopped) == ("idle", False, False)


def test_dynamic_priority_is_shown_beside_the_agents_own() -> None:
    """For as long as it counts as another."""
    world = told(arrived(), ev.Nudged(1.0, "ann", 1))
    assert (only_agent(world.snapshot(2.0)).nudge, only_agent(world.snapshot(2.0)).priority) == (1, Priority.NORMAL)
    world.apply(ev.Nudged(3.0, "ann", 0))
    assert only_agent(world.snapshot(4.0)).nudge == 0


def test_a_boost_runs_down() -> None:
    """It ends by itself, when the scheduler says so, or when the operator does; the agent's own priority is shown all
    the while, whatever its requests come in with."""
    world = told(arrived(), commanded("BoostAgent", agent="ann", for_s=60.0))
    world.apply(arrived(2, at=2.0, priority=Priority.CRITICAL))
    agents = [only_agent(world.snapshot(at)) for at in (2.0, 31.0, 90.0)]
    assert [(agent.boosted_for_s, agent.priority) for agent in agents] == [
        (59.0, Priority.NORMAL),
        (30.0, Priority.NORMAL),
        (0.0, Priority.NORMAL),
    ]
    assert [slot.priority for slot in world.snapshot(90.0).queue] == [Priority.NORMAL, Priority.NORMAL]
    for end in (ev.BoostEnded(2.5, "ann"), commanded("BoostAgent", at=2.5, agent="ann", for_s=0.0)):
        ended = told(commanded("BoostAgent", agent="ann", for_s=60.0), end)
        assert only_agent(ended.snapshot(3.0)).boosted_for_s == 0.0


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ((), (), "stopped"),
        ((arrived(1), granted(1)), (), "stopped: 1 in flight cut"),
        ((arrived(1), granted(1), arrived(2), arrived(3)), (), "stopped: 1 in flight cut, 2 waiting refused"),
        (
            (arrived(1), granted(1), arrived(2)),
            (refused(2, at=7.0, reason="agent_stopped"),),
            "stopped: 1 in flight cut, 1 waiting refused",
        ),
        (
            (arrived(1), refused(1, at=6.0, reason="agent_stopped"), arrived(2)),
            (refused(2, at=7.0, reason="agent_stopped"),),
            "stopped: 1 waiting refused",
        ),
    ],
)
def test_a_stop_says_what_it_ended(before: tuple[ev.Event, ...], after: tuple[ev.Event, ...], text: str) -> None:
    """Requests whose end is told at the same moment count, those that an earlier stop ended don't."""
    world = told(*before, *after, commanded("StopAgent", at=7.0, agent="ann", stopped=True))
    assert [line.text for line in world.snapshot(8.0).lines] == [text]


def test_one_that_was_stopped_did_not_leave() -> None:
    """That its connections end is part of the stop, which has its line."""
    stop = commanded("StopAgent", agent="ann", stopped=True)
    world = told(arrived(1), granted(1), arrived(2), granted(2), abandoned(1, at=0.5), stop, abandoned(2, at=1.0))
    assert [line.tag for line in world.snapshot(8.0).lines] == ["left", "you"]
