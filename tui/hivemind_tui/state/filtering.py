"""Which agents and requests a list shows, and in which order: what was typed after `/`, and the column sorted by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hivemind.world.request_view import RequestView
from hivemind.world.snapshot import AgentView, Line, TaskView
from hivemind_tui.render.glyphs import PRIORITIES, sign, task_sign

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """How a list is arranged."""

    filter: str = ""
    """Words that must all be there; `!word` must not; `field:word` looks in one field alone."""
    sort: str = ""
    """Id of a column; empty: as the source has them."""
    reverse: bool = False
    """Against the column's usual direction."""


def agent_fields(agent: AgentView) -> Mapping[str, str]:
    """What a filter finds an agent by."""
    return {
        "agent": agent.name,
        "client": agent.client,
        "parent": agent.parent or "",
        "state": sign(agent.state).word,
        "prio": PRIORITIES[agent.priority][0],
        "task": agent.task or "",
        "error": agent.last_error,
    }


def request_fields(request: RequestView) -> Mapping[str, str]:
    """What a filter finds a request by."""
    return {
        "agent": request.agent,
        "model": request.model,
        "lane": request.lane,
        "state": sign(request.state).word,
        "prio": PRIORITIES[request.priority][0],
        "status": str(request.status or ""),
        "error": request.last_error,
        "number": f"#{request.ticket}",
    }


def task_fields(task: TaskView) -> Mapping[str, str]:
    """What a filter finds a task by."""
    return {
        "task": task.id,
        "batch": task.batch,
        "agent": task.agent,
        "state": f"{task_sign(task.state).word} {task.state}",
        "prio": PRIORITIES[task.priority][0],
        "after": " ".join(task.after),
        "note": task.note,
    }


def line_fields(line: Line) -> Mapping[str, str]:
    """What a filter finds a line of the log by."""
    return {"tag": line.tag, "who": line.who, "text": line.text, "level": line.level}


def matching(items: Sequence[T], text: str, fields: Callable[[T], Mapping[str, str]]) -> list[T]:
    """Those of the items that every word of the text fits."""
    words = [_Word.of(word, fields) for word in text.lower().split()]
    return [item for item in items if all(word.fits(item) for word in words)] if words else list(items)


@dataclass(frozen=True, slots=True)
class _Word:
    wanted: str
    field: str
    inverse: bool
    fields: Callable[[Any], Mapping[str, str]]

    @classmethod
    def of(cls, word: str, fields: Callable[[Any], Mapping[str, str]]) -> _Word:
        inverse = word.startswith("!") and len(word) > 1
        field, colon, wanted = word[inverse:].partition(":")
        return cls(wanted, field, inverse, fields) if colon else cls(field, "", inverse, fields)

    def fits(self, item: Any) -> bool:
        found = self.fields(item)
        if self.field:
            # The start of a field's name will do: `ag:al`.
            places = [value for name, value in found.items() if name.startswith(self.field)]
        else:
            places = list(found.values())
        return any(self.wanted in place.lower() for place in places) is not self.inverse


def arranged(
    items: Sequence[T],
    order: Order,
    fields: Callable[[T], Mapping[str, str]],
    keys: Mapping[str, Callable[[T], Any]],
) -> tuple[T, ...]:
    """The items as the order has them. A key of None comes last, whichever way the list is turned."""
    found = matching(items, order.filter, fields)
    key = keys.get(order.sort)
    if key is None:
        return tuple(reversed(found)) if order.reverse else tuple(found)
    known = [item for item in found if key(item) is not None]
    known.sort(key=key, reverse=order.reverse)
    return (*known, *(item for item in found if key(item) is None))
