"""An agent, and what the operator decided about it."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict
from world.kit import (
    USED,
    abandoned,
    arrived,
    commanded,
    failed,
    finished,
    granted,
    only_agent,
    only_ticket,
    refused,
    told,
)

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority
from hivemind.world.agents import ACTIVITY_STEPS, ENDS_AFTER_S, UNNAMED_ENDS_AFTER_S, AgentFold
from hivemind.world.health import STEP_S
from hivemind.world.snapshot import AgentState, AgentView
from hivemind.world.world import World


def test_an_agent_shows_its_liveliest_ticket_and_what_is_known_of_it() -> None:
    """Client and parent from the requests, the last error, and how long it waited in all."""
    world = told(arrived(1, client="claude-code", parent="lead"), granted(1, at=3.0), arrived(2, at=5.0))
    agent = only_agent(world.snapshot(5.0))
    assert (agent.state, agent.client, agent.parent) == ("waiting", "claude-code", "lead")
    assert (agent.requests, agent.in_flight, agent.queued, agent.waited_s, agent.last_seen_s) == (2, 1, 1, 1.0, 0.0)
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
        (commanded("PauseAgent", agent="ann", paused=True), "held"),
        (commanded("StopAgent", agent="ann", stopped=True), "stopped"),
    ],
    ids=["pause", "stop"],
)
def test_an_agent_that_is_held_says_so(command: ev.Commanded, held: str) -> None:
    """Also while it has nothing to wait for; what it has in flight is shown before that."""
    assert only_agent(told(command).snapshot(2.0)).state == held
    assert only_agent(told(arrived(), command).snapshot(2.0)).state == held
    assert only_agent(told(arrived(), granted(), command).snapshot(2.0)).state == "waiting"


def ended(code: int | None, at: float = 6.0, *, asked: bool = False) -> ev.AgentEnded:
    """Ann's process has ended."""
    return ev.AgentEnded(at, "ann", code, asked)


BEGAN = ev.AgentBegan(0.0, "ann", None, None, False)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (ended(0), "ended"),
        (ended(3), "died"),
        (ended(-9), "died"),
        (ended(130, asked=True), "ended"),
        (ended(-15, asked=True), "ended"),
        (ended(None), "ended"),
    ],
)
def test_an_agent_whose_process_crashed_has_died(end: ev.AgentEnded, state: str) -> None:
    """Unless an operator ended it, or its runner is gone, so that nobody knows how it ended."""
    world = told(BEGAN, arrived(), granted(), finished(), end)
    assert only_agent(world.snapshot(7.0)).state == state
    again = told(BEGAN, end, ev.AgentBegan(7.0, "ann", None, None, True))
    assert only_agent(again.snapshot(7.0)).state == "idle"


def test_an_agent_that_was_stopped_has_not_died() -> None:
    """Its client ends with an error because its requests are refused."""
    stop = commanded("StopAgent", agent="ann", stopped=True)
    world = told(BEGAN, arrived(), stop, refused(reason="agent_stopped"), ended(1))
    assert only_agent(world.snapshot(7.0)).state == "stopped"


def test_an_agent_that_was_refused_says_so_until_its_next_request() -> None:
    """Though not while it has an open one, nor once its process has ended."""
    world = told(BEGAN, arrived(1), arrived(2), refused(1))
    assert only_agent(world.snapshot(6.0)).state == "queued"
    world.apply(abandoned(2, in_flight=False))
    assert only_agent(world.snapshot(6.0)).state == "refused"
    other = told()
    other.restore(world.keep(6.0))
    assert only_agent(other.snapshot(6.0)).state == "refused"
    for event in (arrived(3, at=7.0), granted(3, at=8.0), finished(3, at=9.0)):
        world.apply(event)
    assert only_agent(world.snapshot(9.0)).state == "idle"
    other.apply(ended(0))
    assert only_agent(other.snapshot(9.0)).state == "ended"


def test_the_longest_current_wait_includes_pauses_between_attempts() -> None:
    """From the arrival, or from the end of the last attempt; what is in flight doesn't wait."""
    world = told(arrived(1, at=0.0), arrived(2, at=3.0))
    assert only_agent(world.snapshot(4.0)).waiting_s == 4.0
    world.apply(granted(1, at=5.0))
    assert only_agent(world.snapshot(6.0)).waiting_s == 3.0
    assert only_agent(world.snapshot(6.0)).sent_s == 1.0
    world.apply(abandoned(2, at=6.0, in_flight=False))
    assert only_agent(world.snapshot(6.0)).waiting_s == 0.0
    world.apply(failed(2.0, at=7.0))
    assert only_agent(world.snapshot(8.0)).waiting_s == 1.0
    assert only_agent(world.snapshot(12.0)).waiting_s == 5.0
    world.apply(granted(1, at=13.0, attempt=2))
    assert only_agent(world.snapshot(14.0)).waiting_s == 0.0


def test_activity_shows_the_tokens_of_the_last_steps() -> None:
    """The present step last; what is long ago is forgotten, and so is an agent that rests."""
    world = told(arrived(1), granted(1), finished(1, at=1.0), arrived(2), granted(2), finished(2, at=4.0))
    used = USED.total
    assert only_agent(world.snapshot(4.9)).activity == (2 * used,)
    assert only_agent(world.snapshot(5.0)).activity == (2 * used, 0)
    for event in (arrived(3, at=15.0), granted(3, at=15.0), finished(3, at=16.0)):
        world.apply(event)
    assert only_agent(world.snapshot(16.0)).activity == (2 * used, 0, 0, used)
    for event in (arrived(4, at=16.5), granted(4, at=16.5), finished(4, at=17.0)):
        world.apply(event)
    assert only_agent(world.snapshot(17.0)).activity == (2 * used, 0, 0, 2 * used)  # what was shown isn't kept
    other = told()
    other.restore(world.keep(17.0))
    rest_s = ACTIVITY_STEPS * STEP_S
    for at in (17.0, 30.0, rest_s, 14.9 + rest_s, 15.0 + rest_s):
        assert only_agent(other.snapshot(at)).activity == only_agent(world.snapshot(at)).activity
    assert only_agent(world.snapshot(rest_s - 0.1)).activity == (2 * used, 0, 0, 2 * used, *(0,) * (ACTIVITY_STEPS - 4))
    assert only_agent(world.snapshot(rest_s)).activity == (0, 0, 2 * used, *(0,) * (ACTIVITY_STEPS - 3))
    assert only_agent(world.snapshot(14.9 + rest_s)).activity == (2 * used, *(0,) * (ACTIVITY_STEPS - 1))
    assert only_agent(world.snapshot(15.0 + rest_s)).activity == ()


def test_what_was_held_goes_on() -> None:
    """A pause and a stop can be taken back."""
    pauses = [commanded("PauseAgent", agent="ann", paused=paused) for paused in (True, False)]
    stops = [commanded("StopAgent", agent="ann", stopped=stopped) for stopped in (True, False)]
    agent = only_agent(told(*pauses, *stops).snapshot(2.0))
    assert (agent.state, agent.held, agent.stopped) == ("idle", False, False)


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


# --- Those that have ended --------------------------------------------------------------------------------------------


def answered(
    ticket: int, agent: str, at: float = 0.0, client: str = "", parent: str = "", *, made_up: bool = False
) -> list[ev.Event]:
    """A request, from its arrival to its end."""
    come = arrived(ticket, agent, at, client=client, made_up=made_up, **({"parent": parent} if parent else {}))
    return [come, granted(ticket, agent, at), finished(ticket, agent, at)]


def states(world: World, at: float) -> dict[str, str]:
    """The state of each agent."""
    return {agent.name: agent.state for agent in world.snapshot(at).agents}


@pytest.mark.parametrize(
    ("name", "made_up", "parent", "lasts_s"),
    [
        ("ann", False, "", ENDS_AFTER_S),
        ("codex-0a1b2c3d", False, "", ENDS_AFTER_S),
        ("team/ann", False, "lead", ENDS_AFTER_S),
        ("codex-0a1b2c3d", True, "", UNNAMED_ENDS_AFTER_S),
        ("session-7", True, "", UNNAMED_ENDS_AFTER_S),
        ("gone/0a1b2c3d", False, "gone", UNNAMED_ENDS_AFTER_S),
        ("gone/0a1b2c3d", True, "gone/4e5f6a7b", UNNAMED_ENDS_AFTER_S),
    ],
)
def test_silence_ends_an_agent_without_a_process(name: str, made_up: bool, parent: str, lasts_s: float) -> None:
    """One with a name of its own later than others; its next request brings it back, and no exit code is made up."""
    world = told(*answered(1, name, 5.0, "codex", parent, made_up=made_up))
    assert states(world, 4.9 + lasts_s) == {name: "idle"}
    agent = only_agent(world.snapshot(5.0 + lasts_s))
    assert (agent.state, agent.running, agent.exit_code) == ("ended", None, None)
    world.apply(arrived(2, name, 6.0 + lasts_s, made_up=made_up))
    assert states(world, 6.0 + lasts_s) == {name: "queued"}
    world.apply(granted(2, name, 6.0 + lasts_s))
    assert states(world, 7.0 + 3 * lasts_s) == {name: "hung"}
    world.apply(finished(2, name, 7.0 + 3 * lasts_s))
    assert states(world, 8.0 + 3 * lasts_s) == {name: "idle"}


def test_sub_agents_end_with_their_process() -> None:
    """Whichever agent of it started them; an agent with a process of its own, or another's sub-agent, doesn't."""
    world = told(
        ev.AgentBegan(0.0, "ann", None, None, False),
        ev.AgentBegan(0.0, "ben", "ann", None, False),
        *answered(1, "ann/a", parent="ann"),
        *answered(2, "ann/b", parent="ann/a"),
        *answered(3, "ben/a", parent="ben"),
        *answered(4, "carl", parent="ann"),
    )
    idle = dict.fromkeys(("ann", "ben", "ann/a", "ann/b", "ben/a", "carl"), "idle")
    assert states(world, 1.0) == idle
    world.apply(ev.AgentEnded(2.0, "ann", 0))
    assert states(world, 2.0) == idle | dict.fromkeys(("ann", "ann/a", "ann/b"), "ended")
    world.apply(ev.AgentBegan(3.0, "ann", None, None, False))
    assert states(world, 3.0) == idle
    later = states(world, 3.0 + ENDS_AFTER_S)
    assert later == idle | dict.fromkeys(("ann/a", "ann/b", "ben/a", "carl"), "ended")


def test_one_that_waits_for_those_it_started_has_not_ended() -> None:
    """However deep they are, and however long it was silent itself."""
    later = 2 * ENDS_AFTER_S
    world = told(
        *answered(1, "top", parent="mid"),
        *answered(2, "mid", parent="top"),
        *answered(3, "other", parent="top"),
        arrived(4, "leaf", later, parent="mid"),
    )
    assert states(world, later) == {"top": "idle", "mid": "idle", "other": "ended", "leaf": "queued"}


def test_what_was_decided_about_one_is_shown_before_its_end() -> None:
    """A pause and a stop hold for it when it comes back."""
    pause, stop = (commanded("PauseAgent", agent="ann", paused=True), commanded("StopAgent", agent="ben", stopped=True))
    world = told(*answered(1, "ann"), *answered(2, "ben"), pause, stop)
    assert states(world, 2 * ENDS_AFTER_S) == {"ann": "held", "ben": "stopped"}


def test_a_world_that_was_restored_ends_the_same_agents() -> None:
    """As that of a journal's later part is."""
    world = told(ev.AgentBegan(0.0, "ann", None, None, False), *answered(1, "ann/a", parent="ann"), *answered(2, "ben"))
    world.apply(ev.AgentEnded(1.0, "ann", 1))
    other = told()
    other.restore(world.keep(2.0))
    for at in (2.0, 2 * ENDS_AFTER_S):
        assert states(other, at) == states(world, at)


def test_a_view_has_each_value_in_its_place() -> None:
    """Those that it takes over from the fold, under their own names."""
    agent = AgentFold(*AgentState.__struct_fields__)  # type: ignore[arg-type]
    agent.usage, agent.priced, agent.last_seen, agent.boosted_until = USED, 7, 1.0, 9.0
    agent.held = agent.stopped = False
    agent.trouble, agent.task, agent.earlier_tokens, agent.step, agent.step_tokens = "", None, (), 0, 3
    agent.error_at, agent.refused_at, agent.answered_at, agent.warm_until = 1.0, 2.0, 1.5, 9.0
    view = agent.view(4.0, ("build", False, 0.0), over=True)
    shared = set(AgentView.__struct_fields__) & set(AgentState.__struct_fields__)
    own = {"task": "build", "state": "ended", "in_flight": 0, "queued": 0, "last_seen_s": 3.0, "boosted_for_s": 5.0}
    expected = {name: getattr(agent, name) for name in shared} | own
    expected |= {
        "unpriced": USED.total - 7,
        "waiting_s": 0.0,
        "sent_s": 0.0,
        "activity": (3,),
        "machines": (),
        "paced_s": 0.0,
        "paused_s": 0.0,
    }
    expected |= {"error_s": 3.0, "error_over": True, "refused_s": 2.0, "warm_s": 5.0}
    assert asdict(view) == expected
