"""Lists of agents, requests and tasks: what a typed filter looks in, and what columns sort by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from hivemind.journal.past import Cost
from hivemind.scheduler.tasks import OPEN, TASK_STATES
from hivemind.world.snapshot import AgentView, Line, RequestView, TaskView
from hivemind_tui.render.budgets import share_of
from hivemind_tui.render.glyphs import PRIORITIES, sign, task_sign

T = TypeVar("T")
ENDED = frozenset(TASK_STATES) - OPEN
"""States of tasks that have ended."""
ASCENDING = frozenset({"name", "agent", "task", "state", "prio", "own", "budget", "client", "machine", "model", "lane"})
"""Columns that are sorted from the smallest; the others begin with the largest number."""
_LAST = 1e12
_BY_IMPORTANCE = ("running", "ready", "paused", "waiting", "blocked", "failed", "cancelled", "skipped", "done")
_RANKS = {state: rank for rank, state in enumerate(_BY_IMPORTANCE)}


class SortOrder(Struct, frozen=True):
    """The filter and the sort order of a list."""

    filter: str = ""
    """Words that must all occur; `!word` must not; `field:word` looks in one field alone."""
    sort: str = ""
    """Id of a column; empty: the order of the source."""
    reverse: bool = False
    """Whether the column's usual direction is reversed."""


# --- What a filter looks in ----------------------------------------------------------------------------------------


def agent_fields(agent: AgentView) -> Mapping[str, str]:
    """Return the fields that a filter of agents looks in."""
    return {
        "agent": agent.name,
        "client": agent.client,
        "parent": agent.parent or "",
        "state": sign(agent.state).word,
        "prio": PRIORITIES[agent.priority][0],
        "task": agent.task or "",
        "error": agent.last_error,
        "machine": ", ".join(agent.machines),
    }


def request_fields(request: RequestView) -> Mapping[str, str]:
    """Return the fields that a filter of requests looks in."""
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
    """Return the fields that a filter of tasks looks in."""
    return {
        "task": task.id,
        "batch": task.batch,
        "agent": task.agent,
        "state": f"{task_sign(task.state).word} {task.state}",
        "prio": PRIORITIES[task.priority][0],
        "after": " ".join(task.after),
        "note": task.note,
    }


def cost_fields(cost: Cost) -> Mapping[str, str]:
    """Return the field that a filter of costs looks in."""
    return {"name": cost.name}


def line_fields(line: Line) -> Mapping[str, str]:
    """Return the fields that a filter of the log looks in."""
    return {"tag": line.tag, "who": line.who, "text": line.text, "level": line.level, "machine": line.machine}


def matching(items: Sequence[T], text: str, fields: Callable[[T], Mapping[str, str]]) -> list[T]:
    """Return the items that match every word of a filter."""
    words = [_parsed(word) for word in text.lower().split()]
    return [item for item in items if _matches(fields(item), words)] if words else list(items)


def _parsed(word: str) -> tuple[bool, str, str]:
    """Return whether the word must not occur, the start of its field's name (empty: any field), and the word itself."""
    inverse = word.startswith("!") and len(word) > 1
    name, colon, wanted = word[inverse:].partition(":")
    return (inverse, name, wanted) if colon else (inverse, "", name)


def _matches(fields: Mapping[str, str], words: Sequence[tuple[bool, str, str]]) -> bool:
    for inverse, name, wanted in words:
        texts = [text for field, text in fields.items() if field.startswith(name)] if name else fields.values()
        if any(wanted in text.lower() for text in texts) is inverse:
            return False
    return True


def arranged(
    items: Sequence[T],
    order: SortOrder,
    fields: Callable[[T], Mapping[str, str]],
    keys: Mapping[str, Callable[[T], Any]],
) -> tuple[T, ...]:
    """Return the items filtered and sorted. A key of None comes last in either direction."""
    found = matching(items, order.filter, fields)
    key = keys.get(order.sort)
    if key is None:
        return tuple(reversed(found)) if order.reverse else tuple(found)
    known = [item for item in found if key(item) is not None]
    known.sort(key=key, reverse=order.reverse)
    return (*known, *(item for item in found if key(item) is None))


# --- What columns sort by ------------------------------------------------------------------------------------------


def tries(request: RequestView) -> int:
    """Return how many attempts began, remembered or not."""
    return request.attempts[-1].number if request.attempts else 0


def ttft_s(request: RequestView) -> float | None:
    """Return the seconds from the last attempt's start to its first content; None before that."""
    last = request.attempts[-1] if request.attempts else None
    return None if last is None or last.first_content_at is None else last.first_content_at - last.granted_at


def input_tokens(request: RequestView) -> int | None:
    """Return the input tokens, cached ones included; None until the provider reported them."""
    return None if request.usage is None else request.usage.total_input


def cached_share(request: RequestView) -> float | None:
    """Return the share of the input that came from the provider's cache."""
    usage = request.usage
    return usage.cache_read_tokens / usage.total_input if usage is not None and usage.total_input else None


def _duration_s(request: RequestView) -> float:
    """Return the duration; of an open request, which has none yet, one longer than all others."""
    return (_LAST if request.ended_at is None else request.ended_at) - request.arrived_at


AGENT_KEYS: Mapping[str, Callable[[AgentView], Any]] = {
    "name": lambda agent: agent.name,
    "prio": lambda agent: agent.priority,
    "state": lambda agent: agent.state,
    "in_flight": lambda agent: agent.sent_s,
    "queue": lambda agent: agent.queued,
    "asked": lambda agent: agent.requests,
    "ok": lambda agent: agent.finished,
    "fail": lambda agent: agent.failed,
    "refused": lambda agent: agent.refused,
    "retried_ok": lambda agent: agent.retried_ok,
    "in": lambda agent: agent.usage.total_input,
    "out": lambda agent: agent.usage.output_tokens,
    "cost": lambda agent: agent.dollars,
    "budget": lambda agent: share_of(agent.budget),
    "cache": lambda agent: agent.warm_s,
    "waits": lambda agent: agent.waiting_s,
    "activity": lambda agent: sum(agent.activity),
    "ttft": lambda agent: agent.ttft_s,
    "seen": lambda agent: agent.last_seen_s,
    "client": lambda agent: agent.client,
    "machine": lambda agent: agent.machines,
}
REQUEST_KEYS: Mapping[str, Callable[[RequestView], Any]] = {
    "agent": lambda request: request.agent,
    "number": lambda request: request.ticket,
    "at": lambda request: request.arrived_at,
    "state": lambda request: request.state,
    "status": lambda request: request.status,
    "tries": tries,
    "prio": lambda request: request.priority,
    "waited": lambda request: request.waited_s,
    "ttft": ttft_s,
    "took": _duration_s,
    "in": input_tokens,
    "cached": cached_share,
    "out": lambda request: request.output_tokens,
    "cost": lambda request: request.dollars,
    "model": lambda request: request.model,
    "lane": lambda request: request.lane,
}
TASK_KEYS: Mapping[str, Callable[[TaskView], Any]] = {
    "task": lambda task: task.id,
    "state": lambda task: _RANKS.get(task.state, len(_RANKS)),
    "prio": lambda task: task.priority,
    "own": lambda task: task.own_priority,
    "tries": lambda task: task.attempt,
    "time": lambda task: task.ran_s,
    "tokens": lambda task: task.tokens,
    "of": lambda task: task.estimated_tokens,
    "cost": lambda task: task.dollars,
    "agent": lambda task: task.agent,
}
COST_KEYS: Mapping[str, Callable[[Cost], Any]] = {
    "cost": lambda cost: cost.spent.dollars,
    "name": lambda cost: cost.name,
    "asked": lambda cost: cost.requests,
    "in": lambda cost: cost.spent.input,
    "cached": lambda cost: cost.spent.cached,
    "out": lambda cost: cost.spent.output,
    "saved": lambda cost: cost.spent.saved,
    "lost": lambda cost: cost.spent.lost,
    "wasted": lambda cost: cost.spent.wasted,
    "unpriced": lambda cost: cost.spent.unpriced,
    "estimated": lambda cost: cost.spent.estimated,
}


def is_lost(agent: AgentView) -> bool:
    """Return whether the agent's runner is gone, so that nobody knows how its process ended."""
    return agent.running is False and agent.exit_code is None and agent.state in ("idle", "ended")


def in_order(tasks: Sequence[TaskView]) -> list[TaskView]:
    """Return the tasks as they are executed: running, ready by priority, waiting by arrival, ended."""

    def rank(task: TaskView) -> tuple[float, float, float]:
        state = _RANKS.get(task.state, len(_RANKS))
        if task.state == "ready":
            return state, task.priority, task.estimated_tokens or float("inf")
        return (state, task.since_s, 0.0) if task.state in ENDED else (state, 0.0, 0.0)

    return sorted(tasks, key=rank)
