"""A plan's text, taken apart into nodes that know their line, so that a mistake is told where it stands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hivemind.errors import UsageError
from hivemind.text.suggest import did_you_mean

Node = yaml.nodes.Node

MOST_BYTES = 1 << 20
_MOST_STEPS = 200_000
"""A page of aliases of aliases would be read for ever."""
_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"
_WHOLE = re.compile(r"[0-9]{1,9}")


class PlanError(UsageError):
    """A plan that can't be run; one line a mistake."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(slots=True)
class Reading:
    """One plan being read: its mistakes are collected, so that all are told at once."""

    name: str
    """Of the file, as the user wrote it."""
    mistakes: list[tuple[int, str]] = field(default_factory=list)
    _steps: int = 0

    def wrong(self, node: Node | int, text: str) -> None:
        """Note a mistake."""
        self.mistakes.append((node if isinstance(node, int) else line_of(node), text))

    def check(self) -> None:
        """Raises: PlanError: there were mistakes."""
        if self.mistakes:
            raise PlanError(f"{self.name}:{line}: {text}" for line, text in sorted(set(self.mistakes)))

    def pairs(self, node: Node, what: str, known: Iterable[str] | None = None) -> dict[str, tuple[Node, Node]]:
        """The keys of a mapping, each with its own node and its value's, what `<<` names among them.

        `known`: no others may be there.
        """
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"{what} must be a mapping (key: value), not {_kind(node)}")
            return {}
        found: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        allowed = None if known is None else tuple(known)
        for key, value in node.value:
            self._step(node)
            if key.tag == _MERGE:
                for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    merged = self.pairs(other, "what << names", known) | merged
                continue
            name = self.text(key, f"a key of {what}")
            if name is None:
                continue
            if name in found:
                self.wrong(key, f"{what} has {name} twice, first in line {line_of(found[name][0])}")
            elif allowed is not None and name.startswith("x-"):
                continue  # for anchors that several tasks refer to
            elif allowed is not None and name not in allowed:
                hint = did_you_mean(name, allowed) or f"; there are {', '.join(allowed)}"
                self.wrong(key, f"{what} has no {name}{hint}")
            else:
                found[name] = (key, value)
        return merged | found

    def items(self, node: Node) -> Iterator[Node]:
        """Of a list."""
        for each in node.value:
            self._step(node)
            yield each

    def text(self, node: Node, what: str, *, empty: bool = False) -> str | None:
        """A scalar as it is written, whatever YAML would take it for: `on`, `1.10` and `007` stay what they are."""
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(node, f"{what} must be text, not {_kind(node)}")
            return None
        value = _whole(node.value)
        if node.tag == _NULL or not (value or empty):
            if not empty:
                self.wrong(node, f"{what} is empty")
                return None
            return ""
        if "\0" in value:
            self.wrong(node, f"{what} has a zero byte, which can't be handed to a program")
            return None
        return value

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        if not isinstance(node, yaml.SequenceNode):
            one = self.text(node, what)
            return () if one is None else (one,)
        return tuple(text for each in self.items(node) if (text := self.text(each, f"an item of {what}")) is not None)

    def whole(self, node: Node, what: str, least: int, most: int) -> int | None:
        """A whole number."""
        text = self.text(node, what)
        if text is None:
            return None
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            self.wrong(node, f"{what} {text[:40]}: must be a whole number from {least:,} to {most:,}")
            return None
        return int(text)

    def choice(self, node: Node, what: str, choices: Mapping[str, Any]) -> Any:
        """One of some words."""
        text = self.text(node, what)
        if text is None:
            return None
        if text.lower() not in choices:
            hint = did_you_mean(text, choices) or f"; must be {_either(choices)}"
            self.wrong(node, f"{what} {text[:40]}: there is no such{hint}")
            return None
        return choices[text.lower()]

    def _step(self, node: Node) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.wrong(node, "the plan refers to itself over and over (aliases); write it out")
            self.check()


def compose(path: Path, reading: Reading) -> Node:
    """The file's root. Raises: PlanError: it can't be read, or isn't YAML."""
    text = _decoded(path, reading.name)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = (error.problem or error.context or "it can't be read").replace("\n", " ")
        line = 1 if mark is None else mark.line + 1
        raise PlanError([f"{reading.name}:{line}: not YAML: {problem}"]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise PlanError([f"{reading.name}:{line}: not YAML: it has a character that text can't have"]) from None
    except yaml.YAMLError:
        raise PlanError([f"{reading.name}: not YAML"]) from None
    except RecursionError:
        raise PlanError([f"{reading.name}: it is nested too deeply"]) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == _NULL):
        raise PlanError([f"{reading.name}: it is empty; a plan needs tasks"])
    return root


def line_of(node: Node) -> int:
    """Counted from 1."""
    line: int = node.start_mark.line
    return line + 1


def _decoded(path: Path, name: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe without a writer must not hold us
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
    # Between the values of JSON tabs are blanks, which YAML doesn't know; within them JSON has none.
    return text.replace("\t", " ") if path.suffix == ".json" else text


def _whole(text: str) -> str:
    """JSON writes some characters as two halves."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _kind(node: Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "nothing" if node.tag == _NULL else "text"


def _either(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
