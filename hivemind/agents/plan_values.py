"""Values of a plan that are more than a word: commands, spans of time, amounts of tokens, environments."""

from __future__ import annotations

import re
import shlex

import yaml

from hivemind.agents.plan_nodes import Node, Reading
from hivemind.scheduler.types import Priority
from hivemind.text.amounts import WantedBudget, parse_budget

PRIORITIES = {each.name.lower(): each for each in Priority}
ON_FAILURE = {"block": "block", "skip": "skip"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LONGEST_S = 365 * 86400.0
_ARGUMENT = 128 << 10
"""Bytes that Linux hands to a program in one argument, the zero at its end included."""
_SHELLS_OWN = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>"})


def is_name(text: str) -> bool:
    """Whether a task of the graph may be called that."""
    return _NAME.fullmatch(text) is not None


def read_command(reading: Reading, node: Node, what: str) -> tuple[str, ...]:
    """A command line, or a list of its parts."""
    if isinstance(node, yaml.SequenceNode):
        parts = [reading.text(each, f"an item of {what}", empty=True) for each in reading.items(node)]
        if not parts:
            reading.wrong(node, f"{what} is empty")
        command = tuple(part for part in parts if part is not None)
    else:
        line = reading.text(node, what)
        if line is None:
            return ()
        try:
            command = tuple(shlex.split(line))
        except ValueError as error:
            reading.wrong(node, f"{what} can't be taken apart ({str(error).lower()}); mend it, or write it as a list")
            return ()
        sign = next((part for part in command if part in _SHELLS_OWN), None)
        if sign is not None:
            reading.wrong(node, f"{what} has {sign}, but no shell reads it; write it as [sh, -c, '...']")
    if command and not command[0]:
        reading.wrong(node, f"{what} names no program")
    if any(len(part.encode()) >= _ARGUMENT for part in command):
        reading.wrong(node, f"{what} has an argument longer than {_ARGUMENT >> 10} KiB; put that in a file")
    return command


def read_seconds(reading: Reading, node: Node, what: str, *, zero: bool = False) -> float | None:
    """`30m`, `1h30m`, `2.5s`; a bare number is seconds."""
    text = reading.text(node, what)
    if text is None:
        return None
    seconds = parse_seconds(text)
    if seconds is None or not (zero or seconds) or seconds > _LONGEST_S:
        reading.wrong(node, f"{what} {text[:40]}: must be a span of time, as in 30s, 5m or 1h30m")
        return None
    return seconds


def parse_seconds(text: str) -> float | None:
    """The same; None where it is no span of time."""
    asked = text.strip().lower()
    if _NUMBER.fullmatch(asked):
        return float(asked)
    parts = _PART.findall(asked)
    if not parts or _PART.sub("", asked):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def read_budget(reading: Reading, node: Node, what: str) -> WantedBudget | None:
    """`200k`, `$5`, `$5/day`."""
    text = reading.text(node, what)
    if text is None:
        return None
    try:
        found = parse_budget(text)
    except ValueError as error:
        reading.wrong(node, f"{what}: {error}")
        return None
    if found.more:
        reading.wrong(node, f"{what} {text[:40]}: a plan says how much in all, without a +")
    return found


def read_tokens(reading: Reading, node: Node, what: str) -> int | None:
    """`50k`."""
    text = reading.text(node, what)
    if text is None:
        return None
    try:
        found = parse_budget(text)
    except ValueError:
        found = WantedBudget(None, None, None)
    if found.tokens is None or found.dollars is not None or found.per is not None or found.more:
        reading.wrong(node, f"{what} {text[:40]}: must be a number of tokens, as in 50k")
        return None
    return found.tokens


def read_environment(reading: Reading, node: Node, what: str) -> dict[str, str]:
    """Names and values; values may be secrets and aren't repeated."""
    found = {}
    for name, (key, value) in reading.pairs(node, what).items():
        if "=" in name:
            reading.wrong(key, f"{what} has {name[:40]}: a variable's name can't have =")
            continue
        text = reading.text(value, f"{name} in {what}", empty=True)
        if text is not None:
            found[name] = text
    return found
