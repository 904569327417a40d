"""From a plan's file to a plan: names, settings and dependencies are checked, and mistakes reported together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hivemind.agents.plans.document import Document, Location, described, kind_of, read_document
from hivemind.agents.plans.plan import Plan, PlanModel, PlannedTask, TaskSettings
from hivemind.agents.plans.values import MOST_AGENTS, WHOLE, is_name, text
from hivemind.agents.worktrees import WantedWorktree
from hivemind.errors import HiveMindError
from hivemind.redaction.text import holds_key
from hivemind.scheduler.tasks import MOST
from hivemind.text.humanise import did_you_mean, instead_of

MOST_WAITS = 200_000
"""Waits of one task for another in a plan; millions, of a few groups with counts, take minutes to submit."""
_NUMBERED = re.compile(r"[1-9][0-9]{0,8}")


def read_plan(path: Path, shown: str, *, begun: bool = False) -> Plan:
    """Read and check a plan; `shown` is its name as the user wrote it. Of a batch that has `begun`, deadlines may have
    passed, and worktrees may begin at the last commit also where files are changed since.

    Raises: PlanError: with a line for each mistake.
    """
    document = read_document(path, shown)
    name = _name(document, path)
    lines = _tasks(document, name)
    try:
        model = PlanModel.model_validate(document.data, context={"batch": name, "begun": begun})
    except ValidationError as error:
        for each in error.errors(include_url=False):
            document.wrong(*_explained(each, document))
        document.check()
        raise
    folder = path.absolute().parent
    env, inherited = model.env, {name: getattr(model, name) for name in TaskSettings.model_fields}
    planned = {}
    for key, task in model.tasks.items():
        given = {name: value for name, value in task if name in task.model_fields_set}
        places = {"cwd": folder / model.cwd / task.cwd, "env": {**env, **task.env}, "name": key}
        planned[key] = task.model_copy(update={**inherited, **given, **places})
        planned[key].begins_at(lines[key])
    _check_worktrees(document, planned, unseen=begun)
    planned = _numbered(document, name, planned)
    plan = Plan(name, shown, str(path.absolute()), env, model.max_agents, model.budget, planned)
    _check_cycles(document, plan)
    document.check()
    return plan


def _check_worktrees(document: Document, tasks: Mapping[str, PlannedTask], *, unseen: bool) -> None:
    """Find the repository and the commit of each task that wants a worktree."""
    worktrees: dict[tuple[Path, str], WantedWorktree] = {}
    for task in tasks.values():
        if task.worktree is None:
            continue
        where = (task.cwd, task.worktree)
        try:
            if where not in worktrees:
                base, environ = task.worktree or None, {**os.environ, **task.env}
                worktrees[where] = WantedWorktree.checked(base, task.cwd, environ, flag="worktree", unseen=unseen)
        except HiveMindError as error:
            document.wrong(_line_of_worktree(document, task.name), f"task {task.name}: {error}")
        else:
            task.start_in(worktrees[where])


def _line_of_worktree(document: Document, task: str) -> int:
    paths: list[Location] = [("tasks", task, "worktree"), ("worktree",)]
    return next((document.line(path) for path in paths if document.has(path)), 1)


def _numbered(document: Document, batch: str, tasks: dict[str, PlannedTask]) -> dict[str, PlannedTask]:
    """Replace each task with a count by as many; who waits for it waits for all of them."""
    counts = {name: task.count or 1 for name, task in tasks.items()}
    number = sum(counts.values())
    waits = sum(counts[name] * sum(counts.get(other, 1) for other in task.after) for name, task in tasks.items())
    too_large = ""
    if number > MOST:
        too_large = f"it has {number:,} tasks; a plan has at most {MOST:,}"
    elif waits > MOST_WAITS:
        too_large = f"its tasks wait {waits:,} times for another, at most {MOST_WAITS:,}: put one between large groups"
    if too_large:
        document.wrong(document.line(("tasks",), key=True), too_large)
        document.check()
    made: dict[str, PlannedTask] = {}
    several: dict[str, tuple[str, ...]] = {}
    for name, task in tasks.items():
        own = task.numbered(name)
        if task.count is not None:
            several[name] = tuple(own)
        line = document.line(("tasks", name, "count"))
        for each in own if task.count is not None else ():
            if each in tasks:
                document.wrong(line, f"task {name}: its count makes a task {each}, which the plan has already")
            elif not is_name(f"{batch}.{each}"):
                document.wrong(line, f"task {name}: with the plan's name and a number its name is longer than 80")
                break
        made |= own
    for task in made.values():
        names = (each for other in task.after for each in several.get(other, (other,)))
        task.after = tuple(dict.fromkeys(names))
    return made


def _name(document: Document, path: Path) -> str:
    data = document.data if isinstance(document.data, dict) else {}
    name = data.get("name", path.stem)
    if not isinstance(name, str) or not name:
        return "plan"  # the model reports the mistake
    if is_name(name):
        return name
    hint = "" if "name" in data else ", and the file's name isn't such a one; give the plan a name"
    what = f"name {name[:40]!r}: must be letters, digits, . _ and -, up to 80 of them{hint}"
    document.wrong(document.line(("name",)), what)
    return "plan"


def _tasks(document: Document, batch: str) -> dict[str, int]:
    """Check the tasks' names, and make a list of tasks a mapping. Return the line of each name."""
    if not isinstance(document.data, dict):
        return {}
    tasks = document.data.get("tasks", {})
    nameless = isinstance(tasks, list) and not all(isinstance(each, dict) and each.get("name") for each in tasks)
    if isinstance(tasks, list):
        tasks = document.data["tasks"] = _by_name(document, tasks)
    if not isinstance(tasks, dict):
        return {}
    lines = {name: document.line(("tasks", name), key=True) for name in tasks}
    written = tasks
    for name, line in lines.items():
        if not is_name(f"{batch}.{name}"):
            what = "a name is letters, digits, . _ and -, and with the plan's before it at most 80 of them"
            document.wrong(line, f"task {name[:40]!r}: {what}")
        elif holds_key(f"{batch}.{name}"):
            document.wrong(line, "a task's name would be shown, and this one looks like a key; choose another")
        elif isinstance(tasks[name], dict) and tasks[name].get("name", name) != name:
            line = document.line(("tasks", name, "name"))
            document.wrong(line, f"task {name}: it has another name already, the key's")
        else:
            continue
        tasks = document.data["tasks"] = {key: task for key, task in tasks.items() if key != name}
    if not lines and not document.mistakes:
        document.wrong(document.line(("tasks",)), "the plan has no tasks")
    if not nameless:  # else it may be the one that a task waits for
        _check_after(document, written, tasks)
    return lines


def _check_after(document: Document, tasks: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Check that the tasks wait for none that isn't there, before the model reads them: so this comes together with
    other mistakes. Only names of `named` are shown."""
    counts = {name: str(task["count"]) for name, task in tasks.items() if isinstance(task, dict) and "count" in task}
    valid = {name: int(given) for name, given in counts.items() if WHOLE.fullmatch(given) and int(given)}
    ranges = dict.fromkeys(counts, MOST_AGENTS) | valid
    for name, task in tasks.items():
        after = task.get("after") if isinstance(task, dict) else None
        for place, other in enumerate(after if isinstance(after, list) else [after]):
            if not isinstance(other, str) or not other or other in tasks or _is_numbered(other, ranges):
                continue
            numbered = (f"{each}-{most}" for each, most in valid.items() if each in named)
            hint = did_you_mean(other, [*named, *numbered]) or "; there is no such task"
            who, line = f"task {name}" if name in named else "the task", ("tasks", name, "after", place)
            document.wrong(document.line(line), f"{who} waits for {other[:40]!r}, which isn't in the plan{hint}")


def _is_numbered(name: str, ranges: Mapping[str, int]) -> bool:
    """Return whether this is one of the tasks that a count makes."""
    base, _, number = name.rpartition("-")
    return base in ranges and bool(_NUMBERED.fullmatch(number)) and int(number) <= ranges[base]


def _by_name(document: Document, tasks: list[Any]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for place, task in enumerate(tasks):
        here = ("tasks", place)
        if not isinstance(task, dict):
            document.wrong(document.line(here), "a task of a list must be a mapping with a name and a command")
            continue
        if "name" not in task:
            document.wrong(document.line(here), "the task has no name")
            continue
        line = document.line((*here, "name"))
        try:
            name = text(task["name"])
        except ValueError as error:
            document.wrong(line, f"a task's name {error}")
            continue
        if name in by_name:
            first = document.line(("tasks", name), key=True)
            document.wrong(line, f"task {name} is there twice, first in line {first}")
            continue
        by_name[name] = task
        document.move(here, ("tasks", name))
    return by_name


def _explained(error: ErrorDetails, document: Document) -> tuple[int, str]:
    """Return the line of a mistake and what is wrong there."""
    path = tuple(each for each in error["loc"])
    what, inside = described(path), path[:-1]
    if error["type"] == "missing":
        return document.line(inside, key=True), f"{described(inside)}: it has no {path[-1]}"
    if error["type"] == "extra_forbidden":
        names = list(PlanModel.model_fields if not inside else PlannedTask.model_fields)
        hint = instead_of(str(path[-1]), names)
        return document.line(path, key=True), f"{described(inside)} has no {path[-1]}{hint}"
    if error["type"] == "value_error":
        text = str(error["ctx"]["error"])
        return document.line(path), f"{what}{'' if text.startswith(':') else ' '}{text}"
    return document.line(path), f"{what} must be a mapping (key: value), not {kind_of(error['input'])}"


def _check_cycles(document: Document, plan: Plan) -> None:
    try:
        TopologicalSorter({task.name: task.after for task in plan.tasks.values()}).prepare()
    except CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib lists the awaited one first
        line = plan.tasks[circle[0]].line if circle[0] in plan.tasks else 1
        document.wrong(line, f"tasks wait for each other: {' -> '.join(circle)}")
