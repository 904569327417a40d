"""Sub-agents within an agent's process are a part of it; children with a process of their own are not."""

from __future__ import annotations

from scheduler.driving import Hands, lane_config

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority, TaskSpec, Usage


def family(max_agents: int = 0) -> tuple[Hands, Ticket, Ticket, Ticket]:
    """Alice, a sub-agent of hers, and one that this one started, each with a request."""
    hands = Hands(lane_config(slots=9), config=SchedulerConfig(max_agents=max_agents))
    alice = hands.arrive("alice")
    sub = hands.arrive("alice/sub", parent="alice")
    deeper = hands.arrive("alice/deeper", parent="alice/sub")
    return hands, alice, sub, deeper


def counts(ticket: Ticket) -> Priority:
    return ticket.priority


def test_only_those_within_the_name_are_parts() -> None:
    """The name says which process it is in; what started it is known separately."""
    hands, alice, sub, deeper = family()
    bob = hands.arrive("bob", parent="alice")
    assert (sub.agent.lead, sub.agent.parent) == (alice.agent, alice.agent)
    assert (deeper.agent.lead, deeper.agent.parent) == (alice.agent, sub.agent)
    assert (bob.agent.lead, bob.agent.parent) == (None, alice.agent)


def test_a_part_is_one_whoever_becomes_known_first() -> None:
    """Its parent may tell only later who started that one, as after a restart, which reads the oldest first."""
    hands = Hands(lane_config(slots=9))
    hands.apply(cmd.BeginAgent("alice/sub", "bob"))
    hands.arrive("bob", parent="alice")
    sub = hands.arrive("alice/sub", parent="bob")
    assert sub.agent.lead is hands.scheduler.agents["alice"]
    hands.succeed(sub, Usage(100, 0, 0, 0))
    assert hands.scheduler.agents["alice"].own.ever.tokens == 100
    hands.apply(cmd.PauseAgent("alice", True))
    assert hands.arrive("alice/sub", parent="bob").state is TicketState.QUEUED


def test_parts_count_as_the_agents_own() -> None:
    """A budget of the agent holds for them; one of a part holds for that part alone."""
    hands = Hands(lane_config(slots=9))
    hands.apply(cmd.SetBudget("alice", 100))
    hands.succeed(hands.arrive("alice/sub", parent="alice"), Usage(100, 0, 0, 0))
    hands.succeed(hands.arrive("bob", parent="alice"), Usage(900, 0, 0, 0))
    for name in ("alice", "alice/sub", "alice/other"):
        refusal = hands.arrive(name, parent="alice" if "/" in name else None).refusal
        assert refusal is not None
        assert refusal.budget is not None
        assert (refusal.budget.owner, refusal.budget.used_tokens) == ("alice", 100)
    assert hands.arrive("bob").state is TicketState.IN_FLIGHT
    hands.apply(cmd.SetBudget("alice", 1000))
    hands.apply(cmd.SetBudget("alice/sub", 50))
    assert hands.arrive("alice/sub").refusal is not None
    assert hands.arrive("alice").refusal is None


def test_a_process_that_is_adopted_brings_its_parts() -> None:
    """What they used is charged above once."""
    hands = Hands(lane_config(slots=9))
    hands.succeed(hands.arrive("alice"), Usage(10, 0, 0, 0))
    hands.succeed(hands.arrive("alice/sub", parent="alice"), Usage(5, 0, 0, 0))
    hands.apply(cmd.BeginAgent("alice", parent="root"))
    agents = hands.scheduler.agents
    assert (agents["root"].tree.ever.tokens, agents["root"].own.ever.tokens) == (15, 0)
    assert (agents["alice"].own.ever.tokens, agents["alice/sub"].own.ever.tokens) == (15, 5)
    assert hands.scheduler.pool.ever.tokens == 15


def test_a_pause_holds_the_parts_too() -> None:
    """And resuming lets all of them go."""
    hands = Hands(lane_config(slots=1))
    busy, sub = hands.arrive("busy"), hands.arrive("alice/sub", parent="alice")
    hands.apply(cmd.PauseAgent("alice", True))
    hands.succeed(busy)
    assert sub.in_queue
    hands.apply(cmd.PauseAgent("alice", False))
    assert sub.state is TicketState.IN_FLIGHT


def test_a_stop_cuts_the_parts_too() -> None:
    """What they have in flight ends, what comes is refused, until they may ask again; a child goes on."""
    hands, alice, sub, deeper = family()
    bob = hands.arrive("bob", parent="alice")
    hands.apply(cmd.StopAgent("alice", True))
    assert {*hands.ending} == {alice, sub, deeper}
    refusal = hands.arrive("alice/late", parent="alice").refusal
    assert refusal is not None
    assert refusal.reason == "agent_stopped"
    assert bob.refusal is None
    hands.apply(cmd.StopAgent("alice", False))
    assert hands.arrive("alice/late").refusal is None


def test_priority_is_the_parts_too() -> None:
    """The operator's, a boost and a task's; what is decided about the part itself goes first."""
    hands = Hands(lane_config(slots=1))
    hands.arrive("busy")
    hands.apply(cmd.SubmitTasks((TaskSpec("alice", Priority.HIGH),)))
    hands.apply(cmd.BeginAgent("alice"))
    sub = hands.arrive("alice/sub", parent="alice", priority=Priority.LOW)
    assert counts(sub) == Priority.HIGH
    hands.apply(cmd.SetPriority("alice", Priority.LOW))
    assert counts(sub) == Priority.LOW
    hands.apply(cmd.BoostAgent("alice", 10.0))
    assert counts(sub) == Priority.CRITICAL
    hands.wait(11.0)
    assert counts(sub) == Priority.LOW
    hands.apply(cmd.SetPriority("alice/sub", Priority.NORMAL))
    assert counts(sub) == Priority.NORMAL


def test_requests_of_parts_wait_with_the_task() -> None:
    """They are held while it waits for others, and start it when they ask first."""
    hands = Hands(lane_config(slots=9))
    hands.apply(cmd.SubmitTasks((TaskSpec("first"), TaskSpec("alice", after=("first",)))))
    sub = hands.arrive("alice/sub", parent="alice")
    assert sub.in_queue
    assert [hold.gate for hold in lane_state(hands.lane, hands.now, paused=False).upcoming] == ["dependency"]
    hands.arrive("first/sub", parent="first")
    assert hands.scheduler.tasks["first"].state == "running"


def test_parts_need_no_place_of_their_own() -> None:
    """The limit of live agents counts processes."""
    hands, _, sub, deeper = family(max_agents=1)
    assert (sub.refusal, deeper.refusal, hands.arrive("alice/2", parent="alice").refusal) == (None, None, None)
    assert hands.arrive("other").refusal is not None
    assert hands.arrive("alike/sub", parent="other").refusal is not None


def test_a_sub_agent_may_be_seen_before_those_above_it() -> None:
    """What started it is taken to be in the same process."""
    hands = Hands(lane_config(slots=9))
    hands.succeed(hands.arrive("alice/deeper", parent="alice/sub"), Usage(7, 0, 0, 0))
    agents = hands.scheduler.agents
    assert agents["alice/sub"].parent is agents["alice/deeper"].lead is agents["alice"]
    assert [agents[name].own.ever.tokens for name in ("alice", "alice/sub", "alice/deeper")] == [7, 0, 7]
    assert agents["alice/sub"].tree.ever.tokens == 7


def test_a_task_found_again_holds_for_requests_that_parts_have_waiting() -> None:
    """After a restart an agent is known by its parts before it sends a request itself, and its task with it."""
    hands = Hands(lane_config(slots=1))
    hands.arrive("alice")
    hands.apply(cmd.SubmitTasks((TaskSpec("lint", Priority.CRITICAL, agent="alice"),)))
    sub = hands.arrive("alice/sub", parent="alice")
    agents = hands.scheduler.agents
    alice = agents.past["alice"] = agents.pop("alice")  # as a restart finds it
    alice.task_priority = None
    hands.scheduler.reclass(sub.agent, hands.now)
    assert counts(sub) is Priority.NORMAL
    hands.scheduler.meet("alice", hands.now)
    assert counts(sub) is Priority.CRITICAL


def test_an_agent_that_is_started_anew_is_charged_to_its_new_parent() -> None:
    """What it used before stays where it was, so no budget has more left than before; the new parent's holds for it."""
    hands = Hands(lane_config(slots=9))
    agents = hands.scheduler.agents
    for parent in ("one", "two"):
        hands.apply(cmd.BeginAgent(parent, "root"))
        hands.apply(cmd.SetBudget(parent, 100, covers="subtree"))
    hands.apply(cmd.BeginAgent("helper", "one"))
    hands.succeed(hands.arrive("helper/sub", parent="helper"), Usage(60, 0, 0, 0))
    in_flight = hands.arrive("helper")
    hands.apply(cmd.BeginAgent("helper", "two"))
    assert agents["helper"].parent is agents["one"], "it has a request"
    hands.succeed(in_flight, Usage(10, 0, 0, 0))
    hands.apply(cmd.BeginAgent("helper", "two", resumed=True))
    assert agents["helper"].parent is agents["one"], "it goes on"
    hands.apply(cmd.BeginAgent("helper", "two"))
    assert agents["helper"].parent is agents["two"]
    hands.succeed(hands.arrive("helper"), Usage(30, 0, 0, 0))
    hands.succeed(hands.arrive("helper/sub", parent="helper"), Usage(70, 0, 0, 0))
    used = {name: agents[name].tree.ever.tokens for name in ("one", "two", "root", "helper")}
    assert used == {"one": 70, "two": 100, "root": 170, "helper": 170}
    assert hands.scheduler.pool.ever.tokens == 170
    assert hands.arrive("helper").refusal is not None
    assert hands.arrive("one").refusal is None
    hands.apply(cmd.BeginAgent("two", "helper"))
    assert agents["two"].parent is agents["root"], "no agent is its own ancestor"


def test_a_part_asks_for_no_more_than_its_agent() -> None:
    """By asking it gets normal or what its agent has asked for, however deep it is; what was decided isn't bound by
    that."""
    hands = Hands(lane_config(slots=99))

    def asks(name: str, priority: Priority | None) -> Priority:
        return hands.arrive(name, parent=name.rpartition("/")[0] or None, priority=priority).priority

    assert asks("crew/writer", Priority.HIGH) is Priority.NORMAL
    assert asks("crew/writer", Priority.LOW) is Priority.LOW
    assert asks("crew", Priority.LOW) is Priority.LOW
    assert asks("crew", Priority.HIGH) is Priority.HIGH
    assert asks("crew/writer", Priority.CRITICAL) is Priority.HIGH
    assert asks("crew/writer", None) is Priority.NORMAL
    assert asks("crew/writer/helper", Priority.CRITICAL) is Priority.HIGH
    assert asks("solo", Priority.CRITICAL) is Priority.CRITICAL
    hands.apply(cmd.SetPriority("crew/writer", Priority.CRITICAL))
    assert asks("crew/writer", Priority.LOW) is Priority.CRITICAL
    hands.apply(cmd.SetPriority("crew", Priority.LOW))
    assert asks("crew/critic", Priority.HIGH) is Priority.LOW
    hands.apply(cmd.SubmitTasks((TaskSpec("t", agent="other/part", priority=Priority.HIGH),)))
    assert asks("other/part", None) is Priority.HIGH


def test_what_waits_gets_what_its_agent_asks_for_later() -> None:
    """It goes before others of its class as soon as its agent has asked for a more urgent one."""
    hands = Hands(lane_config(slots=1))
    holder, other = hands.arrive("solo"), hands.arrive("solo")
    part = hands.arrive("crew/writer", parent="crew", priority=Priority.HIGH)
    had = part.priority
    hands.arrive("crew", priority=Priority.HIGH)
    assert (had, part.priority, other.priority) == (Priority.NORMAL, Priority.HIGH, Priority.NORMAL)
    assert holder.state is TicketState.IN_FLIGHT
