"""What a tool says where it can't do what it was asked: one line that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ValidationError

from hivemind.text.suggest import did_you_mean

_SHOWN = 5
"""Names, and mistakes, that one line tells."""


class ToolFailure(Exception):
    """The call can't be carried out as it is; the text says what was wrong, and what would be right."""


def unknown(kind: str, name: str, known: Iterable[str]) -> ToolFailure:
    """There is none of that name."""
    names = list(known)
    hint = did_you_mean(name, names)
    if not hint and names:
        hint = f"; there are {', '.join(names[:_SHOWN])}" + (" and others" if len(names) > _SHOWN else "")
    return ToolFailure(f"no {kind} named {name[:80]!r}{hint or '; there is none yet'}")


def mistakes(error: ValidationError, takes: type[BaseModel]) -> ToolFailure:
    """Arguments that don't fit, each named by its place."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = [_mistake(each["type"], each["loc"], each["msg"], takes) for each in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return ToolFailure("; ".join([*told, *more]))


def _mistake(kind: str, loc: tuple[int | str, ...], text: str, takes: type[BaseModel]) -> str:
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
