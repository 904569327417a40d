"""One claimed task beside a proxy that refuses, is away or forgets: what is said, what is told, and what is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import until

from hivemind.agents import batch, batch_job
from hivemind.agents.attempts import start
from hivemind.agents.batch_context import BatchContext, BatchFolder, RunnerContext, RunnerNote
from hivemind.agents.batch_job import TaskRun
from hivemind.agents.environment import ProxyRoute
from hivemind.agents.plans.plan import Plan
from hivemind.agents.session import Session
from hivemind.agents.work import WorkFolder
from hivemind.api_types import About, PlaceResponse, RunUsage, TasksPart, TaskState
from hivemind.control.client import ControlClient, ControlError
from hivemind.errors import UsageError
from hivemind.scheduler.commands import Command, FinishTask, ForgetTasks, Rejected, SetBudget
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget

USED = RunUsage(0, 0.0, 0, None, requests=0)
GRANTED = PlaceResponse(True, 0)
CLAIM = "20260101T000000-7-000001"


class Proxy:
    """A control API that answers as it was told; an error is raised, and the last answer of a kind stays."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers: dict[str, list[Any]] = {
            "place": [GRANTED],
            "leave": [USED],
            "command": [None],
            "tasks": [()],
            **answers,
        }
        self.commands: list[Command] = []

    def _answer(self, kind: str) -> Any:
        answers = self.answers[kind]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    async def place(self, _request: object) -> PlaceResponse:
        return cast(PlaceResponse, self._answer("place"))

    async def leave(self, _release: object) -> RunUsage:
        return cast(RunUsage, self._answer("leave"))

    async def command(self, command: Command, _who: str) -> None:
        self.commands.append(command)
        self._answer("command")

    async def tasks(self, _batch: str | None = None) -> TasksPart:
        return TasksPart("run", self._answer("tasks"))

    async def about(self) -> About:
        return ABOUT

    def renew_token(self) -> bool:
        return False


ABOUT = About("run", "1", "http://127.0.0.1:1", (), False, 0, False, None)


def state(*command: str, name: str = "a", of: str = CLAIM, **about: Any) -> TaskState:
    """A task that is claimed."""
    return TaskState(TaskSpec(name, command=command, cwd="/", **about), "running", Priority.NORMAL, 1, of, "")


def context(folder: Path, proxy: Proxy, said: list[str]) -> RunnerContext:
    session = Session(cast(ControlClient, proxy), ProxyRoute(ABOUT.address, state_dir=folder), ABOUT)
    files = WorkFolder(folder)
    files.enlist(CLAIM.rpartition("-")[0], RunnerNote("", "run"))
    return RunnerContext(session, files, dict(os.environ), lambda text, _tone: said.append(text), time.time)


async def ran(
    folder: Path, proxy: Proxy, task: TaskState, change: Callable[[TaskRun], object] = lambda _: None, **about: Any
) -> list[str]:
    """The lines that are said while the task runs to its end."""
    said: list[str] = []
    job = TaskRun(context(folder, proxy, said), task, **about)
    change(job)
    await job.run()
    assert job.phase == "over"
    return said


async def test_no_place_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits while another agent has its name, and while it is queued; one that is refused has failed, unless another
    of the runner's tasks still runs. A runner that is to stop gives its turn back."""
    monkeypatch.setattr(batch_job, "ASK_EVERY_S", 0.0)
    monkeypatch.setattr(batch_job, "_NEXT_ASKS_EVERY_S", 0.0)
    taken, deep = Rejected("the name is taken"), PlaceResponse(False, 0, refused="too deep")
    proxy = Proxy(place=[taken, taken, PlaceResponse(False, 0), deep])
    said = await ran(tmp_path, proxy, state("true"))
    assert said[0] == "a waits: the name is taken"
    assert "a failed (too deep)" in said[1]
    assert proxy.commands == [FinishTask("a", False, "too deep", False)]

    def stops(job: TaskRun) -> None:
        def queued() -> PlaceResponse:
            job._context.stop.set()
            return PlaceResponse(False, 3)

        proxy.answers["place"] = [queued]

    proxy = Proxy()
    assert await ran(tmp_path, proxy, state("true"), stops) == []
    assert proxy.commands == [FinishTask("a", False, "stopped", True)]


async def test_a_budget_that_the_proxy_refuses_is_told(tmp_path: Path) -> None:
    """The task runs all the same, and what is told of its end before the answer was lost isn't told again."""

    def budgeted(job: TaskRun) -> None:
        job.planned.budget = WantedBudget(1000, None, "run")

    lost = ControlError("no answer", sent=True)
    done = [state(of="another"), state("true", of="")]
    proxy = Proxy(command=[Rejected("it is a tree's"), lost], tasks=[tuple(done)])
    said = await ran(tmp_path, proxy, state("true"), budgeted)
    assert "a: its budget isn't set: it is a tree's" in said
    assert [type(each) for each in proxy.commands] == [SetBudget, FinishTask]


async def test_the_proxy_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that is to stop at once doesn't wait for it; a later one reports the end."""
    monkeypatch.setattr("hivemind.agents.batch_context._LAST_WORD_S", 0.0)

    def at_once(job: TaskRun) -> None:
        job._context.stop.set()
        job._context.at_once.set()

    said = await ran(tmp_path, Proxy(leave=[ControlError("refused")]), state("true", deadline=1.0), at_once)
    assert "the proxy isn't told how it stands (the proxy is away); a later runner will" in said[-1]


async def test_a_plan_s_window_is_used_up(tmp_path: Path) -> None:
    """The task is paused until its reset, and with it those that ask the same model; it hasn't failed."""
    whole_at = time.time() + 3600
    others = (state("./agent", name="b"), state("./agent", name="c"), state("other", name="d"))
    ready = tuple(TaskState(each.spec, "ready", Priority.NORMAL, 0, "", "") for each in others[1:])
    used = RunUsage(0, 0.0, 0, None, requests=3, whole_at=whole_at)
    proxy = Proxy(leave=[used], tasks=[(others[0], *ready)])
    said = await ran(tmp_path, proxy, state("./agent"))
    (order,) = proxy.commands
    assert isinstance(order, FinishTask)
    assert (order.again, order.others, 3500 < order.paused_s <= 3600) == (True, ("c",), True)
    assert "a plan's window is used up" in said[-1]


async def test_requests_of_its_client_that_came_otherwise_are_told(tmp_path: Path) -> None:
    """Else nobody would know why nothing came on its own path."""
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    used = RunUsage(0, 0.0, 0, None, requests=0, elsewhere=("claude-7",))
    said = await ran(tmp_path, Proxy(leave=[used]), state(str(program)))
    assert "no request on its own path; meanwhile its client's requests came as claude-7" in said[-1]


async def test_one_that_vanishes_again_and_again_has_failed(tmp_path: Path) -> None:
    """An attempt without a result is repeated, until it is the third. One whose task somebody ended isn't reported."""
    for number in range(1, 4):
        claim = f"{CLAIM[:-1]}{number}"
        proxy = Proxy()
        folder = context(tmp_path, proxy, []).folder
        folder.attempt("a", claim).mkdir()
        task = TaskState(TaskSpec("a", command=("true",)), "running", Priority.NORMAL, number, claim, "")
        said = await ran(tmp_path, proxy, task, taken_over=True)
        assert ("it goes back" in said[-1]) == (number < 3), said
        (order,) = proxy.commands
        assert isinstance(order, FinishTask)
        assert order.again == (number < 3)
    proxy = Proxy()
    folder.attempt("b", CLAIM).mkdir()
    said = await ran(
        tmp_path, proxy, state("true", name="b"), lambda job: setattr(job, "unwanted", True), taken_over=True
    )
    assert (proxy.commands, "somebody else ended its task" in said[-1]) == ([], True)


async def test_one_that_wont_end_is_killed(tmp_path: Path) -> None:
    """At once where the runner is told twice."""

    def stops(job: TaskRun) -> None:
        job._reason_to_end = lambda: "stopped" if (tmp_path / "begun").exists() else ""  # type: ignore[method-assign]
        job._context.at_once.set()

    script = f"trap '' TERM; touch {tmp_path}/begun; while :; do sleep 0.01; done"
    said = await ran(tmp_path, Proxy(), state("sh", "-c", script), stops)
    assert said[-1] == "a: stopped; it goes back"


@pytest.mark.parametrize("ignores", [False, True])
async def test_what_begins_anew_ends_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignores: bool) -> None:
    """Also a process that doesn't want to end; then the tasks are forgotten, or the proxy's reason is told."""
    monkeypatch.setattr(batch, "GRACE_S", 0.05 if ignores else 60.0)
    said: list[str] = []
    proxy = Proxy(command=[None, None, Rejected("a task runs")])
    base = context(tmp_path, proxy, said)
    files = BatchFolder(tmp_path, "nightly")
    files.begin()
    files.enlist(CLAIM.rpartition("-")[0], RunnerNote("", "run"))
    plan = Plan("nightly", "p.yaml", "/p.yaml", {}, None, None, {})
    here = BatchContext(base.session, files, {}, base.say, time.time, plan=plan)
    script = f"trap '{':' if ignores else 'exit 3'}' TERM; touch begun; while :; do sleep 0.01; done"
    command = ("sh", "-c", script)
    attempt = start(files.attempt("a", CLAIM), command, cwd=tmp_path, environ=os.environ, log=tmp_path / "log")
    await until((tmp_path / "begun").exists)
    with pytest.raises(UsageError, match="it can't begin anew: a task runs"):
        await batch._forget(here, [state(*command, name="nightly.a"), state("true", name="nightly.b")])
    assert said == ["a still runs and is ended"]
    assert [type(each) for each in proxy.commands] == [FinishTask, FinishTask, ForgetTasks]
    assert (await attempt.ended()).exit_code == (-signal.SIGKILL if ignores else 3)
