"""The values of a plan, each checked by itself.

Validators raise ValueError with what comes after the value's name in a message. Values arrive as text, None, lists and
dictionaries. They may be secrets: a message repeats none but short words.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, PlainValidator, ValidationInfo

from hivemind.agent_names import BadName, normalised, same
from hivemind.agents.plans.document import kind_of
from hivemind.scheduler.types import Priority
from hivemind.text.amounts import WantedBudget, parse_budget
from hivemind.text.deadlines import parse_deadline
from hivemind.text.humanise import did_you_mean, span_of

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
WHOLE = re.compile(r"[0-9]{1,9}")
"""A whole number, as a plan may write it."""
_LONGEST_S = 365 * 86400.0
MOST_AGENTS = 1_000
"""Most agents of one command."""
_ARGUMENT = 128 << 10
"""Linux's limit of an argument in bytes, its final zero included."""
_SHELL_SIGNS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>"})


def is_name(text: str) -> bool:
    """Return whether this is a valid name of a task in the graph."""
    return _NAME.fullmatch(text) is not None


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
        seconds = span_of(given)
        if seconds is None or not (zero or seconds) or seconds > _LONGEST_S:
            raise ValueError(f"{given[:40]}: must be a span of time, as in 30s, 5m or 1h30m")
        return seconds

    return read


class WantedDeadline(NamedTuple):
    """A deadline, as a plan says it: a moment, or a span from when the task may first be started; 0: the other one."""

    text: str
    at: float
    """In seconds since the epoch."""
    span_s: float


def _deadline(value: object, info: ValidationInfo) -> WantedDeadline:
    given = text(value)
    try:
        at = parse_deadline(given, time.time(), passed=(info.context or {})["begun"])
    except ValueError as error:
        raise ValueError(f"{given[:40]}: {error}") from None
    span_s = span_of(given)
    return WantedDeadline(given, at, 0.0) if span_s is None or span_s == at else WantedDeadline(given, 0.0, span_s)


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
        if not WHOLE.fullmatch(given) or not least <= int(given) <= most:
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
Texts = Annotated[
    tuple[Text, ...],
    BeforeValidator(lambda value: value if isinstance(value, list) else [text(value)]),
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]
Argument = Annotated[str, PlainValidator(_argument)]
Command = Annotated[tuple[Argument, ...], BeforeValidator(_split), AfterValidator(_runnable)]
Folder = Annotated[Path, PlainValidator(lambda value: Path(text(value)).expanduser())]
Seconds = Annotated[float | None, PlainValidator(_seconds(zero=False))]
Deadline = Annotated[WantedDeadline | None, PlainValidator(_deadline)]
Delay = Annotated[float, PlainValidator(_seconds(zero=True))]
Budget = Annotated[WantedBudget | None, PlainValidator(_budget)]
Tokens = Annotated[int, PlainValidator(_tokens)]
PriorityName = Annotated[Priority, PlainValidator(_one_of({each.name.lower(): each for each in Priority}))]
OnFailure = Annotated[Literal["block", "skip"], PlainValidator(_one_of({"block": "block", "skip": "skip"}))]
Environment = Annotated[dict[str, Argument], AfterValidator(_variables)]
Switch = Annotated[bool, PlainValidator(_one_of({"true": True, "false": False, "yes": True, "no": False}))]
WorktreeBase = Annotated[str | None, PlainValidator(_worktree)]
AgentName = Annotated[str, PlainValidator(_agent)]
