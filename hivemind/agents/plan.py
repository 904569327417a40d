"""A batch's plan: a YAML file of tasks, each with a command, what it waits for, and what it may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal

import yaml

from hivemind.agent_names import BadName, normalised, same
from hivemind.agents import plan_values as values
from hivemind.agents.plan_nodes import Node, PlanError, Reading, compose, line_of
from hivemind.redaction.text import holds_key
from hivemind.scheduler.tasks.graph import Tasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget
from hivemind.text.suggest import did_you_mean

_DEFAULTS = ("priority", "timeout", "restarts", "restart_delay", "on_failure", "cwd", "env")
_PLAN = ("name", "max_agents", "budget", *_DEFAULTS, "tasks")
_TASK = ("name", "command", "after", "agent", "estimate", "budget", *_DEFAULTS)
_MOST_AGENTS = 1_000_000
_MOST_RESTARTS = 1_000


@dataclass(frozen=True, slots=True)
class Common:
    """What a plan says for all of its tasks, and each may say otherwise."""

    cwd: Path
    priority: Priority = Priority.NORMAL
    timeout_s: float | None = None
    restarts: int = 0
    """Times it is started again after it failed."""
    restart_delay_s: float = 0.0
    on_failure: Literal["block", "skip"] = "block"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task."""

    name: str
    line: int
    command: tuple[str, ...]
    common: Common
    after: tuple[str, ...] = ()
    agent: str = ""
    """Empty: one of the task's own name."""
    estimate: int = 0
    budget: WantedBudget | None = None

    def spec(self, batch: str) -> TaskSpec:
        """As the graph knows it."""
        return TaskSpec(
            id=f"{batch}.{self.name}",
            priority=self.common.priority,
            estimated_tokens=self.estimate,
            after=tuple(f"{batch}.{name}" for name in self.after),
            agent=self.agent,
            batch=batch,
            command=self.command,
            on_failure=self.common.on_failure,
            attempts=self.common.restarts + 1,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole of it, checked."""

    name: str
    file: str
    """As the user wrote it."""
    path: str
    """Of the file, absolute."""
    env: Mapping[str, str] = field(repr=False)
    """Of all tasks."""
    max_agents: int | None
    budget: WantedBudget | None
    """Of the batch."""
    tasks: Mapping[str, PlannedTask]
    """By name, in the order of the file."""

    def specs(self) -> list[TaskSpec]:
        """As the graph knows them."""
        return [task.spec(self.name) for task in self.tasks.values()]

    def order(self) -> list[PlannedTask]:
        """In which they would run one at a time, all going well."""
        graph, found = Tasks(), []
        graph.submit(self.specs())
        while ready := graph.eligible():
            name = ready[0].spec.id
            graph.claim(name, "")
            graph.finish(name, ok=True, note="", again=False)
            found.append(self.tasks[name.removeprefix(f"{self.name}.")])
        return found


def read_plan(path: Path, shown: str) -> Plan:
    """Read and check a plan. `shown`: its name as the user wrote it.

    Raises: PlanError: with a line for every mistake.
    """
    reading = Reading(shown)
    root = compose(path, reading)
    try:
        plan = _plan(reading, root, path)
    except RecursionError:
        raise PlanError([f"{shown}: it is nested too deeply"]) from None
    if not reading.mistakes:
        _check_graph(reading, plan)
    reading.check()
    return plan


def _plan(reading: Reading, root: Node, path: Path) -> Plan:
    keys = reading.pairs(root, "the plan", _PLAN)
    name = path.stem
    if "name" in keys:
        name = reading.text(keys["name"][1], "name") or name
    if not values.is_name(name):
        hint = "" if "name" in keys else ", and the file's name isn't such a one; give the plan a name"
        where = keys["name"][1] if "name" in keys else 1
        reading.wrong(where, f"name {name[:40]!r}: must be letters, digits, . _ and -, up to 80 of them{hint}")
        name = "plan"
    common = _common(reading, keys, Common(path.absolute().parent), "the plan's")
    most = reading.whole(keys["max_agents"][1], "max_agents", 1, _MOST_AGENTS) if "max_agents" in keys else None
    budget = values.read_budget(reading, keys["budget"][1], "budget") if "budget" in keys else None
    tasks: dict[str, PlannedTask] = {}
    if "tasks" not in keys:
        if isinstance(root, yaml.MappingNode):
            reading.wrong(1, "the plan has no tasks")
    else:
        for where, task_name, node in _named(reading, keys["tasks"][1]):
            if not values.is_name(f"{name}.{task_name}"):
                reading.wrong(
                    where,
                    f"task {task_name[:40]!r}: a name is letters, digits, . _ and -, and with the"
                    " plan's before it at most 80 of them",
                )
            elif holds_key(f"{name}.{task_name}"):
                reading.wrong(where, "a task's name would be shown, and this one looks like a key; choose another")
            elif task_name in tasks:
                reading.wrong(where, f"task {task_name} is there twice, first in line {tasks[task_name].line}")
            else:
                tasks[task_name] = _task(reading, task_name, where, node, common, name)
        if not tasks and not reading.mistakes:
            reading.wrong(keys["tasks"][1], "the plan has no tasks")
    return Plan(name, reading.name, str(path.absolute()), common.env, most, budget, tasks)


def _named(reading: Reading, node: Node) -> list[tuple[Node, str, Node]]:
    """Each task's name, where that stands, and what is said of it."""
    if not isinstance(node, yaml.SequenceNode):
        return [(key, name, value) for name, (key, value) in reading.pairs(node, "tasks").items()]
    found: list[tuple[Node, str, Node]] = []
    for each in reading.items(node):
        if not isinstance(each, yaml.MappingNode):
            reading.wrong(each, "a task of a list must be a mapping with a name and a command")
            continue
        keys = reading.pairs(each, "the task", _TASK)
        if "name" not in keys:
            reading.wrong(each, "the task has no name")
            continue
        name = reading.text(keys["name"][1], "a task's name")
        if name is not None:
            found.append((keys["name"][1], name, each))
    return found


def _task(reading: Reading, name: str, where: Node, node: Node, common: Common, batch: str) -> PlannedTask:
    what = f"task {name}:"
    if not isinstance(node, yaml.MappingNode):
        return PlannedTask(name, line_of(where), values.read_command(reading, node, f"{what} command"), common)
    keys = reading.pairs(node, what.removesuffix(":"), _TASK)
    if "name" in keys and reading.text(keys["name"][1], f"{what} name") != name:
        reading.wrong(keys["name"][1], f"{what} it has another name already, the key's")
    command: tuple[str, ...] = ()
    if "command" in keys:
        command = values.read_command(reading, keys["command"][1], f"{what} command")
    else:
        reading.wrong(where, f"{what} it has no command")
    agent = reading.text(keys["agent"][1], f"{what} agent") if "agent" in keys else None
    if agent is not None:
        agent = _checked_agent(reading, keys["agent"][1], f"{what} agent", agent, batch)
    return PlannedTask(
        name,
        line_of(where),
        command,
        _common(reading, keys, common, what),
        tuple(dict.fromkeys(reading.texts(keys["after"][1], f"{what} after"))) if "after" in keys else (),
        agent or "",
        (values.read_tokens(reading, keys["estimate"][1], f"{what} estimate") if "estimate" in keys else None) or 0,
        values.read_budget(reading, keys["budget"][1], f"{what} budget") if "budget" in keys else None,
    )


def _common(reading: Reading, keys: Mapping[str, tuple[Node, Node]], outer: Common, what: str) -> Common:
    def told(key: str) -> Node | None:
        return keys[key][1] if key in keys else None

    cwd, priority, timeout = outer.cwd, outer.priority, outer.timeout_s
    restarts, delay, on_failure, env = outer.restarts, outer.restart_delay_s, outer.on_failure, outer.env
    if (node := told("cwd")) is not None:
        cwd = cwd / Path(reading.text(node, f"{what} cwd") or ".").expanduser()
    if (node := told("priority")) is not None:
        chosen: Priority | None = reading.choice(node, f"{what} priority", values.PRIORITIES)
        priority = priority if chosen is None else chosen
    if (node := told("timeout")) is not None:
        timeout = values.read_seconds(reading, node, f"{what} timeout")
    if (node := told("restarts")) is not None:
        restarts = reading.whole(node, f"{what} restarts", 0, _MOST_RESTARTS) or 0
    if (node := told("restart_delay")) is not None:
        delay = values.read_seconds(reading, node, f"{what} restart_delay", zero=True) or 0.0
    if (node := told("on_failure")) is not None:
        on_failure = reading.choice(node, f"{what} on_failure", values.ON_FAILURE) or on_failure
    if (node := told("env")) is not None:
        env = {**env, **values.read_environment(reading, node, f"{what} env")}
    return Common(cwd, priority, timeout, restarts, delay, on_failure, env)


def _checked_agent(reading: Reading, node: Node, what: str, name: str, batch: str) -> str:
    """The name as it is shown."""
    if same(name, batch):
        reading.wrong(node, f"{what} {name}: that is what the batch itself is called; choose another")
    try:
        return normalised(name)
    except BadName as error:
        reading.wrong(node, f"{what}: {error}")
        return name


def _check_graph(reading: Reading, plan: Plan) -> None:
    for task in plan.tasks.values():
        for other in task.after:
            if other not in plan.tasks:
                hint = did_you_mean(other, plan.tasks) or "; there is no such task"
                reading.wrong(task.line, f"task {task.name} waits for {other[:40]!r}, which isn't in the plan{hint}")
    try:
        TopologicalSorter({task.name: task.after for task in plan.tasks.values()}).prepare()
    except CycleError as error:
        # As graphlib gives it, each one is waited for by the next.
        circle = list(reversed(error.args[1]))
        line = plan.tasks[circle[0]].line if circle[0] in plan.tasks else 1
        reading.wrong(line, f"tasks wait for each other: {' -> '.join(circle)}")
