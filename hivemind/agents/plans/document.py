"""Reading a plan's file: plain data, the line of each value, and the mistakes found in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from hivemind.errors import UsageError
from hivemind.scheduler.tasks import MOST

Location = tuple[str | int, ...]
"""Keys and indexes that lead to a value."""
MOST_BYTES = 1 << 20
_MOST_STEPS = 200_000
"""Bounds the expansion of aliases of aliases."""
_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"


class _TooLongError(Exception):
    """A list or mapping with more items than a plan may have tasks."""


class _Loader(yaml.SafeLoader):
    """Stops at a plan with too many tasks, before all of it is read: that takes half a minute on a busy machine."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if isinstance(parent, yaml.CollectionNode) and len(parent.value) >= MOST:
            raise _TooLongError(_line(parent))
        return super().compose_node(parent, index)


class PlanError(UsageError):
    """A plan that can't be run, with a line for each mistake."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The mistakes."""
        return self._lines


class Document(Struct):
    """A plan that is being read. Its mistakes are collected and reported together."""

    name: str
    """The file's name as the user wrote it."""
    data: Any = None
    """Dictionaries, lists, None and text: `on`, `1.10` and `007` are text."""
    mistakes: list[tuple[int, str]] = field(default_factory=list)
    key_lines: dict[Location, int] = field(default_factory=dict)
    value_lines: dict[Location, int] = field(default_factory=dict)
    _steps: int = 0
    _moved: dict[Location, Location] = field(default_factory=dict)

    def has(self, path: Location) -> bool:
        """Return whether there is such a value."""
        return path in self.value_lines or self._in_list(path) in self.value_lines

    def line(self, path: Location, *, key: bool = False) -> int:
        """Return the line of a value, or of its key; if it doesn't exist, of its container."""
        lines = self.key_lines if key else self.value_lines
        found = lines.get(path) or lines.get(self._in_list(path))
        return found or (self.line(path[:-1]) if path else 1)

    def _in_list(self, path: Location) -> Location:
        return (*self._moved.get(path[:2], path[:2]), *path[2:])

    def wrong(self, line: int, text: str) -> None:
        """Note a mistake in that line."""
        self.mistakes.append((line, text))

    def check(self) -> None:
        """Raises: PlanError: there were mistakes."""
        if self.mistakes:
            raise PlanError(f"{self.name}:{line}: {text}" for line, text in sorted(set(self.mistakes)))

    def move(self, old: Location, new: Location) -> None:
        """Note the lines of a task of a list (`old`) also under its name (`new`)."""
        self.key_lines[new] = self.line((*old, "name"))
        self._moved[new] = old

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
        root = yaml.compose(text, Loader=_Loader)
        if root is not None:
            document.data = document.read(root)
    except _TooLongError as error:
        what = f"it has more than {MOST:,} items; a plan has at most {MOST:,} tasks"
        raise PlanError([f"{name}:{error}: {what}"]) from None
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
