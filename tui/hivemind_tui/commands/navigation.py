"""Navigation: pure functions from one view to the next, and the actions that apply them. Nothing is sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from hivemind.journal.past import GROUPS, Cost
from hivemind.records import replace
from hivemind.setup.clients import quick_lines
from hivemind.world.fleet import Member
from hivemind.world.order import parents
from hivemind.world.snapshot import HUNG, AgentView, RequestDetail, RequestView, Snapshot, TaskView
from hivemind_tui.commands.room import Room
from hivemind_tui.render.dials import NAMES
from hivemind_tui.state.lists import AGENT_KEYS, ASCENDING, COST_KEYS, REQUEST_KEYS, TASK_KEYS, SortOrder, is_lost
from hivemind_tui.state.log_rows import PINNED, SEVERITIES, next_found, number_of
from hivemind_tui.state.view import OF_AGENTS, OF_REQUESTS, View, keep_order

Work = AgentView | RequestView | TaskView
Item = Work | Member | Cost
P = ParamSpec("P")
SOUGHT_MOST = 1_000
"""Older lines of the log that a search reads before it asks to be sent on."""
LISTED = OF_AGENTS | OF_REQUESTS | {"tasks", "fleet", "cost"}
"""Pages with a list."""
FILTERED = LISTED - {"fleet"} | {"log"}
"""Pages whose list can be filtered."""
_LIVE = 1e9
"""What is added to the seconds of what is under way."""
_JUMPS = {"failing": "in trouble", "slowest": "that took time", "dearest": "that cost anything"}
"""Kinds of jumps, and what each looks for."""
_TROUBLED = frozenset({"retry", "failed", "refused", "stopped", "spent", "died", HUNG})


def page(view: View, name: str) -> View:
    """Show another page, from its top."""
    return replace(view, trail=(name,), scroll=0, machine="")


def back(view: View) -> View:
    """Undo one of these: the filter, the marks, scrolling, the step to this page."""
    if view.order.filter:
        return filtered(view, "")
    if view.marked and view.page in OF_AGENTS:
        return replace(view, marked=frozenset())
    if view.page == "log" and view.log_search:
        return replace(view, log_search="", log_sought=0)
    if view.page == "log" and view.log_back:
        return replace(view, log_back=0)
    if len(view.trail) == 1:
        return page(view, "overview")
    trail = view.trail[:-1]
    return replace(view, trail=trail, machine="" if trail[-1] == "fleet" else view.machine)


def into(view: View) -> View:
    """Go one level down: from an agent to its requests, from a request to its details."""
    if view.page in OF_AGENTS and view.agent is not None:
        return replace(open_agent(view, view.agent.name), trail=(*view.trail, "agent"))
    if view.page in OF_REQUESTS and view.request is not None:
        return replace(view, ticket=view.request.ticket, detail=None, scroll=0, trail=(*view.trail, "request"))
    if view.page == "fleet" and view.proxy is not None:
        return of_proxy(view, view.proxy)
    if view.page == "tasks" and view.agent is not None:
        return replace(open_agent(view, view.agent.name), trail=("tasks", "agent"))
    if view.page == "cost" and view.cost is not None and view.cost.name in {each.name for each in view.snapshot.agents}:
        return replace(open_agent(view, view.cost.name), trail=("cost", "agent"))
    return page(view, "overview") if view.page == "start" else view


def costs(view: View, by: str = "", span: str = "") -> View:
    """Show costs, summed by `by` over a span."""
    back = replace(view.back, by=by or view.back.by).with_span("cost", span or view.back.costs)
    return page(replace(view, back=back), "cost")


def next_group(view: View) -> View:
    """Sum costs by the next of agent, model and tree."""
    back = view.back
    return replace(view, back=replace(back, by=GROUPS[(GROUPS.index(back.by) + 1) % len(GROUPS)]), spender="")


def of_proxy(view: View, member: Member) -> View:
    """Show the agents of one proxy of the fleet."""
    order = replace(view.agents_order, filter="")
    trail = ("fleet", "agents")
    return replace(view, member=member.id, machine=member.label, agents_order=order, marked=frozenset(), trail=trail)


def open_agent(view: View, name: str) -> View:
    """Show one agent, as if it had been picked from the list of all."""
    # A filter that was typed for all requests would hide most of this agent's.
    order = replace(view.requests_order, filter="")
    return replace(view, selected=name, ticket=0, requests_order=order, trail=("agents", "agent"))


def columns(view: View) -> tuple[str, ...]:
    """Return the columns that the page's list can be sorted by."""
    if view.page == "tasks":
        return (*TASK_KEYS,)
    if view.page == "cost":
        return (*COST_KEYS,)
    if view.page in OF_REQUESTS:
        return (*REQUEST_KEYS,)
    return (*AGENT_KEYS,) if view.page in OF_AGENTS else ()


def move(view: View, step: int) -> View:
    """Move the cursor by so many rows, down or (negative) up."""
    if view.page in LISTED:
        items, selected = _list_of(view)
        return _select(view, items[_within(_position(items, selected) + step, len(items))]) if items else view
    if view.page == "tuning":
        return replace(view, knob=NAMES[_within(NAMES.index(view.knob) + step, len(NAMES))])
    if view.page == "whatif":
        return replace(view, what_if=view.what_if.move(step))
    if view.page == "log":
        return replace(view, log_back=_within(view.log_back - step, len(view.log_rows)))
    entries = len(quick_lines(view.address)) if view.page == "start" else _entries(view.detail)
    return replace(view, scroll=_within(view.scroll + step, entries))


def _list_of(view: View) -> tuple[Sequence[Item], Item | None]:
    if view.page == "tasks":
        return view.tasks, view.task
    if view.page == "fleet":
        return view.fleet.members, view.proxy
    if view.page == "cost":
        return view.costs, view.cost
    if view.page in OF_REQUESTS:
        return view.listed, view.request
    return view.agents, view.agent


def _select(view: View, item: Item) -> View:
    if isinstance(item, TaskView):
        return replace(view, chosen=item.id)
    if isinstance(item, RequestView):
        return replace(view, ticket=item.ticket)
    if isinstance(item, Member):
        return replace(view, member=item.id)
    if isinstance(item, Cost):
        return replace(view, spender=item.name)
    return keep_order(replace(view, selected=item.name))


def _position(items: Sequence[Item], item: Item | None) -> int:
    return next((index for index, each in enumerate(items) if each is item), 0)


def _within(index: int, length: int) -> int:
    return max(0, min(length - 1, index))


def _entries(detail: RequestDetail | None) -> int:
    """Return the entries of the longer of the request page's lists: decisions, and headers with three headings."""
    if detail is None:
        return 0
    return max(len(detail.decisions), len(detail.request_headers) + len(detail.response_headers) + 3)


def edge(view: View, index: int) -> View:
    """Move to the first row (0) or the last one (-1). The first of the requests stays the newest one, and the first of
    the agents the one that needs a look most."""
    far = 1_000_000
    if view.page == "log":
        return replace(view, log_back=0 if index else max(0, len(view.log_rows) - 1))
    if view.page in OF_REQUESTS and not index:
        return replace(view, ticket=0)
    if view.page in OF_AGENTS and not index:
        return replace(view, selected="", order_kept=())
    return move(view, far if index else -far)


def mark(view: View) -> View:
    """Mark the selected agent, or unmark it, and select the next."""
    agent = view.agent
    if agent is None:
        return view
    marked = view.marked ^ {agent.name}
    view = replace(view, marked=marked)
    return view if view.page == "agent" else move(view, 1)


def pin(view: View) -> View:
    """Keep the agents that commands apply to on top of the list; no longer if all of them are."""
    names = frozenset(agent.name for agent in view.targets)
    return replace(view, pinned=view.pinned - names if names <= view.pinned else view.pinned | names)


def mark_all(view: View) -> View:
    """Mark all agents listed, or unmark them where all are marked."""
    shown = frozenset(agent.name for agent in view.agents)
    return replace(view, marked=view.marked - shown if shown <= view.marked else view.marked | shown)


def tree(view: View) -> View:
    """Show agents as a tree, or as a flat list."""
    return replace(view, tree=not view.branches, folded=frozenset())


def fold(view: View) -> View:
    """Hide the descendants of the selected agent, or show them; for an agent without any, those of its parent."""
    agent = view.agent
    if agent is None or not view.branches:
        return view
    known = parents(view.snapshot.agents)
    name = agent.name if agent.name in known.values() else known.get(agent.name)
    return view if name is None else replace(view, folded=view.folded ^ {name}, selected=name)


def everywhere(view: View) -> View:
    """Show the agents of all machines of the fleet, or only this one's."""
    return replace(view, everywhere=not view.everywhere, machine="")


def sort(view: View, step: int, shown: Sequence[str]) -> View:
    """Sort by the next of the columns that are shown; after the last one in the order of the source."""
    names = ["", *shown]
    order = view.order
    at = names.index(order.sort) if order.sort in names else 0
    return sort_by(view, names[(at + step) % len(names)])


def sort_by(view: View, column: str) -> View:
    """Sort by a column, numbers from the largest; where it is sorted by that already, reverse it."""
    if column and column == view.order.sort:
        return reverse(view)
    return _ordered(view, replace(view.order, sort=column, reverse=bool(column) and column not in ASCENDING))


def sorted_page(view: View, name: str, column: str) -> View:
    """Show a page, its list sorted by a column."""
    view = page(view, name)
    return view if view.order.sort == column else sort_by(view, column)


def reverse(view: View) -> View:
    """Reverse the order of the page's list."""
    return _ordered(view, replace(view.order, reverse=not view.order.reverse))


def filtered(view: View, text: str) -> View:
    """Filter the page's list by this text."""
    if view.page == "log":
        return replace(view, log_filter=text, log_back=0)
    return _ordered(view, replace(view.order, filter=text))


def severity(view: View) -> View:
    """Cut the log down to warnings and worse, to failures, to a day's changes and alerts, or show all of it again."""
    return cut_down(view, (view.log_severity + 1) % len(SEVERITIES))


def cut_down(view: View, cut: int) -> View:
    """Cut the log down to one of :data:`~hivemind_tui.state.log_rows.SEVERITIES`."""
    return replace(view, log_severity=cut, log_back=0, back=replace(view.back, pinned=cut == PINNED, trouble=""))


def searched(view: View, text: str) -> View:
    """Search the log, upwards from the newest row, and on in the journal."""
    view = replace(view, log_search=text, log_back=0, log_sought=0)
    return find(view, 1, first=True) or (sought(view) if text.strip() else view)


def sought(view: View) -> View:
    """Let the search go on in older lines of the journal, if there are any."""
    if view.log_before is None or view.back.pinned:
        return view
    return replace(view, log_sought=len(view.log_older) + SOUGHT_MOST)


def find(view: View, step: int, *, first: bool = False) -> View | None:
    """Go to the next row that is searched for, upwards (1) or downwards (-1); None: there is none."""
    back = next_found(view.log_rows, view.log_search, -1 if first else view.log_back, step)
    return None if back is None else replace(view, log_back=back)


def _ordered(view: View, order: SortOrder) -> View:
    if view.page == "tasks":
        return replace(view, tasks_order=order)
    if view.page == "cost":
        return replace(view, costs_order=order)
    if view.page in OF_REQUESTS:
        return replace(view, requests_order=order)
    return replace(view, agents_order=order, order_kept=())


def jump(view: View, kind: str) -> View | None:
    """Select the next one in trouble (`failing`), the `slowest`, or the `dearest` of those listed; None: there is none.
    What waits or is in flight is slower than all that has ended."""
    listed, selected = _list_of(view)
    items = [item for item in listed if not isinstance(item, Member | Cost)]
    if kind == "failing":
        start = _position(items, selected) + (not view.following)  # nobody has been led to the first yet
        ahead = (*items[start:], *items[:start])
        hidden = _with_trouble_below(view)
        found: Work | None = next(
            (item for item in ahead if _in_trouble(item) or (isinstance(item, AgentView) and item.name in hidden)), None
        )
    else:
        measure = _slowness(view.snapshot) if kind == "slowest" else _cost
        found = max((item for item in items if measure(item) > 0), key=measure, default=None)
    return None if found is None else _select(view, found)


def _in_trouble(item: Work) -> bool:
    if isinstance(item, TaskView):
        return item.state in ("failed", "blocked")
    if isinstance(item, AgentView):
        # What an operator ended or stopped has the exit code of a signal.
        died = item.exit_code not in (None, 0) and item.state not in ("ended", "stopped")
        return item.state in _TROUBLED or item.failed + item.refused > 0 or died or is_lost(item)
    return item.state in _TROUBLED


def _with_trouble_below(view: View) -> set[str]:
    """Return the folded agents that hide one in trouble."""
    folded = {name for name, branch in view.branches.items() if branch.hidden}
    if not folded:
        return set()
    above, found = parents(view.snapshot.agents), set[str]()
    for agent in view.snapshot.agents:
        name, seen = above.get(agent.name), set[str]()
        while _in_trouble(agent) and name is not None and name not in seen:
            found |= {name} & folded
            seen.add(name)
            name = above.get(name)
    return found


def _slowness(now: Snapshot) -> Callable[[Work], float]:
    """Return the measure by which what is under way comes before all that has ended, and what hangs before that."""
    open_s: dict[str, float] = {}
    for ticket in (*now.slots, *now.queue):
        open_s[ticket.agent] = max(open_s.get(ticket.agent, 0.0), ticket.age_s)

    def measure(item: Work) -> float:
        if isinstance(item, TaskView):
            return item.ran_s + _LIVE * (item.state == "running")
        if item.state == HUNG:
            return math.inf
        if isinstance(item, RequestView):
            return (item.duration_s(now.at) or 0.0) + _LIVE * (not item.over)
        if item.in_flight or item.queued:
            return _LIVE + max(item.waiting_s, open_s.get(item.name, 0.0))
        return item.served_s / item.finished if item.finished else 0.0

    return measure


def _cost(item: Work) -> float:
    """Return dollars, else tokens, which for comparison count as far less."""
    if item.dollars:
        return item.dollars
    if isinstance(item, TaskView):
        return item.tokens / 1e9
    return item.usage.weighted / 1e9 if item.usage else 0.0


def _going(step: Callable[Concatenate[View, P], View]) -> Callable[Concatenate[NavigationActions, P], None]:

    def action(self: NavigationActions, /, *args: P.args, **kwargs: P.kwargs) -> None:
        self.go(step(self.view, *args, **kwargs))

    return action


class NavigationActions(Room):
    """The keys and clicks that change what is shown and send nothing."""

    action_page = _going(page)
    action_out = _going(back)
    action_move = _going(move)
    action_edge = _going(edge)
    action_row = _going(edge)
    action_mark = _going(mark)
    action_mark_all = _going(mark_all)
    action_pin_agent = _going(pin)
    action_tree = _going(tree)
    action_fold = _going(fold)
    action_sort_by = _going(sort_by)
    action_sorted_page = _going(sorted_page)
    action_reverse = _going(reverse)
    action_severity = _going(severity)
    action_by = _going(next_group)
    action_cost = _going(lambda view: next_group(view) if view.page == "cost" else page(view, "cost"))

    def action_sort(self, step: int) -> None:
        """Sort the page's list by the next of the columns that are shown."""
        self.go(sort(self.view, step, self._board.columns() or columns(self.view)))

    def action_jump(self, kind: str) -> None:
        """Select the next in trouble, the slowest or the most expensive of the list, or say that there is none."""
        view = jump(self.view, kind)
        if view is None:
            verdict = self.view.snapshot.verdict
            cause = verdict.cause if kind == "failing" and verdict.state != "healthy" else None
            also = "" if cause is None else f"; {verdict.state}: {cause.text}"
            self.complain(f"nothing {_JUMPS[kind]} is listed here{also}")
        else:
            self.go(view)

    def action_filter(self) -> None:
        """Ask for the words to filter the page's list by; the list follows as they are typed."""
        now = self.view
        if now.page == "log":
            self._ask_search(now)
            return
        self._ask_filter(now)

    def action_filter_log(self) -> None:
        """Ask for the words to filter the log by."""
        self._ask_filter(self.view)

    def _ask_search(self, now: View) -> None:
        def typed(text: str) -> None:
            self.go(searched(self.view, text))

        hint = "words; enter keeps it, n next further back, N newer"
        self.line.ask("search", now.log_search, hint=hint, typed=typed)

    def action_find(self, step: int) -> None:
        """Go to the next row of the log that is searched for."""
        if not self.view.log_search:
            self.complain("nothing is searched for; / asks for the words")
            return
        view = find(self.view, step)
        if view is None and step > 0 and sought(self.view) is not self.view:
            view = sought(self.view)
        if view is None:
            where = "further back" if step > 0 else "below"
            self.complain(f"nothing {where} has {self.view.log_search}")
        else:
            self.go(view)

    def _ask_filter(self, now: View) -> None:
        if now.page not in FILTERED:
            self.complain("nothing to filter on this page")
            return

        def changed(text: str) -> None:
            # Rows that half a word hides come back with the rest of it, and so does the cursor.
            view = filtered(self.view, text)
            self.go(replace(view, selected=now.selected, ticket=now.ticket, chosen=now.chosen))

        hint = "words, !not, state:retry  enter keeps it, esc drops the change"
        self.line.ask("filter", now.order.filter, hint=hint, typed=changed)

    def action_everywhere(self) -> None:
        """Show the agents of all machines, if there are other machines."""
        if self.view.fleet.me:
            self.go(everywhere(self.view))
        else:
            self.complain(
                "all machines are shown" if self.view.fleet.store else "this proxy is in no fleet; see page 7"
            )

    def action_lane(self, step: int) -> None:
        self.go(replace(self.view, lane_index=self.view.lane_index + step))

    def action_pick_lane(self, name: str) -> None:
        """Focus a lane on a click."""
        names = [lane.state.lane for lane in self.view.snapshot.lanes]
        if name in names:
            self.go(replace(self.view, lane_index=names.index(name)))

    def action_pick_agent(self, name: str) -> None:
        """Select an agent on a click, and open it on a second one."""
        view = self.view
        if view.page in OF_AGENTS and not view.selected and view.agent is not None:
            view = replace(view, selected=view.agent.name)
        self._pick(keep_order(replace(view, selected=name)), keep_order(view))

    def action_pick(self, field: str, value: Any) -> None:
        """Select a row on a click, and open it, or its agent, on a second one."""
        self._pick(replace(self.view, **{field: value}))

    def _pick(self, picked: View, before: View | None = None) -> None:
        self.go(into(picked) if picked == (before or self.view) else picked)

    def action_pick_event(self, at: float, nth: int) -> None:
        """Select a row of the log on a click."""
        rows = self.view.log_rows
        number = number_of(rows, at, nth)
        if number is not None:
            self.go(replace(self.view, log_back=len(rows) - 1 - number))

    def action_open_request(self, ticket: int) -> None:
        """Open a request from a list beside the page's own."""
        self.go(replace(self.view, ticket=ticket, detail=None, scroll=0, trail=(*self.view.trail, "request")))

    def action_open_agent(self, name: str) -> None:
        """Open the agent that works on a task, or that an event is about."""
        self.go(replace(open_agent(self.view, name), trail=(self.view.page, "agent")))
