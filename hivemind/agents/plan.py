"""A batch's plan: a YAML file of tasks, each with a command, what it waits for, and what it may use.

Validators of values raise ValueError with what comes after the value's name in a message. Values arrive as text, None,
lists and dictionaries. They may be secrets: a message repeats none but short words.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from hivemind.agent_names import BadName, normalised, same
from hivemind.agents.worktrees import WantedWorktree
from hivemind.errors import HiveMindError, UsageError
from hivemind.redaction.text import holds_key
from hivemind.scheduler.tasks import Tasks
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.amounts import WantedBudget, parse_budget
from hivemind.text.humanise import did_you_mean

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WHOLE = re.compile(r"[0-9]{1,9}")
_NUMBERED = re.compile(r"[1-9][0-9]{0,8}")
_LONGEST_S = 365 * 86400.0
MOST_AGENTS = 1_000
"""Most agents of one command."""
_ARGUMENT = 128 << 10
"""Linux's limit of an argument in bytes, its final zero included."""
_SHELL_SIGNS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>"})


def is_name(text: str) -> bool:
    """Return whether this is a valid name of a task in the graph."""
    return _NAME.fullmatch(text) is not None


def parse_seconds(text: str) -> float | None:
    """Return the seconds of `30m`, `1h30m`, `2.5s` or a bare number; None if it is no span of time."""
    given = text.strip().lower()
    if _NUMBER.fullmatch(given):
        return float(given)
    parts = _PART.findall(given)
    if not parts or _PART.sub("", given):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _argument(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"must be text, not {kind_of(value)}")
    if "\0" in value:
        raise ValueError("has a zero byte, which can't be handed to a program")
    return value


def text(value: object) -> str:
    """Return the value, which must be text and not empty."""
    found = _argument(value)
    if not found:
        raise ValueError("is empty")
    return found


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else [text(value)]


def _split(value: object) -> list[object]:
    if isinstance(value, list):
        if not value:
            raise ValueError("is empty")
        return value
    line = text(value)
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"can't be taken apart ({str(error).lower()}); mend it, or write it as a list") from None
    sign = next((part for part in parts if part in _SHELL_SIGNS), None)
    if sign is not None:
        raise ValueError(f"has {sign}, but no shell reads it; write it as [sh, -c, '...']")
    return [*parts]


def _runnable(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0]:
        raise ValueError("names no program")
    if any(len(part.encode()) >= _ARGUMENT for part in command):
        raise ValueError(f"has an argument longer than {_ARGUMENT >> 10} KiB; put that in a file")
    return command


def _seconds(*, zero: bool) -> Callable[[object], float]:
    def read(value: object) -> float:
        given = text(value)
        seconds = parse_seconds(given)
        if seconds is None or not (zero or seconds) or seconds > _LONGEST_S:
            raise ValueError(f"{given[:40]}: must be a span of time, as in 30s, 5m or 1h30m")
        return seconds

    return read


def _budget(value: object) -> WantedBudget:
    given = text(value)
    try:
        found = parse_budget(given)
    except ValueError as error:
        raise ValueError(f": {error}") from None
    if found.more:
        raise ValueError(f"{given[:40]}: a plan says how much in all, without a +")
    return found


def _tokens(value: object) -> int:
    given = text(value)
    try:
        found = parse_budget(given)
    except ValueError:
        found = WantedBudget(None, None, None)
    if found.tokens is None or found.dollars is not None or found.per is not None or found.more:
        raise ValueError(f"{given[:40]}: must be a number of tokens, as in 50k")
    return found.tokens


def _one_of(choices: Mapping[str, T]) -> Callable[[object], T]:
    def read(value: object) -> T:
        given = text(value)
        if given.lower() not in choices:
            *most, last = choices
            hint = did_you_mean(given, choices) or f"; must be {', '.join(most)} or {last}"
            raise ValueError(f"{given[:40]}: there is no such{hint}")
        return choices[given.lower()]

    return read


def whole(least: int, most: int) -> Any:
    """Return the validator of a whole number in that range."""

    def read(value: object) -> int:
        given = text(value)
        if not _WHOLE.fullmatch(given) or not least <= int(given) <= most:
            raise ValueError(f"{given[:40]}: must be a whole number from {least:,} to {most:,}")
        return int(given)

    return PlainValidator(read)


def _worktree(value: object) -> str | None:
    """Return the base of a worktree; empty: the last commit."""
    given = text(value)
    return {"true": "", "yes": "", "on": "", "false": None, "no": None, "off": None}.get(given.lower(), given)


def _variables(env: dict[str, str]) -> dict[str, str]:
    for name in env:
        if "=" in name:
            raise ValueError(f"has {name[:40]}: a variable's name can't have =")
    return env


def _agent(value: object, info: ValidationInfo) -> str:
    given = text(value)
    if same(given, (info.context or {})["batch"]):
        raise ValueError(f"{given}: that is what the batch itself is called; choose another")
    try:
        return normalised(given)
    except BadName as error:
        raise ValueError(f": {error}") from None


Text = Annotated[str, PlainValidator(text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_texts), AfterValidator(lambda names: tuple(dict.fromkeys(names)))]
Argument = Annotated[str, PlainValidator(_argument)]
Command = Annotated[tuple[Argument, ...], BeforeValidator(_split), AfterValidator(_runnable)]
Folder = Annotated[Path, PlainValidator(lambda value: Path(text(value)).expanduser())]
Seconds = Annotated[float | None, PlainValidator(_seconds(zero=False))]
Delay = Annotated[float, PlainValidator(_seconds(zero=True))]
Budget = Annotated[WantedBudget | None, PlainValidator(_budget)]
Tokens = Annotated[int, PlainValidator(_tokens)]
PriorityName = Annotated[Priority, PlainValidator(_one_of({each.name.lower(): each for each in Priority}))]
OnFailure = Annotated[Literal["block", "skip"], PlainValidator(_one_of({"block": "block", "skip": "skip"}))]
Environment = Annotated[dict[str, Argument], AfterValidator(_variables)]
Switch = Annotated[bool, PlainValidator(_one_of({"true": True, "false": False, "yes": True, "no": False}))]
WorktreeBase = Annotated[str | None, PlainValidator(_worktree)]
AgentName = Annotated[str, PlainValidator(_agent)]


class TaskSettings(BaseModel):
    """Settings of a plan for all of its tasks, each of which may override them."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    priority: PriorityName = Priority.NORMAL
    timeout: Seconds = None
    restarts: Annotated[int, whole(0, 1_000)] = 0
    restart_delay: Delay = 0.0
    on_failure: OnFailure = "block"
    cwd: Folder = Path()
    worktree: WorktreeBase = None
    require_traffic: Switch = False
    env: Environment = Field(default={}, repr=False)


class PlannedTask(TaskSettings):
    """A task of a plan, with the plan's settings as defaults."""

    name: Text = ""
    command: Command
    after: Texts = ()
    agent: AgentName = ""
    """Empty: an agent of the task's own name."""
    estimate: Tokens = 0
    budget: Budget = None
    count: Annotated[int | None, whole(1, MOST_AGENTS)] = None
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
        )


class _PlanModel(TaskSettings):
    name: Text = ""
    max_agents: Annotated[int | None, whole(1, 1_000_000)] = None
    budget: Budget = None
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

    def order(self) -> list[PlannedTask]:
        """Return the tasks in the order in which they would run one at a time."""
        graph, found = Tasks(), []
        graph.submit(self.specs())
        while ready := graph.eligible():
            name = ready[0].spec.id
            graph.claim(name, "")
            graph.finish(name, ok=True, note="", again=False)
            found.append(self.tasks[name.removeprefix(f"{self.name}.")])
        return found


def read_plan(path: Path, shown: str, *, unseen: bool = False) -> Plan:
    """Read and check a plan; `shown` is its name as the user wrote it. With `unseen`, worktrees may begin at the last
    commit also where files are changed since.

    Raises: PlanError: with a line for each mistake.
    """
    document = read_document(path, shown)
    name = _name(document, path)
    lines = _tasks(document, name)
    try:
        model = _PlanModel.model_validate(document.data, context={"batch": name})
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
        planned[key]._line = lines[key]
    _check_worktrees(document, planned, unseen=unseen)
    planned = _numbered(document, name, planned)
    plan = Plan(name, shown, str(path.absolute()), env, model.max_agents, model.budget, planned)
    _check_cycles(document, plan)
    document.check()
    return plan


def _check_worktrees(document: Document, tasks: Mapping[str, PlannedTask], *, unseen: bool) -> None:
    """Find the repository and the commit of each task that wants a worktree."""
    found: dict[tuple[Path, str], WantedWorktree] = {}
    for task in tasks.values():
        if task.worktree is None:
            continue
        where = (task.cwd, task.worktree)
        try:
            if where not in found:
                base, environ = task.worktree or None, {**os.environ, **task.env}
                found[where] = WantedWorktree.checked(base, task.cwd, environ, flag="worktree", unseen=unseen)
        except HiveMindError as error:
            document.wrong(_line_of_worktree(document, task.name), f"task {task.name}: {error}")
        else:
            task.start_in(found[where])


def _line_of_worktree(document: Document, task: str) -> int:
    paths: list[Location] = [("tasks", task, "worktree"), ("worktree",)]
    return next((document.line(path) for path in paths if path in document.value_lines), 1)


def _numbered(document: Document, batch: str, tasks: dict[str, PlannedTask]) -> dict[str, PlannedTask]:
    """Replace each task with a count by as many; who waits for it waits for all of them."""
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
    found = document.data.get("tasks", {})
    nameless = isinstance(found, list) and not all(isinstance(each, dict) and each.get("name") for each in found)
    if isinstance(found, list):
        found = document.data["tasks"] = _by_name(document, found)
    if not isinstance(found, dict):
        return {}
    lines = {name: document.line(("tasks", name), key=True) for name in found}
    given = found
    for name, line in lines.items():
        if not is_name(f"{batch}.{name}"):
            what = "a name is letters, digits, . _ and -, and with the plan's before it at most 80 of them"
            document.wrong(line, f"task {name[:40]!r}: {what}")
        elif holds_key(f"{batch}.{name}"):
            document.wrong(line, "a task's name would be shown, and this one looks like a key; choose another")
        elif isinstance(found[name], dict) and found[name].get("name", name) != name:
            line = document.line(("tasks", name, "name"))
            document.wrong(line, f"task {name}: it has another name already, the key's")
        else:
            continue
        found = document.data["tasks"] = {key: task for key, task in found.items() if key != name}
    if not lines and not document.mistakes:
        document.wrong(document.line(("tasks",)), "the plan has no tasks")
    if not nameless:  # else it may be the one that a task waits for
        _check_after(document, given, found)
    return lines


def _check_after(document: Document, tasks: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Check that the tasks wait for none that isn't there, before the model reads them: so this comes together with
    other mistakes. Only names of `named` are shown."""
    counts = {name: str(task["count"]) for name, task in tasks.items() if isinstance(task, dict) and "count" in task}
    valid = {name: int(given) for name, given in counts.items() if _WHOLE.fullmatch(given) and int(given)}
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
    found: dict[str, Any] = {}
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
        if name in found:
            first = document.line(("tasks", name), key=True)
            document.wrong(line, f"task {name} is there twice, first in line {first}")
            continue
        found[name] = task
        document.move(here, ("tasks", name))
    return found


def _explained(error: ErrorDetails, document: Document) -> tuple[int, str]:
    """Return the line of a mistake and what is wrong there."""
    path = tuple(each for each in error["loc"])
    what, inside = described(path), path[:-1]
    if error["type"] == "missing":
        return document.line(inside, key=True), f"{described(inside)}: it has no {path[-1]}"
    if error["type"] == "extra_forbidden":
        names = list(_PlanModel.model_fields if not inside else PlannedTask.model_fields)
        hint = did_you_mean(str(path[-1]), names) or f"; there are {', '.join(names)}"
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


Location = tuple[str | int, ...]
"""Keys and indexes that lead to a value."""
MOST_BYTES = 1 << 20
_MOST_STEPS = 200_000
"""Bounds the expansion of aliases of aliases."""
_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"


class PlanError(UsageError):
    """A plan that can't be run, with a line for each mistake."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The mistakes."""
        return self._lines


@dataclass(slots=True)
class Document:
    """A plan that is being read. Its mistakes are collected and reported together."""

    name: str
    """The file's name as the user wrote it."""
    data: Any = None
    """Dictionaries, lists, None and text: `on`, `1.10` and `007` are text."""
    mistakes: list[tuple[int, str]] = field(default_factory=list)
    key_lines: dict[Location, int] = field(default_factory=dict)
    value_lines: dict[Location, int] = field(default_factory=dict)
    _steps: int = 0

    def line(self, path: Location, *, key: bool = False) -> int:
        """Return the line of a value, or of its key; if it doesn't exist, of its container."""
        lines = self.key_lines if key else self.value_lines
        return lines[path] if path in lines else self.line(path[:-1]) if path else 1

    def wrong(self, line: int, text: str) -> None:
        """Note a mistake in that line."""
        self.mistakes.append((line, text))

    def check(self) -> None:
        """Raises: PlanError: there were mistakes."""
        if self.mistakes:
            raise PlanError(f"{self.name}:{line}: {text}" for line, text in sorted(set(self.mistakes)))

    def move(self, old: Location, new: Location) -> None:
        """Note the lines of an item of a list also under its name."""
        self.key_lines[new] = self.line((*old, "name"))
        for lines in (self.key_lines, self.value_lines):
            lines.update({(*new, *path[len(old) :]): line for path, line in lines.items() if path[: len(old)] == old})

    def read(self, node: yaml.Node, path: Location = ()) -> Any:
        """Return the node as plain data, and note its lines."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.wrong(_line(node), "the plan refers to itself over and over (aliases); write it out")
            self.check()
        self.value_lines[path] = _line(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(each, (*path, place)) for place, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return None if node.tag == _NULL else _joined_surrogates(node.value)

    def _mapping(self, node: yaml.MappingNode, path: Location) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        holds_anchors = not path or (len(path) == 2 and path[0] == "tasks")
        for key, value in node.value:
            if key.tag == _MERGE:
                for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    named = self.read(other, path)
                    if isinstance(named, dict):
                        merged = named | merged
                    else:
                        self.wrong(_line(other), f"what << names must be a mapping (key: value), not {kind_of(named)}")
                continue
            name = key.value
            if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL or not name or "\0" in name:
                self.wrong(_line(key), f"a key of {described(path)} must be text")
            elif name in found:
                first = self.key_lines[*path, name]
                self.wrong(_line(key), f"{described(path)} has {name} twice, first in line {first}")
            elif not (holds_anchors and name.startswith("x-")):  # x- keys only define anchors
                found[name] = self.read(value, (*path, name))
                self.key_lines[*path, name] = _line(key)
        self.value_lines[path] = _line(node)
        return merged | found


def described(path: Location) -> str:
    """Return what a message calls the value: `task a: timeout`, `A in task a: env`, `the plan's cwd`."""
    match path:
        case ():
            return "the plan"
        case ("tasks" | "name" | "max_agents" | "budget" as name,):
            return name
        case (name,):
            return f"the plan's {name}"
        case ("tasks", int()):
            return "the task"
        case ("tasks", name):
            return f"task {name}"
        case ("tasks", int(), "name"):
            return "a task's name"
        case (*outer, int()):
            return f"an item of {described(tuple(outer))}"
        case (*outer, "env", name):
            return f"{name} in {described((*outer, 'env'))}"
        case (*outer, name):
            return f"{described(tuple(outer))}: {name}"
    return "it"


def kind_of(value: object) -> str:
    """Return the kind of a value, for a message."""
    return {list: "a list", dict: "a mapping", str: "text", type(None): "nothing"}.get(type(value), "something else")


def read_document(path: Path, name: str) -> Document:
    """Read a YAML or JSON file; `name` is what messages call it. Raises: PlanError: it can't be read, or isn't YAML."""
    document = Document(name)
    text = _decoded(path, name)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            document.data = document.read(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "it can't be read").replace("\n", " ")
        line = 1 if mark is None else mark.line + 1
        raise PlanError([f"{name}:{line}: not YAML: {problem}"]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise PlanError([f"{name}:{line}: not YAML: it has a character that text can't have"]) from None
    except yaml.YAMLError:
        raise PlanError([f"{name}: not YAML"]) from None
    except RecursionError:
        raise PlanError([f"{name}: it is nested too deeply"]) from None
    if document.data is None:
        raise PlanError([f"{name}: it is empty; a plan needs tasks"])
    return document


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _decoded(path: Path, name: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe without a writer must not block
            data = file.read(MOST_BYTES + 1) or b""
    except OSError as error:
        raise PlanError([f"{name}: can't be read ({error.strerror})"]) from None
    if len(data) > MOST_BYTES:
        raise PlanError([f"{name}: it is larger than {MOST_BYTES >> 20} MiB, too large for a plan"])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError([f"{name}:{line}: it isn't UTF-8 text"]) from None
    # JSON allows tabs between values, and only there; YAML doesn't.
    return text.replace("\t", " ") if path.suffix == ".json" else text


def _joined_surrogates(text: str) -> str:
    """Join surrogate pairs, as JSON writes some characters."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
