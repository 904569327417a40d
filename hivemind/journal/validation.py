"""Whether an event says what it can say. JSON of the right types isn't enough where words or folds are chosen by what
stands in it, and a damaged or hostile file may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command, SubmitTasks
from hivemind.scheduler.types import Priority
from hivemind.world.lines import line_of

CHECKED = frozenset({ev.Commanded, ev.Nudged, ev.BudgetWarned})
"""Kinds of which that is to be asked; there are few of them in a journal."""
_COMMANDS: Mapping[str, type[Any]] = {made.__name__: made for made in get_args(Command) if made is not SubmitTasks}
"""Those of which the event has the command's own arguments."""
_DEEPEST = 16


def check(event: ev.Event) -> None:
    """Raises: ValidationError: no event of ours says that."""
    try:
        if isinstance(event, ev.Commanded):
            _check_depth(event.arguments)
            made = _COMMANDS.get(event.name)
            if made is not None:
                msgspec.convert(_with_priority(event.arguments), made)
        line_of(event, 0.0)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise
        raise msgspec.ValidationError(f"{type(event).__name__} doesn't say that") from None


def _with_priority(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The event has it by name."""
    found = dict(arguments)
    if "priority" in found:
        found["priority"] = Priority[str(found["priority"]).upper()]
    return found


def _check_depth(value: object, left: int = _DEEPEST) -> None:
    """Raises: ValidationError: nobody could write it down, or show it, again."""
    if not left:
        raise msgspec.ValidationError("nested too deep")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(each, left - 1)
