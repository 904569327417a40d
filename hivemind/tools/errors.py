"""Errors of tool calls: one line that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ValidationError

from hivemind.text.suggest import did_you_mean

_SHOWN = 5
"""Most names, or errors, in one line."""


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
