"""Navigation: pure functions from one view to the next, and the actions that apply them. Nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from hivemind.setup.clients import quick_lines
from hivemind.world.request_view import RequestDetail, RequestView
from hivemind.world.snapshot import AgentView, TaskView
from hivemind_tui.commands.room import Room
from hivemind_tui.render.dials import NAMES
from hivemind_tui.state.filtering import Order
from hivemind_tui.state.ordering import AGENT_KEYS, ASCENDING, REQUEST_KEYS, TASK_KEYS
from hivemind_tui.state.tree import parents
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, View
from hivemind_tui.whatif import state as what_if

T = TypeVar("T")
FILTERED = OF_AGENTS | OF_REQUESTS | {"log", "tasks"}
"""Pages whose list can be filtered."""
_TROUBLED = frozenset({"retry", "failed", "refused", "stopped", "spent"})


def page(view: View, name: str) -> View:
    """Another page, from the top."""
    return replace(view, trail=(name,), scroll=0)


def back(view: View) -> View:
    """One layer less: the filter, the marks, what was scrolled, the page."""
    if view.filter:
        return filtered(view, "")
    if view.marked and view.page in OF_AGENTS:
        return replace(view, marked=frozenset())
    if view.page == "log" and view.log_back:
        return replace(view, log_back=0)
    return replace(view, trail=view.trail[:-1] or ("overview",)) if len(view.trail) > 1 else page(view, "overview")


def into(view: View) -> View:
    """One level down: from an agent to its requests, from a request to all about it."""
    if view.page in OF_AGENTS and view.agent is not None:
        return replace(open_agent(view, view.agent.name), trail=(*view.trail, "agent"))
    if view.page in OF_REQUESTS and view.request is not None:
        return replace(view, ticket=view.request.ticket, detail=None, scroll=0, trail=(*view.trail, "request"))
    if view.page == "tasks" and view.agent is not None:
        return replace(open_agent(view, view.agent.name), trail=("tasks", "agent"))
    return page(view, "overview") if view.page == "start" else view


def open_agent(view: View, name: str) -> View:
    """One agent, as if it had been picked from the list of all."""
    # A filter that was typed for all requests would hide most of this agent's.
    order = replace(view.requests_order, filter="")
    return replace(view, selected=name, ticket=0, requests_order=order, trail=("agents", "agent"))


def columns(view: View) -> tuple[str, ...]:
    """By what the page's list can be sorted."""
    return tuple(_order_of(view)[0]) if view.page in OF_AGENTS | OF_REQUESTS | {"tasks"} else ()


def move(view: View, step: int) -> View:
    """So many rows down (or, negative, up), in whatever the page has rows of."""
    if view.page in OF_AGENTS:
        return _select_agent(view, _at(view.agents, view.agent), step)
    if view.page in OF_REQUESTS:
        return _select_request(view, _at(view.listed, view.request), step)
    if view.page == "tasks":
        return _select_task(view, _at(view.tasks, view.task), step)
    if view.page == "tuning":
        index = NAMES.index(view.knob) + step
        return replace(view, knob=NAMES[max(0, min(len(NAMES) - 1, index))])
    if view.page == "whatif":
        return replace(view, what_if=what_if.move(view.what_if, step))
    if view.page == "log":
        return replace(view, log_back=max(0, min(len(view.snapshot.lines) - 1, view.log_back - step)))
    last = len(quick_lines(view.snapshot.address)) - 1 if view.page == "start" else _last_entry(view.detail)
    return replace(view, scroll=max(0, min(last, view.scroll + step)))


def _last_entry(detail: RequestDetail | None) -> int:
    """Of the longer of the request page's lists: the decisions, and the headers under their three heads."""
    if detail is None:
        return 0
    return max(len(detail.decisions), len(detail.request_headers) + len(detail.response_headers) + 3) - 1


def edge(view: View, index: int) -> View:
    """The first row (0) or the last one (-1). The first of the requests is whichever is newest, from then on too."""
    far = 1_000_000
    if view.page == "log":
        return replace(view, log_back=0 if index else max(0, len(view.snapshot.lines) - 1))
    if view.page in OF_REQUESTS and not index:
        return replace(view, ticket=0)
    return move(view, far if index else -far)


def _at(items: Sequence[T], item: T | None) -> int:
    return next((index for index, each in enumerate(items) if each is item), 0)


def _select_agent(view: View, index: int, step: int) -> View:
    if not view.agents:
        return view
    return replace(view, selected=view.agents[max(0, min(len(view.agents) - 1, index + step))].name)


def _select_request(view: View, index: int, step: int) -> View:
    if not view.listed:
        return view
    return replace(view, ticket=view.listed[max(0, min(len(view.listed) - 1, index + step))].ticket)


def _select_task(view: View, index: int, step: int) -> View:
    if not view.tasks:
        return view
    return replace(view, chosen=view.tasks[max(0, min(len(view.tasks) - 1, index + step))].id)


def mark(view: View) -> View:
    """Mark the selected agent, or no longer, and go on to the next."""
    agent = view.agent
    if agent is None:
        return view
    marked = view.marked ^ {agent.name}
    view = replace(view, marked=marked)
    return view if view.page == "agent" else move(view, 1)


def mark_all(view: View) -> View:
    """Mark every agent shown, or none where all are."""
    shown = frozenset(agent.name for agent in view.agents)
    return replace(view, marked=view.marked - shown if shown <= view.marked else view.marked | shown)


def tree(view: View) -> View:
    """Agents under those that started them, or all in one flat list."""
    return replace(view, tree=not view.branches, folded=frozenset())


def fold(view: View) -> View:
    """Hide what stands below the selected agent, or show it again; of one with nothing below, what is beside it."""
    agent = view.agent
    if agent is None or not view.branches:
        return view
    known = parents(view.snapshot.agents)
    name = agent.name if agent.name in known.values() else known.get(agent.name)
    return view if name is None else replace(view, folded=view.folded ^ {name}, selected=name)


def _order_of(view: View) -> tuple[Iterable[str], Order]:
    """Return the columns that the page's list can be sorted by, and its order."""
    if view.page == "tasks":
        return TASK_KEYS, view.tasks_order
    return (REQUEST_KEYS, view.requests_order) if view.page in OF_REQUESTS else (AGENT_KEYS, view.agents_order)


def _ordered(view: View, order: Order) -> View:
    if view.page == "tasks":
        return replace(view, tasks_order=order)
    if view.page in OF_REQUESTS:
        return replace(view, requests_order=order)
    return replace(view, agents_order=order)


def sort(view: View, step: int) -> View:
    """By the next column; after the last one as they came."""
    keys, order = _order_of(view)
    names = ["", *keys]
    at = names.index(order.sort) if order.sort in names else 0
    return sort_by(view, names[(at + step) % len(names)])


def sort_by(view: View, column: str) -> View:
    """By this column, numbers from the largest; the other way round where it is sorted by it already."""
    _, order = _order_of(view)
    if column and column == order.sort:
        return reverse(view)
    return _ordered(view, replace(order, sort=column, reverse=bool(column) and column not in ASCENDING))


def reverse(view: View) -> View:
    """The other way round."""
    _, order = _order_of(view)
    return _ordered(view, replace(order, reverse=not order.reverse))


def filtered(view: View, text: str) -> View:
    """The page's list filtered by this text."""
    if view.page == "log":
        return replace(view, log_filter=text, log_back=0)
    return _ordered(view, replace(_order_of(view)[1], filter=text))


def jump(view: View, kind: str) -> View:
    """To the next one in trouble, to the slowest, or to the dearest of those shown; stays where there is none."""
    if view.page in OF_REQUESTS:
        found = _found(view.listed, view.request, kind, _request_trouble, _request_measures(view))
        return view if found is None else replace(view, ticket=found.ticket)
    if view.page == "tasks":
        task = _found(view.tasks, view.task, kind, _task_trouble, _TASK_MEASURES)
        return view if task is None else replace(view, chosen=task.id)
    agent = _found(view.agents, view.agent, kind, _agent_trouble, _AGENT_MEASURES)
    return view if agent is None else replace(view, selected=agent.name)


def _found(
    items: Sequence[T],
    selected: T | None,
    kind: str,
    troubled: Callable[[T], bool],
    measures: dict[str, Callable[[T], float]],
) -> T | None:
    if kind == "failing":
        start = _at(items, selected) + 1
        return next((item for item in (*items[start:], *items[:start]) if troubled(item)), None)
    best = max(items, key=measures[kind], default=None)
    return best if best is not None and measures[kind](best) > 0 else None


def _agent_trouble(agent: AgentView) -> bool:
    return agent.failed > 0 or agent.state in _TROUBLED


def _request_trouble(request: RequestView) -> bool:
    return request.state in _TROUBLED


def _task_trouble(task: TaskView) -> bool:
    return task.state in ("failed", "blocked")


_TASK_MEASURES: dict[str, Callable[[TaskView], float]] = {
    "slowest": lambda task: task.ran_s,
    "dearest": lambda task: task.dollars or task.tokens / 1e9,
}
_AGENT_MEASURES: dict[str, Callable[[AgentView], float]] = {
    "slowest": lambda agent: agent.served_s / agent.finished if agent.finished else 0.0,
    "dearest": lambda agent: agent.dollars or agent.usage.weighted / 1e9,
}


def _request_measures(view: View) -> dict[str, Callable[[RequestView], float]]:
    return {
        "slowest": lambda request: request.duration_s(view.snapshot.at),
        "dearest": lambda request: request.dollars or (request.usage.weighted / 1e9 if request.usage else 0.0),
    }


class NavigationActions(Room):
    """The keys and clicks that change what is shown and send nothing."""

    def action_filter(self) -> None:
        """Ask for the words to filter the page's list by; the list follows as they are typed."""
        now = self.view
        if now.page not in FILTERED:
            self.complain("nothing to filter on this page")
            return

        def changed(text: str) -> None:
            # What half a word hides comes back with the rest of it, and the cursor with it.
            view = filtered(self.view, text)
            self.go(replace(view, selected=now.selected, ticket=now.ticket, chosen=now.chosen))

        hint = "words, !not, state:retry  enter keeps it, esc drops the change"
        self.ask_line("filter", now.filter, hint=hint, typed=changed)

    def action_page(self, name: str) -> None:
        self.go(page(self.view, name))

    def action_out(self) -> None:
        self.go(back(self.view))

    def action_move(self, step: int) -> None:
        self.go(move(self.view, step))

    def action_edge(self, index: int) -> None:
        self.go(edge(self.view, index))

    def action_mark(self) -> None:
        self.go(mark(self.view))

    def action_mark_all(self) -> None:
        self.go(mark_all(self.view))

    def action_tree(self) -> None:
        self.go(tree(self.view))

    def action_fold(self) -> None:
        self.go(fold(self.view))

    def action_sort(self, step: int) -> None:
        self.go(sort(self.view, step))

    def action_sort_by(self, column: str) -> None:
        self.go(sort_by(self.view, column))

    def action_reverse(self) -> None:
        self.go(reverse(self.view))

    def action_jump(self, kind: str) -> None:
        self.go(jump(self.view, kind))

    def action_lane(self, step: int) -> None:
        self.go(replace(self.view, lane_index=self.view.lane_index + step))

    def action_pick_agent(self, name: str) -> None:
        """A click: select, and the second one opens."""
        again = self.view.selected == name
        self.go(into(self.view) if again else replace(self.view, selected=name))

    def action_pick_request(self, ticket: int) -> None:
        again = self.view.ticket == ticket
        self.go(into(self.view) if again else replace(self.view, ticket=ticket))

    def action_pick_task(self, name: str) -> None:
        again = self.view.chosen == name
        self.go(into(self.view) if again else replace(self.view, chosen=name))

    def action_open_agent(self, name: str) -> None:
        """From the task that it works on."""
        self.go(replace(open_agent(self.view, name), trail=("tasks", "agent")))
