"""What a task means for its agent: its requests wait, go, are refused, and count as it does."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, failure, lane_config

from hivemind.proxy.client_side import text_of
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.events import Commanded, TaskAdded, TaskChanged, TaskForgotten
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Refusal, Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Priority, TaskSpec


def spec(name: str, *after: str, **about: object) -> TaskSpec:
    return TaskSpec(name, after=after, **about)  # type: ignore[arg-type]


def hands_on(*specs: TaskSpec, slots: int = 9) -> Hands:
    hands = Hands(lane_config(slots=slots))
    hands.apply(cmd.SubmitTasks(specs))
    return hands


def state(hands: Hands, task: str) -> str:
    return hands.scheduler.tasks[task].state


def gates(hands: Hands) -> list[str]:
    return [hold.gate for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]


def end(hands: Hands, task: str, *, ok: bool = True) -> None:
    """It runs, if it doesn't yet, and ends."""
    if state(hands, task) == "ready":
        hands.apply(cmd.ClaimTask(task, "r"))
    hands.apply(cmd.FinishTask(task, ok, "" if ok else "exit code 1"))


def said(ticket: Ticket) -> str:
    assert ticket.refusal is not None
    assert (ticket.refusal.reason, ticket.refusal.status, ticket.refusal.retry_after_s) == ("task_blocked", 400, None)
    return text_of(ticket.refusal)


# --- Waiting and going ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known_before", [True, False])
def test_requests_of_a_task_that_is_not_eligible_are_held(known_before: bool) -> None:
    """Until its predecessors are done; then they go at once, others weren't kept by them, and no slot was taken."""
    hands = Hands(lane_config(slots=2))
    if known_before:
        hands.leave(hands.arrive("b"))
    hands.apply(cmd.SubmitTasks((spec("a"), spec("b", "a"))))
    held = [hands.arrive("b") for _ in range(2)]
    assert {ticket.state for ticket in held} == {TicketState.QUEUED}
    assert gates(hands) == ["dependency", "dependency"]
    assert hands.lane.gate.active == 0
    other = hands.arrive("x")
    assert other.state is TicketState.IN_FLIGHT
    hands.leave(other)
    hands.granted.clear()
    end(hands, "a")
    assert hands.granted == held


def test_requests_that_wait_already_are_held_when_the_task_comes() -> None:
    """Requests in flight go on."""
    hands = Hands(lane_config(slots=1))
    in_flight, waiting = hands.arrive("b"), hands.arrive("b")
    hands.apply(cmd.SubmitTasks((spec("a"), spec("b", "a"))))
    hands.succeed(in_flight)
    assert (waiting.state, gates(hands)) == (TicketState.QUEUED, ["dependency"])


def test_an_agent_of_another_name_may_work_on_it() -> None:
    """And one without tasks isn't concerned."""
    hands = hands_on(spec("a"), spec("b", "a", agent="bob"))
    assert hands.arrive("bob").waiting
    assert not hands.arrive("b").waiting


def test_a_request_that_was_held_starts_its_task_when_it_may() -> None:
    """It asked before it might, and needn't ask again."""
    hands = hands_on(spec("a"), spec("b", "a"))
    ticket = hands.arrive("b")
    end(hands, "a")
    assert (ticket.state, state(hands, "b")) == (TicketState.IN_FLIGHT, "running")
    runs = [event for event in hands.seen(TaskChanged) if (event.task, event.state) == ("b", "running")]
    assert len(runs) == 1


def test_a_task_with_a_command_is_left_to_its_runner() -> None:
    """Requests of another agent don't start it."""
    hands = hands_on(spec("a"), spec("b", "a", command=("true",)))
    ticket = hands.arrive("b")
    end(hands, "a")
    assert (ticket.state, state(hands, "b")) == (TicketState.IN_FLIGHT, "ready")


def test_an_agent_with_one_task_that_may_start_is_not_held_by_another() -> None:
    """It may have several; it is held while all that aren't over wait."""
    hands = hands_on(spec("first", agent="bob"), spec("second", "first", agent="bob"), spec("third", "second"))
    assert hands.arrive("bob").state is TicketState.IN_FLIGHT
    end(hands, "first")
    hands.apply(cmd.CancelTask("second"))
    assert hands.arrive("bob").state is TicketState.IN_FLIGHT


def test_a_paused_agent_stays_so_when_its_task_may_start() -> None:
    """Each reason holds by itself, and the operator's is shown first."""
    hands = hands_on(spec("a"), spec("b", "a"))
    ticket = hands.arrive("b")
    hands.apply(cmd.PauseAgent("b", True))
    assert gates(hands) == ["held"]
    end(hands, "a")
    assert ticket.waiting
    hands.apply(cmd.PauseAgent("b", False))
    assert hands.granted == [ticket]


def test_between_two_attempts_it_is_held_as_well() -> None:
    """The retry comes due and waits on."""
    hands = Hands(lane_config())
    ticket = hands.arrive("b")
    hands.lane.retries.failure_share = 1.0
    hands.fail(ticket, failure(FailureKind.SERVER_ERROR))
    hands.apply(cmd.SubmitTasks((spec("a"), spec("b", "a"))))
    assert gates(hands) == ["dependency"]
    hands.wait(60.0)
    assert gates(hands) == ["dependency"]
    end(hands, "a")
    assert hands.granted == [ticket]


# --- Starting by asking -----------------------------------------------------------------------------------------------


def test_an_agent_that_asks_starts_its_own_task() -> None:
    """The best of those that may start, one at a time; a request that is held does so when it may."""
    hands = hands_on(spec("large", agent="bob"), spec("small", agent="bob", estimated_tokens=5), spec("z", "small"))
    hands.arrive("bob")
    hands.arrive("bob")
    hands.arrive("z")
    assert [(each.task, each.state, each.attempt) for each in hands.seen(TaskChanged)[3:]] == [("small", "running", 1)]
    end(hands, "small")
    assert (state(hands, "z"), state(hands, "large")) == ("running", "ready")
    hands.arrive("bob")
    assert state(hands, "large") == "running"


def test_who_is_turned_away_starts_nothing() -> None:
    """Its task is there for when it may ask again."""
    hands = hands_on(spec("a"))
    hands.scheduler.meet("a", 0.0)
    hands.apply(cmd.StopAgent("a", True))
    assert hands.arrive("a").refusal is not None
    assert state(hands, "a") == "ready"


# --- Blocked ----------------------------------------------------------------------------------------------------------


def test_requests_of_a_blocked_task_are_refused() -> None:
    """Those that wait and those that come, for good; after the retry they wait again, and go when it is done."""
    hands = hands_on(spec("a"), spec("b", "a"), spec("c", "b"))
    waiting = hands.arrive("c")
    end(hands, "a", ok=False)
    expected = "task c can't start, because a failed; it may ask once that is mended"
    assert said(waiting) == said(hands.arrive("c")) == expected
    assert said(hands.arrive("b")) == expected.replace("task c", "task b")
    assert hands.lane.queue.waiting == 0
    hands.apply(cmd.RetryTask("a"))
    again = hands.arrive("b")
    assert again.waiting
    end(hands, "a")
    assert again.state is TicketState.IN_FLIGHT


def test_requests_of_a_skipped_task_are_refused() -> None:
    """Unless the agent has something else to do."""
    hands = hands_on(spec("a"), spec("s", "a", agent="bob", on_failure="skip"))
    waiting = hands.arrive("bob")
    end(hands, "a", ok=False)
    assert (
        said(waiting)
        == said(hands.arrive("bob"))
        == "task s was skipped, because a failed; it may ask once that is mended"
    )
    hands.apply(cmd.SubmitTasks((spec("else", agent="bob"),)))
    assert hands.arrive("bob").state is TicketState.IN_FLIGHT
    end(hands, "else")
    assert hands.arrive("bob").state is TicketState.IN_FLIGHT


@pytest.mark.parametrize("how", [cmd.CancelTask("b"), cmd.ForgetTasks("night")])
def test_what_waited_for_a_task_that_is_not_wanted_is_refused(how: cmd.CancelTask | cmd.ForgetTasks) -> None:
    """Once: who asks on its own account later has no task to wait for."""
    hands = hands_on(spec("a"), spec("b", "a", batch="night"))
    waiting = hands.arrive("b")
    hands.apply(how)
    assert said(waiting) == "task b was to wait, and isn't wanted any more"
    assert hands.arrive("b").state is TicketState.IN_FLIGHT


def test_a_task_that_is_cancelled_while_it_runs_refuses_nothing() -> None:
    """Its runner ends the process; the agent's name isn't barred."""
    hands = hands_on(spec("a"), slots=1)
    hands.arrive("a")
    waiting = hands.arrive("a")
    hands.apply(cmd.CancelTask("a"))
    assert (waiting.refusal, waiting.waiting) == (None, True)


# --- Urgency ----------------------------------------------------------------------------------------------------------


def test_an_agent_counts_as_its_task_does() -> None:
    """Before what its requests ask for, also where the urgency is inherited or changed while they wait."""
    hands = hands_on(spec("a", priority=Priority.LOW), slots=1)
    hands.arrive("x")
    ticket = hands.arrive("a", priority=Priority.HIGH)
    counted = [ticket.priority]
    for command in (
        cmd.SubmitTasks((spec("b", "a", priority=Priority.NORMAL),)),
        cmd.SetTaskPriority("b", Priority.CRITICAL),
        cmd.CancelTask("b"),
        cmd.FinishTask("a", True),
    ):
        hands.apply(command)
        counted.append(ticket.priority)
    assert counted == [Priority.LOW, Priority.NORMAL, Priority.CRITICAL, Priority.LOW, Priority.HIGH]


def test_the_operators_word_goes_before_the_tasks() -> None:
    """For as long as it stands."""
    hands = hands_on(spec("a", priority=Priority.LOW), slots=1)
    hands.arrive("x")
    ticket = hands.arrive("a")
    hands.apply(cmd.SetPriority("a", Priority.NORMAL))
    hands.apply(cmd.SetTaskPriority("a", Priority.CRITICAL))
    assert ticket.priority is Priority.NORMAL


def test_what_runs_says_how_urgent_the_agent_is() -> None:
    """Not what it may do later; and the request that starts a task counts as that one."""
    hands = hands_on(
        spec("now", agent="bob", priority=Priority.LOW),
        spec("later", agent="bob", priority=Priority.CRITICAL, command=("true",)),
        slots=1,
    )
    hands.arrive("x")
    first, second = hands.arrive("bob"), hands.arrive("bob")
    assert (first.priority, second.priority) == (Priority.LOW, Priority.LOW)
    assert hands.lane.queue.waiting == 2
    end(hands, "now")
    assert first.priority is Priority.CRITICAL


# --- What is reported and kept ----------------------------------------------------------------------------------------


def test_every_move_is_reported_after_the_command() -> None:
    """By an event a task, and the command's own says whose tasks came rather than their commands."""
    hands = hands_on(spec("a", batch="n", command=("sh", "secret")), spec("b", "a", batch="n", priority=Priority.HIGH))
    told = [type(event) for event in hands.log[1:]]
    assert told == [Commanded, TaskAdded, TaskAdded, TaskChanged, TaskChanged]
    assert hands.seen(Commanded)[0].arguments == {"tasks": ["a", "b"]}
    assert hands.seen(TaskAdded)[0] == TaskAdded(0.0, "a", "n", "a", Priority.NORMAL, 0, ())
    assert hands.seen(TaskChanged)[0] == TaskChanged(0.0, "a", "ready", Priority.HIGH, 0, "")
    end(hands, "a", ok=False)
    assert [(each.task, each.state) for each in hands.seen(TaskChanged)[2:]] == [
        ("a", "running"), ("a", "failed"), ("b", "blocked")
    ]  # fmt: skip
    hands.apply(cmd.ForgetTasks("n"))
    assert [event.task for event in hands.seen(TaskForgotten)] == ["a", "b"]
    assert hands.scheduler.take_unsaved().tasks == {"a": None, "b": None}


def test_after_a_restart_tasks_mean_the_same_for_their_agents() -> None:
    """What waits is held, what is blocked is refused, and the tasks are reported again."""
    hands = hands_on(spec("a"), spec("b", "a"), spec("f"), spec("g", "f"), spec("n", priority=Priority.LOW))
    end(hands, "f", ok=False)
    kept = hands.scheduler.take_unsaved()
    after = Hands(lane_config(slots=9))
    after.scheduler.restore(kept.agents.values(), filter(None, kept.tasks.values()), {}, 0.0, new_run=False)
    after.gather()
    assert [event.task for event in after.seen(TaskAdded)] == ["a", "b", "f", "g", "n"]
    assert [event.state for event in after.seen(TaskChanged)] == ["ready", "waiting", "failed", "blocked", "ready"]
    assert not after.scheduler.take_unsaved().tasks
    assert after.arrive("b").waiting
    assert gates(after) == ["dependency"]
    assert isinstance(after.arrive("g").refusal, Refusal)
    assert after.arrive("n").priority is Priority.LOW


def test_a_paused_task_may_start_once_its_window_is_whole() -> None:
    """And with it those that use the same plan, also after a restart; by hand before."""
    hands = hands_on(*(spec(name, command=("x",)) for name in "abcd"), spec("e", "a", command=("x",)))
    hands.apply(cmd.ClaimTask("a", "r"))
    hands.apply(cmd.FinishTask("a", False, "used up", again=True, paused_s=100.0, others=("b", "c", "e", "none")))
    assert [state(hands, name) for name in "abcde"] == ["paused", "paused", "paused", "ready", "waiting"]
    assert [event.paused_s for event in hands.seen(TaskChanged)[-3:]] == [100.0] * 3
    hands.apply(cmd.RetryTask("c"))
    hands.wait(40.0)
    kept, after = hands.scheduler.take_unsaved(), Hands(lane_config(slots=9))
    after.scheduler.restore((), filter(None, kept.tasks.values()), {}, hands.now, new_run=False)
    for each in (hands, after):
        assert [state(each, name) for name in "abc"] == ["paused", "paused", "ready"]
        each.until(100.0)
        assert [state(each, name) for name in "ab"] == ["ready", "ready"]


def test_a_span_counts_from_when_a_task_is_first_eligible() -> None:
    """Whatever is tried again, and after a restart; a changed deadline counts from then, too."""
    hands = hands_on(spec("a", command=("x",)), spec("b", "a", command=("x",), deadline_s=50.0))
    hands.scheduler.tasks.epoch = 1000.0
    hands.wait(10.0)
    assert hands.scheduler.tasks["b"].spec.deadline == 0
    end(hands, "a")
    hands.wait(10.0)
    hands.apply(cmd.ClaimTask("b", "r"))
    hands.apply(cmd.FinishTask("b", False, "exit code 1", again=True))
    kept, after = hands.scheduler.take_unsaved(), Hands(lane_config(slots=9))
    after.scheduler.restore((), filter(None, kept.tasks.values()), {}, hands.now, new_run=False)
    after.scheduler.tasks.epoch = 1000.0
    for each in (hands, after):
        found = [each.scheduler.tasks["b"].spec.deadline]
        for deadline, deadline_s in ((None, 0.0), (0.0, 70.0), (5000.0, 0.0), (0.0, 0.0)):
            each.apply(cmd.SetTaskPriority("b", Priority.HIGH, deadline, deadline_s))
            found.append(each.scheduler.tasks["b"].spec.deadline)
        assert found == [1060.0, 1060.0, 1080.0, 5000.0, 0.0]
