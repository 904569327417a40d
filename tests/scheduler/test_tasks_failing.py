"""The task graph when things end badly: blocked, skipped, tried again, cancelled, forgotten, taken over."""

from __future__ import annotations

import pytest
from scheduler.test_tasks import eligible, graph, names, run, spec, states

from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.tasks import Tasks
from hivemind.scheduler.types import Priority


def notes(tasks: Tasks) -> dict[str, str]:
    return {name: task.note for name, task in tasks.items() if task.note}


# --- Failure ----------------------------------------------------------------------------------------------------------


def test_a_failed_task_blocks_all_that_wait_for_it() -> None:
    """Directly or not, and each says which failed; others go on."""
    tasks = graph(spec("a"), spec("b", "a"), spec("c", "b"), spec("x"), spec("y", "x", "c"))
    moved = run(tasks, "a", ok=False)
    assert names(moved) == ["a", "b", "c", "y"]
    assert states(tasks) == {"a": "failed", "b": "blocked", "c": "blocked", "x": "ready", "y": "blocked"}
    assert notes(tasks) == {"a": "exit code 1", "b": "a failed", "c": "a failed", "y": "a failed"}
    with pytest.raises(Rejected, match=r"task b is blocked \(a failed\), so it can't be started"):
        tasks.claim("b", "r")
    run(tasks, "x")
    assert tasks["y"].state == "blocked"


def test_by_choice_they_are_skipped() -> None:
    """What waits for one that was skipped goes by its own choice; after a blocked one it may yet have its turn."""
    tasks = graph(
        spec("a"),
        spec("s", "a", on_failure="skip"),
        spec("t", "s", on_failure="skip"),
        spec("u", "s"),
        spec("b", "a"),
        spec("v", "b", on_failure="skip"),
    )
    run(tasks, "a", ok=False)
    assert states(tasks) == {
        "a": "failed", "s": "skipped", "t": "skipped", "u": "blocked", "b": "blocked", "v": "blocked"
    }  # fmt: skip
    assert notes(tasks)["u"] == "s was skipped"
    tasks.cancel("b")
    assert (tasks["v"].state, tasks["v"].note) == ("skipped", "b was cancelled")


# --- Once more --------------------------------------------------------------------------------------------------------


def test_a_failed_task_can_be_tried_again_and_frees_what_it_blocked() -> None:
    """As if it had never been started; what another failure blocks stays so, and says which."""
    tasks = graph(spec("a"), spec("x"), spec("b", "a"), spec("c", "b"), spec("d", "a", "x"), spec("e", "d"))
    run(tasks, "a", ok=False)
    run(tasks, "x", ok=False)
    assert names(tasks.retry("a")) == ["a", "b", "d", "c", "e"]
    assert (tasks["a"].state, tasks["a"].attempt, tasks["a"].note) == ("ready", 0, "")
    assert states(tasks) == {
        "a": "ready", "x": "failed", "b": "waiting", "c": "waiting", "d": "blocked", "e": "blocked"
    }  # fmt: skip
    assert notes(tasks) == {"x": "exit code 1", "d": "x failed", "e": "x failed"}
    tasks.retry("x")
    for name in "axbcde":
        run(tasks, name)
    assert set(states(tasks).values()) == {"done"}


def test_around_a_diamond_all_are_freed() -> None:
    """Though one is reached before both of its predecessors are."""
    tasks = graph(spec("a"), spec("b", "a"), spec("c", "a"), spec("d", "b", "c"), spec("e", "b", "d"))
    run(tasks, "a", ok=False)
    tasks.retry("a")
    assert states(tasks) == dict.fromkeys("bcde", "waiting") | {"a": "ready"}


def test_only_what_ended_badly_can_be_tried_again() -> None:
    """A blocked task waits for another one's retry, a skipped one for that of what it was skipped for."""
    tasks = graph(spec("a"), spec("b", "a"), spec("s", "a", on_failure="skip"), spec("t", "s"))
    for name, state in (("a", "ready"), ("b", "waiting for a")):
        with pytest.raises(Rejected, match=f"task {name} is {state}; only one that failed can be tried again"):
            tasks.retry(name)
    run(tasks, "a", ok=False)
    with pytest.raises(Rejected, match=r"task b is blocked \(a failed\); only one that failed"):
        tasks.retry("b")
    with pytest.raises(Rejected, match="task s would be skipped again, because a failed; try that again first"):
        tasks.retry("s")
    assert tasks["s"].state == "skipped"
    tasks.retry("a")
    assert states(tasks) == {"a": "ready", "b": "waiting", "s": "skipped", "t": "blocked"}
    tasks.retry("s")
    assert (tasks["s"].state, tasks["t"].state) == ("waiting", "waiting")


# --- Not wanted -------------------------------------------------------------------------------------------------------


def test_a_cancelled_task_blocks_or_skips_what_waits_for_it() -> None:
    """Wherever it stood, running too; its runner's report comes too late then."""
    tasks = graph(spec("a"), spec("b", "a"), spec("c", "b"), spec("s", "b", on_failure="skip"), spec("r"))
    assert names(tasks.cancel("b")) == ["b", "c", "s"]
    assert states(tasks) == {"a": "ready", "b": "cancelled", "c": "blocked", "s": "skipped", "r": "ready"}
    assert notes(tasks) == {"c": "b was cancelled", "s": "b was cancelled"}
    tasks.claim("r", "r")
    tasks.cancel("r")
    with pytest.raises(Rejected, match="task r is cancelled, not running"):
        tasks.finish("r", ok=True, note="", again=False)
    with pytest.raises(Rejected, match="task r is cancelled already"):
        tasks.cancel("r")
    run(tasks, "a")
    assert tasks["b"].state == "cancelled"
    tasks.retry("b")
    assert (tasks["b"].state, tasks["c"].state) == ("ready", "waiting")


def test_a_cancelled_task_is_why_even_where_another_failure_was_before() -> None:
    """Once that is mended, what stands between says so."""
    tasks = graph(spec("a"), spec("b", "a"), spec("c", "b"))
    run(tasks, "a", ok=False)
    tasks.cancel("b")
    assert notes(tasks)["c"] == "b was cancelled"
    tasks.retry("a")
    assert (tasks["b"].state, tasks["c"].state) == ("cancelled", "blocked")
    tasks.cancel("a")
    tasks.retry("b")
    assert (tasks["b"].state, tasks["c"].note) == ("blocked", "a was cancelled")


def test_a_batch_is_forgotten_as_a_whole_unless_it_is_needed() -> None:
    """Not while one of it runs, nor while one of another batch waits for one of it that isn't done."""
    tasks = graph(spec("n.a", batch="n"), spec("n.b", "n.a", batch="n"), spec("m.c", "n.b", batch="m"))
    tasks.claim("n.a", "r")
    with pytest.raises(Rejected, match=r"task n\.a is running"):
        tasks.forget("n")
    tasks.finish("n.a", ok=True, note="", again=False)
    with pytest.raises(Rejected, match=r"task m\.c of another batch waits for n\.b"):
        tasks.forget("n")
    tasks.cancel("m.c")
    with pytest.raises(Rejected, match=r"task m\.c of another batch waits for n\.b"):
        tasks.forget("n")
    assert len(tasks) == 3
    run(tasks, "n.b")
    assert names(tasks.forget("n")[0]) == ["n.a", "n.b"]
    assert (list(tasks), list(tasks.of_agent("n.a"))) == (["m.c"], [])
    tasks.retry("m.c")
    assert tasks["m.c"].state == "ready"
    assert tasks.submit([spec("n.a", batch="n")])[0].state == "ready"


def test_forgetting_leaves_no_followers_behind() -> None:
    """What they waited for goes on alone."""
    tasks = graph(spec("a"), spec("b", "a", batch="x"))
    tasks.forget("x")
    assert tasks["a"].followers == []
    assert names(run(tasks, "a")) == ["a"]


# --- Taken over -------------------------------------------------------------------------------------------------------


def test_everything_goes_on_after_a_restart() -> None:
    """States, attempts, runners, notes, numbers, links and inherited priorities; forgotten predecessors were done."""
    tasks = graph(
        spec("gone", batch="old"),
        spec("c", "b", "gone", priority=Priority.CRITICAL),
        spec("b", "a"),
        spec("a", priority=Priority.LOW),
        spec("f"),
        spec("g", "f"),
    )
    run(tasks, "gone")
    tasks.forget("old")
    run(tasks, "f", ok=False)
    tasks.claim("a", "runner-1")
    after = Tasks()
    after.take_over([task.saved() for task in sorted(tasks.values(), key=str)])
    assert {name: vars_of(after, name) for name in tasks} == {name: vars_of(tasks, name) for name in tasks}
    assert list(after) == list(tasks)
    after.finish("a", ok=True, note="", again=False)
    run(after, "b")
    assert names(eligible(after)) == ["c"]
    assert after.submit([spec("new")])[0].number == 7
    assert names(after.retry("f")) == ["f", "g"]


def vars_of(tasks: Tasks, name: str) -> tuple[object, ...]:
    task = tasks[name]
    followers = sorted(follower.spec.id for follower in task.followers)
    return task.spec, task.state, task.priority, task.attempt, task.runner, task.note, task.missing, followers
