"""Builds each view: takes the snapshot, follows the requests, and arranges what the page's list shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from hivemind.world.request_view import REQUESTS_KEPT, RequestView
from hivemind.world.snapshot import AgentView, Line, TaskView
from hivemind_tui.sources.base import Source
from hivemind_tui.state import lists
from hivemind_tui.state.tree import Branch, branched, ended_last, parents
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, View

T = TypeVar("T")
K = TypeVar("K")
_SLACK = 250
"""More than are remembered, before it is worth looking which are forgotten."""


def _kept(selected: K, before: Sequence[T], now: Sequence[T], key: Callable[[T], K]) -> K:
    """Return the key to select in the new list: the selected item, or, where it is gone, the item now in its row."""
    if not now or any(key(item) == selected for item in now):
        return selected
    row = next((index for index, item in enumerate(before) if key(item) == selected), 0)
    return key(now[min(row, len(now) - 1)])


def _read_on(view: View, lines: Sequence[Line]) -> int:
    """Return how far the log is scrolled back after new lines, so that the lines shown stay."""
    if not view.log_back or not view.snapshot.lines:
        return view.log_back
    last = view.snapshot.lines[-1]
    new = list(itertools.takewhile(lambda line: line != last, reversed(lines)))
    return min(len(lines) - 1, view.log_back + len(lists.matching(new, view.log_filter, lists.line_fields)))


def _agents(view: View) -> tuple[tuple[AgentView, ...], Mapping[str, Branch]]:
    """Return the agents to show, as a tree where there is one and it is wanted."""
    order = view.agents_order
    agents = view.snapshot.agents if order.sort else ended_last(view.snapshot.agents)
    if view.tree is not False and view.page in OF_AGENTS and any(agent.parent for agent in agents) and parents(agents):
        return branched(agents, order, view.folded)
    return lists.arranged(agents, order, lists.agent_fields, lists.AGENT_KEYS), {}


class ViewBuilder:
    """Keeps the source's requests as far as pages needed them, and the list last arranged."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over with another source."""
        self._revision = 0
        self._known: dict[int, RequestView] = {}
        self._all: tuple[RequestView, ...] = ()
        self._arranged: tuple[object, tuple[RequestView, ...]] = (None, ())

    def look(self, view: View, source: Source) -> View:
        """Return the view of the world now, unless the view is frozen."""
        view = replace(view, link=source.link)
        if view.frozen:
            return self.arrange(view)
        snapshot = source.snapshot()
        if view.page in (*OF_REQUESTS, "request"):
            self._follow(source)
        view = replace(view, log_back=_read_on(view, snapshot.lines))
        marked = view.marked and view.marked & {agent.name for agent in snapshot.agents}
        return self.arrange(replace(view, snapshot=snapshot, marked=marked))

    def arrange(self, view: View) -> View:
        """Return the view with its lists filtered and sorted."""
        shown, branches = _agents(view)
        requests = self._requests(view)
        selected, ticket, chosen = view.selected, view.ticket, view.chosen
        tasks: tuple[TaskView, ...] = ()
        if view.page == "tasks":
            every = lists.in_order(view.snapshot.tasks)
            tasks = lists.arranged(every, view.tasks_order, lists.task_fields, lists.TASK_KEYS)
            chosen = _kept(chosen, view.tasks, tasks, lambda task: task.id)
        if view.page in OF_AGENTS:
            selected = _kept(selected, view.agents, shown, lambda agent: agent.name)
        elif view.page in OF_REQUESTS and ticket:
            ticket = _kept(ticket, view.listed, requests, lambda request: request.ticket)
        return replace(
            view,
            agents_shown=shown,
            branches=branches,
            requests=self._all,
            requests_shown=requests,
            selected=selected,
            ticket=ticket,
            tasks_shown=tasks,
            chosen=chosen,
        )

    def _requests(self, view: View) -> tuple[RequestView, ...]:
        if view.page not in (*OF_REQUESTS, "request"):
            return ()
        agent, order = view.selected if "agent" in view.trail else None, view.requests_order
        wanted = (id(self._all), order, agent)
        if self._arranged[0] != wanted:
            items = self._all if agent is None else tuple(each for each in self._all if each.agent == agent)
            self._arranged = wanted, lists.arranged(items, order, lists.request_fields, lists.REQUEST_KEYS)
        return self._arranged[1]

    def _follow(self, source: Source) -> None:
        news = source.requests(self._revision)
        if news.revision < self._revision:  # another run of the proxy: every request is new
            self._known.clear()
            news = source.requests(0)
        elif news.revision == self._revision:
            return
        self._revision = news.revision
        self._known.update((request.ticket, request) for request in news.changed)
        if len(self._known) > REQUESTS_KEPT + _SLACK:
            self._forget(news.oldest)
        self._all = tuple(self._known[number] for number in sorted(self._known, reverse=True))

    def _forget(self, oldest: int) -> None:
        """Forget requests as the source does: of those that ended, the latest stay."""
        over = sorted((each for each in self._known.values() if each.over), key=lambda each: each.ended_at or 0.0)
        for request in over[:-REQUESTS_KEPT]:
            del self._known[request.ticket]
        for number in [n for n, each in self._known.items() if n < oldest and each.over]:
            del self._known[number]
