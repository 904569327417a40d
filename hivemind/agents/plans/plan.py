"""A batch's plan: tasks, each with a command, what it waits for, and what it may use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from hivemind.agents.plans import values
from hivemind.agents.worktrees import WantedWorktree
from hivemind.records import replace
from hivemind.scheduler.tasks import Tasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget


class TaskSettings(BaseModel):
    """Settings of a plan for all of its tasks, each of which may override them."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    priority: values.PriorityName = Priority.NORMAL
    timeout: values.Seconds = None
    deadline: values.Deadline = None
    restarts: Annotated[int, values.whole(0, 1_000)] = 0
    restart_delay: values.Delay = 0.0
    on_failure: values.OnFailure = "block"
    cwd: values.Folder = Path()
    worktree: values.WorktreeBase = None
    require_traffic: values.Switch = False
    env: values.Environment = Field(default={}, repr=False)


class PlannedTask(TaskSettings):
    """A task of a plan, with the plan's settings as defaults."""

    name: values.Text = ""
    command: values.Command
    after: values.Texts = ()
    agent: values.AgentName = ""
    """Empty: an agent of the task's own name."""
    estimate: values.Tokens = 0
    budget: values.Budget = None
    count: Annotated[int | None, values.whole(1, values.MOST_AGENTS)] = None
    """How many agents do it; None: one, with the task's own name."""
    _line: int = PrivateAttr(0)
    _tree: WantedWorktree | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _command_alone(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"command": value}

    @property
    def line(self) -> int:
        """Its line in the file."""
        return self._line

    @property
    def tree(self) -> WantedWorktree | None:
        """The worktree that its agent starts in; None: it starts in the task's folder."""
        return self._tree

    def begins_at(self, line: int) -> None:
        """Note its line in the file."""
        self._line = line

    def start_in(self, tree: WantedWorktree | None) -> None:
        """Have its agent start in a worktree of its own."""
        self._tree = tree

    def starts_in(self, agent: str) -> Path:
        """Return the folder that its process starts in."""
        return self.cwd if self._tree is None else self._tree.start_of(agent, self.cwd)

    def numbered(self, name: str) -> dict[str, PlannedTask]:
        """Return the task by its name, or as many as its count says, as NAME-1 and so on."""
        if self.count is None:
            return {name: self}
        found = {}
        for number in range(1, self.count + 1):
            agent = f"{self.agent}-{number}" if self.agent else ""
            own = found[f"{name}-{number}"] = self.model_copy(update={"name": f"{name}-{number}", "agent": agent})
            own._line, own._tree = self._line, self._tree
        return found

    def spec(self, batch: str) -> TaskSpec:
        """Return the task for the graph."""
        return TaskSpec(
            id=f"{batch}.{self.name}",
            priority=self.priority,
            estimated_tokens=self.estimate,
            after=tuple(f"{batch}.{name}" for name in self.after),
            agent=self.agent,
            batch=batch,
            command=self.command,
            on_failure=self.on_failure,
            attempts=self.restarts + 1,
            planned=True,
            deadline=0.0 if self.deadline is None else self.deadline.at,
            deadline_s=0.0 if self.deadline is None else self.deadline.span_s,
        )


class PlanModel(TaskSettings):
    """A plan as it stands in its file."""

    name: values.Text = ""
    max_agents: Annotated[int | None, values.whole(1, 1_000_000)] = None
    budget: values.Budget = None
    tasks: dict[str, PlannedTask] = {}


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan without mistakes."""

    name: str
    file: str
    """The file's name as the user wrote it."""
    path: str
    env: Mapping[str, str] = field(repr=False)
    max_agents: int | None
    budget: WantedBudget | None
    tasks: Mapping[str, PlannedTask]
    """By name, in the order of the file."""

    def specs(self) -> list[TaskSpec]:
        """Return the tasks for the graph."""
        return [task.spec(self.name) for task in self.tasks.values()]

    def deadlines(self) -> dict[str, str]:
        """Return the deadlines in the plan's words, by task."""
        return {name: task.deadline.text for name, task in self.tasks.items() if task.deadline is not None}

    def order(self) -> list[PlannedTask]:
        """Return the tasks in the order in which they would run one at a time."""
        graph, found, now = Tasks(), [], time.time()
        specs = [replace(each, deadline=now + each.deadline_s) if each.deadline_s else each for each in self.specs()]
        ready = [(task.rank, task.spec.id) for task in graph.submit(specs)]
        heapify(ready)
        while ready:
            rank, name = heappop(ready)
            if graph[name].state != "ready" or graph[name].rank != rank:
                continue  # it has another priority since, or waits
            graph.claim(name, "")
            for moved in graph.finish(name, ok=True, note="", again=False):
                heappush(ready, (moved.rank, moved.spec.id))
            found.append(self.tasks[name.removeprefix(f"{self.name}.")])
        return found
