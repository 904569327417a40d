"""A tool, and the errors of its calls: one line that a model can act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError

from hivemind.text.suggest import did_you_mean
from hivemind.tools.access import Caller, ProxyAccess

PREFIX = "hm"
_SHOWN = 5
"""Most names, or errors, in one line."""

Args = TypeVar("Args", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    verb: str
    """Its name without the prefix."""
    title: str
    description: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    run: Callable[[ProxyAccess, Caller, Any], Awaitable[BaseModel]]
    """Raises: ToolError, Rejected, Unavailable."""
    read_only: bool
    destructive: bool
    idempotent: bool

    def name(self, style: str) -> str:
        """Return the listed name: with a dot, or with an underscore."""
        return f"{PREFIX}{'_' if style == 'underscores' else '.'}{self.verb}"


def tool(
    title: str, *, read_only: bool = False, destructive: bool = False, idempotent: bool = False
) -> Callable[[Callable[[ProxyAccess, Caller, Args], Awaitable[Answer]]], Tool]:
    """Make a tool of a function: its name is the verb, its docstring the description for models."""

    def made(run: Callable[[ProxyAccess, Caller, Args], Awaitable[Answer]]) -> Tool:
        hints, text = get_type_hints(run), " ".join((run.__doc__ or "").split())
        return Tool(run.__name__, title, text, hints["args"], hints["return"], run, read_only, destructive, idempotent)

    return made


class ToolError(Exception):
    """The call can't be executed; the text says what is wrong, and what would be right."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ToolError:
    """Return the error for a name that doesn't exist."""
    names = list(known)
    hint = did_you_mean(name, names)
    if not hint and names:
        hint = f"; there are {', '.join(names[:_SHOWN])}" + (" and others" if len(names) > _SHOWN else "")
    return ToolError(f"no {kind} named {name[:80]!r}{hint or '; there is none yet'}")


def invalid_arguments(error: ValidationError, takes: type[BaseModel]) -> ToolError:
    """Return the error for arguments that fail validation, each named by its path."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [_line(each["type"], each["loc"], each["msg"], takes) for each in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return ToolError("; ".join([*lines, *more]))


def _line(kind: str, loc: tuple[int | str, ...], text: str, takes: type[BaseModel]) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
    if kind == "extra_forbidden":
        hint = did_you_mean(str(loc[-1]), takes.model_fields) if len(loc) == 1 else ""
        names = "" if hint or len(loc) > 1 else f"; there is {', '.join(takes.model_fields)}"
        return f"{place}: no such argument{hint}{names}"
    if kind == "missing":
        about = takes.model_fields[str(loc[0])].description if len(loc) == 1 else None
        return f"{place}: is missing" + (f"; it is: {about}" if about else "")
    text = text.removeprefix("Value error, ").removeprefix("Input ")
    return f"{place}: {text[:1].lower()}{text[1:]}"
