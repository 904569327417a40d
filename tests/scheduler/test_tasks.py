"""The task graph: what is taken, who may start, in which order, and what an end means for those who wait."""

from __future__ import annotations

import pytest

from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.tasks import MOST, Task, Tasks
from hivemind.scheduler.types import Priority, TaskSpec


def spec(name: str, *after: str, **about: object) -> TaskSpec:
    return TaskSpec(name, after=after, **about)  # type: ignore[arg-type]


def graph(*specs: TaskSpec) -> Tasks:
    tasks = Tasks()
    tasks.submit(specs)
    return tasks


def states(tasks: Tasks) -> dict[str, str]:
    return {name: task.state for name, task in tasks.items()}


def eligible(tasks: Tasks) -> list[Task]:
    """Those that may be started, best first."""
    return sorted((task for task in tasks.values() if task.state == "ready"), key=lambda task: task.rank)


def names(moved: list[Task]) -> list[str]:
    return [task.spec.id for task in moved]


def run(tasks: Tasks, name: str, *, ok: bool = True, again: bool = False) -> list[Task]:
    tasks.claim(name, "r")
    return tasks.finish(name, ok=ok, note="" if ok else "exit code 1", again=again)


# --- What is taken ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "a -> b -> c -> a"),
        ({"x": "", "a": "bx", "b": "cx", "c": "ax", "d": "a"}, "a -> b -> c -> a"),
        ({"x": "a", "c": "a", "b": "c", "a": "b"}, "c -> a -> b -> c"),
        ({"a": "a"}, "a -> a"),
        ({"p": "", "a": "pb", "b": "a"}, "a -> b -> a"),
    ],
)
def test_a_cycle_is_refused_with_the_cycle_written_out(edges: dict[str, str], cycle: str) -> None:
    """Each waits for the next, from the first that was submitted; nothing of the lot is taken."""
    tasks = graph(spec("there"))
    with pytest.raises(Rejected) as caught:
        tasks.submit([spec(name, *after) for name, after in edges.items()])
    assert str(caught.value) == f"tasks wait for each other: {cycle}"
    assert states(tasks) == {"there": "ready"}
    assert tasks["there"].followers == []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ([spec("b", "nope")], "task b waits for 'nope', which isn't known"),
        ([spec("a")], "task a is there already"),
        ([spec("b"), spec("b")], "task b is there already"),
        ([spec("")], "task '': a name is letters, digits, . _ and -, up to 80 of them"),
        ([spec("../b")], "task '../b': a name is"),
        ([spec("b" * 81)], f"task '{'b' * 80}': a name is"),
        (
            [spec("b", estimated_tokens=-1)],
            "task b: estimated_tokens must be from 0 to 1,000,000,000,000, attempts from",
        ),
        (
            [spec("b", estimated_tokens=10**13)],
            "task b: estimated_tokens must be from 0 to 1,000,000,000,000, attempts",
        ),
        (
            [spec("b", attempts=0)],
            "task b: estimated_tokens must be from 0 to 1,000,000,000,000, attempts from 1 to 1,000",
        ),
        (
            [spec("b", attempts=1001)],
            "task b: estimated_tokens must be from 0 to 1,000,000,000,000, attempts from 1 to",
        ),
        ([spec("b", batch="x\ny")], r"batch 'x\ny': a name is letters, digits, . _ and -, up to 80 of them"),
        ([spec(f"b{n}") for n in range(MOST)], "20,001 tasks are too many: at most 20,000 may be known at once"),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(wrong: list[TaskSpec], text: str) -> None:
    """Whatever else was submitted with it; numbers go on as if it hadn't been."""
    tasks = graph(spec("a"))
    with pytest.raises(Rejected) as caught:
        tasks.submit([spec("fine", "a"), *wrong])
    assert str(caught.value).startswith(text.replace("20,001", "20,002"))
    assert states(tasks) == {"a": "ready"}
    assert tasks.submit([spec("z")])[0].number == 2


def test_predecessors_may_come_later_in_the_same_lot_or_be_there_already() -> None:
    """Also named twice, and done already."""
    tasks = graph(spec("c", "b", "b"), spec("b", "a"), spec("a"))
    assert states(tasks) == {"c": "waiting", "b": "waiting", "a": "ready"}
    run(tasks, "a")
    tasks.submit([spec("d", "a"), spec("e", "a", "c")])
    assert states(tasks) == {"c": "waiting", "b": "ready", "a": "done", "d": "ready", "e": "waiting"}


def test_what_waits_for_a_failed_task_is_blocked_from_the_start() -> None:
    """Also through one that comes later in the same lot."""
    tasks = graph(spec("a"))
    run(tasks, "a", ok=False)
    tasks.submit([spec("c", "b"), spec("b", "a"), spec("s", "a", on_failure="skip"), spec("t", "s")])
    assert {name: (task.state, task.note) for name, task in tasks.items() if name != "a"} == {
        "b": ("blocked", "a failed"),
        "c": ("blocked", "a failed"),
        "s": ("skipped", "a failed"),
        "t": ("blocked", "s was skipped"),
    }


# --- Who may start, in which order ------------------------------------------------------------------------------------


def test_a_task_is_eligible_when_all_its_predecessors_are_done() -> None:
    """Not before the last of them is."""
    tasks = graph(spec("a"), spec("b"), spec("c", "a", "b"))
    assert names(run(tasks, "a")) == ["a"]
    assert tasks["c"].state == "waiting"
    with pytest.raises(Rejected, match="task c is waiting for b, so it can't be started"):
        tasks.claim("c", "r")
    assert names(run(tasks, "b")) == ["b", "c"]
    assert names(eligible(tasks)) == ["c"]


def test_the_order_is_priority_then_size_then_arrival() -> None:
    """An unknown size is larger than any."""
    tasks = graph(
        spec("unknown"),
        spec("unknown-too"),
        spec("large", estimated_tokens=900),
        spec("small", estimated_tokens=10),
        spec("small-too", estimated_tokens=10),
        spec("urgent", priority=Priority.CRITICAL),
        spec("low", priority=Priority.LOW, estimated_tokens=1),
    )
    assert names(eligible(tasks)) == ["urgent", "small", "small-too", "large", "unknown", "unknown-too", "low"]


def test_a_task_runs_once_at_a_time() -> None:
    """The runner that starts it has it until it reports its end."""
    tasks = graph(spec("a"))
    assert tasks.claim("a", "r")[0].runner == "r"
    with pytest.raises(Rejected, match="task a is running, so it can't be started"):
        tasks.claim("a", "other")
    tasks.finish("a", ok=True, note="", again=False)
    assert (tasks["a"].attempt, tasks["a"].runner) == (1, "")
    for end in (tasks.claim, lambda name, _: tasks.finish(name, ok=True, note="", again=False)):
        with pytest.raises(Rejected, match="task a is done"):
            end("a", "r")


def test_again_makes_it_eligible_once_more() -> None:
    """With its attempts counted and the reason kept; a good end is an end all the same."""
    tasks = graph(spec("a"), spec("b", "a"))
    run(tasks, "a", ok=False, again=True)
    assert (tasks["a"].state, tasks["a"].attempt, tasks["a"].note) == ("ready", 1, "exit code 1")
    assert tasks["b"].state == "waiting"
    run(tasks, "a", ok=True, again=True)
    assert (states(tasks), tasks["a"].attempt) == ({"a": "done", "b": "ready"}, 2)


def test_a_late_report_ends_no_other_attempt() -> None:
    """One that names its attempt counts for that one alone."""
    tasks = graph(spec("a"))
    run(tasks, "a", ok=False, again=True)
    tasks.claim("a", "other")
    with pytest.raises(Rejected, match="task a is at attempt 2; attempt 1 was over before"):
        tasks.finish("a", ok=True, note="", again=False, attempt=1)
    assert tasks["a"].state == "running"
    tasks.finish("a", ok=True, note="", again=False, attempt=2)
    assert states(tasks) == {"a": "done"}


def test_an_unknown_task_is_said_to_be_unknown() -> None:
    """With some of those that are known."""
    with pytest.raises(Rejected, match=r"^no task named 'x'; known: none yet$"):
        Tasks().known("x")
    tasks = graph(*(spec(f"t{n}") for n in range(9)))
    with pytest.raises(Rejected, match="no task named 'x'; known: t0, t1, t2, t3, t4, t5, t6, t7 …"):
        tasks.cancel("x")


# --- Inherited priority -----------------------------------------------------------------------------------------------


def counts_as(tasks: Tasks) -> dict[str, str]:
    return {name: task.priority.name for name, task in tasks.items()}


def test_what_others_wait_for_counts_as_urgent_as_they_do() -> None:
    """All the way back, past what is done, and in the order of the eligible; no task loses by it."""
    tasks = graph(spec("a", priority=Priority.LOW), spec("b", "a"), spec("x"), spec("h", priority=Priority.HIGH))
    assert counts_as(tasks) == {"a": "NORMAL", "b": "NORMAL", "x": "NORMAL", "h": "HIGH"}
    moved = tasks.submit([spec("c", "b", "h", priority=Priority.CRITICAL)])
    assert counts_as(tasks) == {"a": "CRITICAL", "b": "CRITICAL", "x": "NORMAL", "h": "CRITICAL", "c": "CRITICAL"}
    assert sorted(names(moved)) == ["a", "b", "c", "h"]
    assert names(eligible(tasks)) == ["a", "h", "x"]


@pytest.mark.parametrize("how", ["cancelled", "lowered", "blocked", "forgotten"])
def test_it_has_its_own_priority_again_when_no_urgent_task_waits(how: str) -> None:
    """Cancelled, made less urgent, kept from ever running by another predecessor, or forgotten."""
    tasks = graph(spec("a", priority=Priority.LOW), spec("b", "a"), spec("other"))
    tasks.submit([spec("c", "b", "other", priority=Priority.CRITICAL, batch="second")])
    assert tasks["a"].priority is Priority.CRITICAL
    match how:
        case "cancelled":
            moved = tasks.cancel("c")
        case "lowered":
            moved = tasks.set_priority("c", Priority.HIGH)
        case "blocked":
            moved = run(tasks, "other", ok=False)
        case _:
            moved = tasks.forget("second")[1]
    expected = Priority.HIGH if how == "lowered" else Priority.NORMAL
    assert (tasks["a"].priority, tasks["b"].priority) == (expected, expected)
    assert {"a", "b"} <= set(names(moved))


def test_a_retry_brings_the_urgency_back() -> None:
    """Of all that wait again, for all that they wait for."""
    tasks = graph(spec("a", priority=Priority.LOW), spec("p", priority=Priority.LOW))
    tasks.submit([spec("b", "a", "p"), spec("c", "b", priority=Priority.CRITICAL)])
    run(tasks, "a", ok=False)
    assert tasks["p"].priority is Priority.LOW
    moved = tasks.retry("a")
    assert counts_as(tasks) == {"a": "CRITICAL", "p": "CRITICAL", "b": "CRITICAL", "c": "CRITICAL"}
    assert set(names(moved)) == {"a", "b", "c", "p"}


def test_a_task_of_its_own_urgency_keeps_it() -> None:
    """A changed one is reported even if it still has the priority of a task that waits for it."""
    tasks = graph(spec("a"), spec("b", "a", priority=Priority.HIGH))
    moved = tasks.set_priority("a", Priority.LOW)
    assert (names(moved), tasks["a"].priority, tasks["a"].spec.priority) == (["a"], Priority.HIGH, Priority.LOW)
    tasks.set_priority("a", Priority.CRITICAL)
    assert (tasks["a"].priority, tasks["b"].priority) == (Priority.CRITICAL, Priority.HIGH)
    run(tasks, "a")
    with pytest.raises(Rejected, match="task a is done already"):
        tasks.set_priority("a", Priority.LOW)


def test_a_wide_and_a_long_graph_cost_no_more_than_their_edges() -> None:
    """Thousands that wait for one, and a chain of thousands: every task is asked a few times, not thousands."""
    asked = 0

    star = [spec("hub", priority=Priority.LOW), *(spec(f"s{n}", "hub", priority=Priority.HIGH) for n in range(3000))]
    chain = [spec("c0", priority=Priority.LOW), *(spec(f"c{n}", f"c{n - 1}") for n in range(1, 3000))]
    tasks = Tasks()
    due_state = tasks._due_state

    def counting(task: Task) -> tuple[str, str]:
        nonlocal asked
        asked += 1
        return due_state(task)

    tasks._due_state = counting  # type: ignore[method-assign]
    tasks.submit([*reversed(star), *reversed(chain)])
    tasks.cancel("c0")
    run(tasks, "hub", ok=False)
    assert asked <= 2 * 6002
    assert (tasks["s1"].state, tasks["c2999"].state) == ("blocked", "blocked")
