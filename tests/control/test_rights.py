"""What a run may do: with itself and what it started, downwards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hivemind.api_types import ClaimRequest, PlaceRelease, PlaceRequest, TaskState
from hivemind.control.rights import Denied, Rights
from hivemind.control.run_access import RunAccess
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Budget
from hivemind.scheduler.commands import Command
from hivemind.scheduler.tasks import Task, Tasks
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import Priority, TaskSpec


class Known:
    """mother started ann and bob, and ann started child; the operator decided nothing so far."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.live: set[str] = {"mother", "ann", "bob"}
        self.agents = {name: Agent(name, 0.0) for name in ("mother", "ann", "bob", "child")}
        for name, parent in (("ann", "mother"), ("bob", "mother"), ("child", "ann")):
            self.agents[name].parent = self.agents[parent]

    def find(self, name: str) -> Agent | None:
        return self.agents.get(name.lower())

    def is_reserved(self, name: str) -> bool:
        return name == "reserved"

    def below(self, agent: Agent) -> list[Agent]:
        children = [each for each in self.agents.values() if each.parent is agent]
        return children + [each for child in children for each in self.below(child)]

    def ran(self, name: str) -> bool:
        return name != "nightly" and not name.startswith("ann/")

    def runs(self, name: str) -> bool:
        return name in self.live

    def budget(self, agent: str, budget: Budget) -> None:
        self.agents[agent].own.budget = budget


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def rights(known: Known) -> Rights:
    return Rights(known)


def may(rights: Rights, *commands: Command, run: str = "ann") -> list[bool]:
    """Which of the commands the run may give."""

    def each() -> Iterator[bool]:
        for command in commands:
            try:
                rights.check(run, command)
            except Denied:
                yield False
            else:
                yield True

    return list(each())


def test_a_budget_may_be_lowered(known: Known, rights: Rights) -> None:
    """Its own in no kind raised or lifted, nor counted in a way that leaves more."""
    budget = cmd.SetBudget
    assert may(rights, budget("ann", 5), budget("mother", 5), budget("bob", 5), budget(None, 5)) == [True] + 3 * [False]
    known.budget("ann", Budget(100, 2.0, "day", "subtree"))
    lower = budget("ann", 100, 2.0), budget("ANN", 1, 1.0, "ever"), budget("ann", 99, 2.0, "day", "subtree")
    assert may(rights, *lower) == [True] * 3
    higher = (
        *(
            budget("ann"),
            budget("ann", 101, 2.0),
            budget("ann", 100, 2.1),
            budget("ann", 100),
            budget("ann", None, 2.0),
        ),
        *(budget("ann", 100, 2.0, "run"), budget("ann", 100, 2.0, covers="agent")),
    )
    assert may(rights, *higher) == [False] * len(higher)


def test_what_a_run_gave_it_may_change(known: Known, rights: Rights) -> None:
    """The budget of what it started, if nobody else set it; lowering what another set doesn't make it one's own."""
    given = cmd.SetBudget("child", 10)
    assert rights.decider("ann", given) == "ann"
    rights.note(given, "ann")
    known.budget("child", Budget(10))
    raised = cmd.SetBudget("child", 50)
    assert may(rights, raised) == may(rights, raised, run="mother") == [True]
    assert may(rights, raised, run="child") == [False]
    rights.note(raised)  # by the operator
    assert rights.decider("ann", cmd.SetBudget("child", 5)) == ""
    assert may(rights, raised, cmd.SetBudget("child", 9)) == [False, True]


def test_a_priority_may_be_lowered(known: Known, rights: Rights) -> None:
    """What it started may be raised to its own, unless somebody else decided."""
    low, normal, high = (cmd.SetPriority("child", each) for each in (Priority.LOW, Priority.NORMAL, Priority.HIGH))
    assert may(rights, low, normal, high, cmd.SetPriority("ann", Priority.HIGH)) == [True, True, False, False]
    known.agents["ann"].priority = Priority.HIGH
    assert may(rights, high, cmd.SetPriority("ann", Priority.CRITICAL)) == [True, False]
    known.agents["child"].priority = Priority.LOW  # by the operator
    assert may(rights, low, normal) == [True, False]
    assert (rights.decider("ann", low), rights.decider("ann", cmd.SetPriority("bob", Priority.LOW))) == ("", "ann")
    rights.note(low, "ann")
    assert may(rights, normal) == [True]
    known.agents["ann"].priority, known.agents["ann"].task_priority = None, Priority.LOW
    assert rights.priority("ann") is Priority.LOW
    assert may(rights, cmd.BoostAgent("child"), cmd.BoostAgent("child", 0)) == [False, True]


def test_only_parts_of_its_own_process_end(known: Known, rights: Rights) -> None:
    """No process does, neither its own nor one that it started, and no other's sub-agent."""
    names = ("ann/sub", "ann/sub/deeper", "ann", "annie/sub", "child", "child/sub", "bob/ann/sub")
    assert may(rights, *map(cmd.EndAgent, names)) == [True, True, *[False] * 5]
    assert may(rights, cmd.CutRequest("ann", 1), cmd.CutRequest("child", 2), cmd.CutRequest("bob", 3)) == [True] * 2 + [
        False
    ]
    known.agents["mother"].parent = known.agents["child"]  # a circle, as no scheduler makes it
    assert may(rights, cmd.CutRequest("child", 1), run="other") == [False]


@pytest.mark.parametrize("kind", [cmd.PauseAgent, cmd.StopAgent])
def test_only_who_held_releases(kind: type[cmd.PauseAgent], known: Known, rights: Rights) -> None:
    """A run holds itself and what it started, and releases only what it held."""
    assert may(rights, kind("ann", True), kind("child", True), kind("bob", True)) == [True, True, False]
    known.agents["child"].paused = known.agents["child"].stopped = True
    assert may(rights, kind("child", False)) == [False]
    rights.note(kind("child", True), rights.decider("ann", kind("child", True)))
    assert may(rights, kind("child", False)) == [False], "it was held before"
    rights.note(kind("child", True), "ann")
    assert may(rights, kind("child", False)) == [True]


def test_tasks(known: Known, rights: Rights) -> None:
    """It submits tasks that are no more urgent than itself and hold nobody else, and reports its own."""
    made = rights.check("ann", cmd.SubmitTasks((TaskSpec("t"), TaskSpec("u", agent="child", parent="child"))))
    assert isinstance(made, cmd.SubmitTasks)
    assert [spec.parent for spec in made.tasks] == ["ann", "child"]
    wrong = TaskSpec("t", agent="bob"), TaskSpec("t", Priority.HIGH), TaskSpec("t", agent="reserved")
    assert may(rights, *(cmd.SubmitTasks((spec,)) for spec in wrong)) == [False] * 3
    for spec in (*made.tasks, TaskSpec("s"), TaskSpec("a", Priority.LOW, agent="ann")):
        known.tasks[spec.id] = Task(spec, 1)
    for name, reports in (("t", True), ("u", True), ("s", False), ("a", True)):
        commands = cmd.ClaimTask(name), cmd.CancelTask(name), cmd.FinishTask(name, True)
        assert may(rights, *commands) == [reports] * 3
    assert may(rights, cmd.SetTaskPriority("t", Priority.LOW), cmd.SetTaskPriority("a", Priority.NORMAL)) == [
        True,
        False,
    ]
    assert may(rights, cmd.SetTaskPriority("t", Priority.HIGH), cmd.ForgetTasks("")) == [False, False]
    known.tasks["t"].state = known.tasks["a"].state = "failed"
    assert may(rights, cmd.RetryTask("t"), cmd.RetryTask("a")) == [True, False]
    known.tasks["t"].state = "cancelled"
    assert may(rights, cmd.RetryTask("t")) == [False]
    assert rights.decider("ann", cmd.CancelTask("t")) == "ann"
    rights.note(cmd.CancelTask("t"), "ann")
    assert may(rights, cmd.RetryTask("t")) == [True]
    assert may(rights, cmd.RetryTask("none"), cmd.SetTaskPriority("none", Priority.CRITICAL)) == [True, True]
    assert rights.decider("ann", cmd.SetTaskPriority("t", Priority.LOW)) == "ann"
    with pytest.raises(Denied, match="task s is neither the run of ann's nor was it submitted by it"):
        rights.place("ann", PlaceRequest("new", task="s"))
    known.tasks.pop("s")
    known.tasks.pop("a")
    assert may(rights, cmd.ForgetTasks("")) == [True]


def test_places(known: Known, rights: Rights) -> None:
    """It starts agents of its own, as its children whatever it says, no more urgent than itself."""
    for parent, is_now in ((None, "ann"), ("bob", "ann"), ("mother", "ann"), ("child", "child"), ("ann", "ann")):
        made = rights.place("ann", PlaceRequest("new", parent, priority=Priority.CRITICAL))
        assert (made.parent, made.priority) == (is_now, Priority.NORMAL)
    assert rights.place("ann", PlaceRequest("child")).parent == "ann"
    assert rights.check("ann", cmd.BeginAgent("batch", "mother")) == cmd.BeginAgent("batch", "ann")
    for name in ("ann", "Ann", "bob", "mother", "reserved"):
        with pytest.raises(Denied):
            rights.place("ann", PlaceRequest(name))
    known.agents["child"].stopped = True
    with pytest.raises(Denied, match="somebody else stopped"):
        rights.place("ann", PlaceRequest("child"))
    rights.leave("ann", PlaceRelease("child"))
    rights.leave("ann", PlaceRelease("ann/part"))
    for name in ("ann", "bob", "mother", "annex/part"):
        with pytest.raises(Denied):
            rights.leave("ann", PlaceRelease(name))


def test_an_ended_agent_of_an_ended_run_can_be_started_anew(known: Known, rights: Rights) -> None:
    """By a run that had nothing to do with it, once nobody else has rights over it."""
    taken = PlaceRequest("child")

    def is_free(run: str = "bob", wanted: PlaceRequest = taken) -> bool:
        try:
            return rights.place(run, wanted).parent == run
        except Denied:
            return False

    assert not is_free(), "ann runs, which started it"
    known.live = {"mother", "bob"}
    assert is_free()
    assert is_free("mother")
    known.live.add("child")
    assert not is_free()
    known.live.remove("child")
    assert not is_free(wanted=PlaceRequest("child", resumed=True)), "its conversation was another's"
    assert not is_free(wanted=PlaceRequest("child", running=True))
    assert may(rights, cmd.BeginAgent("child", resumed=True), cmd.BeginAgent("child"), run="bob") == [False, True]
    for name in ("mother", "ann"):
        assert not is_free(wanted=PlaceRequest(name)), "the operator started it, or it started others"
    part = known.agents["child/part"] = Agent("child/part", 0.0, parent=known.agents["child"])
    part.lead = known.agents["child"]
    assert is_free()
    assert not is_free(wanted=PlaceRequest("child/part"))
    known.agents["child"].parent = known.agents["nightly"] = Agent("nightly", 0.0)
    assert not is_free(), "a batch of the operator's started it"


@pytest.mark.parametrize("decided", ["budgeted", "paused", "stopped", "priority", "boosted_until", "task_priority"])
def test_what_the_operator_decided_about_keeps_its_name(decided: str, known: Known, rights: Rights) -> None:
    """Else its budget would begin to count anew, or its priority be another's."""
    known.live = {"bob"}
    values = {"priority": Priority.HIGH, "boosted_until": 9.0, "task_priority": Priority.NORMAL}
    setattr(known.agents["child"], decided, values.get(decided, True))
    with pytest.raises(Denied):
        rights.place("bob", PlaceRequest("child"))


def test_what_an_ended_run_decided_stays(known: Known, rights: Rights) -> None:
    """And can only be lowered by the next one."""
    known.live = {"bob"}
    rights.note(cmd.SetBudget("child", 10), "ann")
    known.budget("child", Budget(10))
    known.agents["child"].budgeted = True
    assert rights.place("bob", PlaceRequest("child")).parent == "bob"
    known.agents["child"].parent = known.agents["bob"]
    assert may(rights, cmd.SetBudget("child", 11), cmd.SetBudget("child", 10), run="bob") == [False, True]


def test_tasks_of_others_keep_their_agents_name(known: Known, rights: Rights) -> None:
    """Whoever has the agent could report them."""
    known.live = {"bob"}
    known.tasks["t"] = Task(TaskSpec("t", agent="child"), 1)
    with pytest.raises(Denied):
        rights.place("bob", PlaceRequest("child"))
    known.tasks["t"] = Task(TaskSpec("t", agent="child", parent="bob"), 1)
    assert rights.place("bob", PlaceRequest("child")).parent == "bob"


def test_what_was_anothers_isnt_read(known: Known, rights: Rights) -> None:
    """Neither requests nor checkpoints from before."""
    child = known.agents["child"]
    child.parent, child.since = known.agents["bob"], 7.0
    assert [rights.owned_since(run, "child") for run in ("bob", "child")] == [7.0, 7.0]
    assert rights.owned_since("bob", "bob") == -math.inf
    assert [rights.owned("bob", "child", parent) for parent in ("ann", "bob")] == [False, True]
    part = known.agents["child/part"] = Agent("child/part", 0.0, parent=child)
    part.lead = child
    assert (rights.owned_since("bob", "child/part"), rights.owned("bob", "child/part", "child")) == (7.0, False)


def test_the_process_of_a_task_is_its_submitters(known: Known, rights: Rights) -> None:
    """Whoever's runner starts it."""
    known.tasks["t"] = Task(TaskSpec("t", parent="ann"), 1)
    known.tasks["s"] = Task(TaskSpec("s"), 2)
    asked = [PlaceRequest("w", "nightly", task) for task in ("t", "s", None)]
    assert [rights.parent_for(each) for each in asked] == ["ann", "nightly", "nightly"]
    assert rights.parent_for(PlaceRequest("w", "child", "t")) == "child"


def test_what_is_the_operators(rights: Rights) -> None:
    """Whatever isn't about one agent or task."""
    commands = (
        *(cmd.PauseAdmissions(False), cmd.Drain(False), cmd.Tune("rpm", 0), cmd.PinLevel(9), cmd.SetCircuit("auto")),
        *(cmd.ReleaseLane("a"), cmd.BeginAgent("ann"), cmd.EndAgent("child")),
    )
    assert may(rights, *commands) == [False] * len(commands)


def test_what_a_run_asks_of_its_proxy(known: Known, rights: Rights) -> None:
    """It reads requests and checkpoints of its own and of what it started, and sees no command of another's task; what
    is denied is told to the operator."""
    told: list[str] = []
    of = {1: "child", 2: "bob"}
    others = (TaskSpec("t", command=("x", "secret")), TaskSpec("u", command=("mine",), parent="ann"))
    tasks = tuple(TaskState(each, "ready", Priority.NORMAL, 0, "", "") for each in others)
    proxy = SimpleNamespace(
        rights=rights,
        denied=lambda run, asked, why: told.append(asked),
        detail=lambda ticket: SimpleNamespace(view=SimpleNamespace(agent=of[ticket], arrived_at=1.0)),
        processes=SimpleNamespace(
            tasks=lambda batch, running: tasks,
            place=lambda wanted, who: (wanted, who),
            claim=lambda wanted, who: who,
            runs=SimpleNamespace(within=lambda run, process: False),
        ),
    )
    known.tasks["t"] = Task(others[0], 1)
    access = RunAccess(cast(Any, proxy), "ann")
    assert access.detail(1) is not None
    access.require_checkpoint("child", "ann")
    for denied in (
        lambda: access.detail(2),
        lambda: access.require_checkpoint("bob", None),
        lambda: access.settings_file,
        lambda: access.processes.claim(ClaimRequest("r"), "x"),
    ):
        with pytest.raises(Denied):
            denied()
    assert told == ["read the details of requests", "read checkpoints", *told[2:]]
    assert len(told) == 4
    assert cast(str, access.processes.claim(ClaimRequest("r", "own"), "x")) == "agent ann"
    assert [each.spec.command for each in access.processes.tasks(None)] == [("…",), ("mine",)]
    assert cast(Any, access.processes.place(PlaceRequest("new", process="5 now"), "x")) == (
        PlaceRequest("new", "ann", priority=Priority.NORMAL),
        "agent ann",
    )
