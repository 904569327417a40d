"""The view that panels draw, a snapshot of the world and what the operator selected, and what builds each view."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct, field

from hivemind.journal.past import Cost
from hivemind.records import replace
from hivemind.text.shells import Shell
from hivemind.world.fleet import Fleet, FleetLane, Member
from hivemind.world.order import gravest_first, parents, pinned_first
from hivemind.world.snapshot import (
    AgentView,
    LaneView,
    Line,
    RequestDetail,
    RequestView,
    Snapshot,
    TaskView,
    TicketView,
)
from hivemind_tui.loop.loop_lag import Diagnostics
from hivemind_tui.past.state import LookBack, over_span
from hivemind_tui.render.dials import NAMES
from hivemind_tui.sources.base import Link, Source
from hivemind_tui.sources.playback import Playback
from hivemind_tui.state import lists
from hivemind_tui.state.lists import SortOrder
from hivemind_tui.state.log_rows import SEVERITIES, LogRow, Same, pinned_once, rows_once
from hivemind_tui.state.tree import Branch, branched
from hivemind_tui.whatif.state import WhatIf

_COLUMNS_OF = {
    "tokens": ("in", "out", "cost", "cached", "activity"),
    "first tokens": ("ttft",),
    "refusals": ("fail", "retried_ok", "waited"),
    "durations": ("took", "waited"),
}
"""By what a recording may lack."""

PAGES = ("overview", "agents", "requests", "tuning", "log", "tasks", "fleet", "cost")
"""Pages with a number; `start` is shown until the first request, `agent` and `request` are one level down."""
OF_AGENTS = frozenset({"overview", "agents"})
"""Pages whose list is of agents."""
OF_REQUESTS = frozenset({"requests", "agent"})
"""Pages whose list is of requests."""


class View(Struct, frozen=True):
    """The state of the screen in one frame."""

    snapshot: Snapshot
    link: Link = field(default_factory=Link)
    trail: tuple[str, ...] = ("overview",)
    """The pages that led here; the last one is shown."""
    lane_index: int = 0
    """Index of the lane that the lane panels show, modulo their number."""
    selected: str = ""
    """Name of the selected agent; empty, until the cursor is moved: the first, whichever that is."""
    ticket: int = 0
    """The selected request; 0: the first."""
    marked: frozenset[str] = frozenset()
    """Agents that commands apply to together."""
    pinned: frozenset[str] = frozenset()
    """Agents that stay on top of the list."""
    order_kept: tuple[str, ...] = ()
    """Names of the agents in the order in which they stay, while the cursor is being moved; empty: they are sorted."""
    frozen: bool = False
    """Whether the view ignores what happens."""
    agents_order: SortOrder = field(default_factory=SortOrder)
    requests_order: SortOrder = field(default_factory=SortOrder)
    tasks_order: SortOrder = field(default_factory=SortOrder)
    chosen: str = ""
    """Id of the selected task; empty: the first."""
    tasks_shown: tuple[TaskView, ...] | None = None
    back: LookBack = field(default_factory=LookBack)
    """What the journal knows of the last hours."""
    costs_order: SortOrder = field(default_factory=lambda: SortOrder(sort="cost", reverse=True))
    spender: str = ""
    """Name of the selected agent, model or tree on the page of costs; empty: the first."""
    costs: tuple[Cost, ...] = ()
    """What that page lists."""
    log_filter: str = ""
    log_back: int = 0
    """Rows scrolled back from the newest."""
    log_older: tuple[Line, ...] = ()
    """Lines from before those of the snapshot, read back from the journal."""
    log_before: float | None = math.inf
    """Where older ones are still to be read: before this moment; infinite: before all lines; None: there are none."""
    log_severity: int = 0
    """What the log is cut down to, of :data:`~hivemind_tui.state.log_rows.SEVERITIES`."""
    log_search: str = ""
    """Words that are searched for in the log."""
    log_sought: int = 0
    """While a search goes on in what isn't read yet: how many older lines it reads at most, with those read before."""
    scroll: int = 0
    """On the request page the entries scrolled past; on the first screen the selected line."""
    tree: bool | None = None
    """Whether agents are shown as a tree; None: where any was started by another."""
    folded: frozenset[str] = frozenset()
    """Agents whose descendants are hidden."""
    branches: Mapping[str, Branch] = field(default_factory=dict)
    """The position of each agent in the tree; empty for a flat list."""
    fleet: Fleet = field(default_factory=Fleet)
    """The proxies that share a key; without a store there is no fleet."""
    member: str = ""
    """Id of the selected one; empty: the one in this process, or the first."""
    everywhere: bool = False
    """Whether the agents of all of them are shown."""
    machine: str = ""
    """Label of the one whose agents are shown; empty: of all that there are."""
    agents_shown: tuple[AgentView, ...] | None = None
    """Filtered and sorted; None: in the order of the source."""
    requests: tuple[RequestView, ...] = ()
    """All requests in memory, newest first."""
    requests_shown: tuple[RequestView, ...] | None = None
    detail: RequestDetail | None = None
    """The request of the request page; None until it is fetched."""
    knob: str = NAMES[0]
    """The knob that the tuning page's cursor is on."""
    untuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By upstream, the former values of knobs changed here and not written to the settings file yet."""
    undoable: str = ""
    """The change that would be undone, and its age; empty: there is none."""
    inside: Diagnostics | None = None
    """Diagnostics of the screen while they are shown."""
    what_if: WhatIf = field(default_factory=WhatIf)
    """What the what-if page shows."""
    drain_s: float = 30.0
    token: bool = False
    """Whether agents need one."""
    shell: Shell = "bash"
    """The shell whose lines are shown and copied."""
    demo: bool = False
    """Whether the demo can be started from here."""
    playback: Playback | None = None
    """The state of the playback, on a recording."""

    @property
    def page(self) -> str:
        """The last page of the trail, which is shown."""
        return self.trail[-1]

    @property
    def live(self) -> bool:
        """Whether the source is a running proxy rather than a recording."""
        return self.playback is None

    def has(self, page: str) -> bool:
        """Return whether a page has anything to show; those of tasks and of a fleet mostly have nothing."""
        if page == "tasks":
            return bool(self.snapshot.task_counts)
        return page != "fleet" or (self.live and bool(self.fleet.store))

    def lacks(self, name: str) -> bool:
        """Whether it is a recording that holds this of no request, one of :data:`~hivemind.journal.records.UNKNOWN`."""
        return self.playback is not None and name in self.playback.unknown

    @property
    def unrecorded_columns(self) -> frozenset[str]:
        """Columns of tables that would say 0 of what a recording doesn't hold."""
        lacking = self.playback.unknown if self.playback is not None else ()
        return frozenset(column for name in lacking for column in _COLUMNS_OF.get(name, ()))

    @property
    def agents(self) -> tuple[AgentView, ...]:
        """The agents that lists show."""
        return self.snapshot.agents if self.agents_shown is None else self.agents_shown

    @property
    def listed(self) -> tuple[RequestView, ...]:
        """The requests that lists show; on an agent's page, its own."""
        return self.requests if self.requests_shown is None else self.requests_shown

    @property
    def tasks(self) -> tuple[TaskView, ...]:
        """The tasks that the list shows."""
        return self.snapshot.tasks if self.tasks_shown is None else self.tasks_shown

    @property
    def task(self) -> TaskView | None:
        """The selected task, or the first where that isn't among those shown."""
        tasks = self.tasks
        return next((task for task in tasks if task.id == self.chosen), tasks[0] if tasks else None)

    @property
    def cost(self) -> Cost | None:
        """The selected row of costs, or the first where that isn't among those shown."""
        return next((cost for cost in self.costs if cost.name == self.spender), self.costs[0] if self.costs else None)

    @property
    def address(self) -> str:
        """Base URL that agents may use: the proxy's; of a whole fleet the selected proxy's."""
        whole = self.fleet.store and not self.fleet.me and self.proxy is not None
        return self.proxy.address if whole and self.proxy is not None else self.snapshot.address

    def address_of(self, agent: AgentView | None) -> str:
        """Return the base URL of a proxy that serves an agent."""
        machines = () if agent is None else agent.machines
        found = (member.address for member in self.fleet.members if member.label in machines)
        return next(found, self.address)

    @property
    def proxy(self) -> Member | None:
        """The selected proxy of the fleet, or the first where that is gone."""
        members = self.fleet.members
        found = (member for name in (self.member, self.fleet.me) for member in members if member.id == name)
        return next(found, members[0] if members else None)

    @property
    def key(self) -> FleetLane | None:
        """The key that the fleet's page shows; None before any is shared."""
        lanes = self.fleet.lanes
        return lanes[self.lane_index % len(lanes)] if lanes else None

    @property
    def lane(self) -> LaneView | None:
        """The lane shown, on the fleet's page the one of its key; None before the first request."""
        lanes = self.snapshot.lanes
        if self.page == "fleet" and self.fleet.store:
            names = () if self.key is None else self.fleet.names(self.key)
            return next((lane for lane in lanes if lane.state.lane in names), None)
        return lanes[self.lane_index % len(lanes)] if lanes else None

    @property
    def log_lines(self) -> tuple[Line, ...]:
        """The lines of the log that were read, oldest first."""
        return self.log_older + self.snapshot.lines

    @property
    def log_rows(self) -> Sequence[LogRow]:
        """The rows of the log, oldest first."""
        return self.log_rows_of(self.log_older, self.snapshot.lines)

    def log_rows_of(self, older: tuple[Line, ...], lines: tuple[Line, ...]) -> Sequence[LogRow]:
        """Return the rows of these lines, by the log's filter and severity."""
        if self.back.pinned:
            older, lines = (), pinned_once(Same(self.back.lines(self.snapshot.at)), Same(lines))
        return rows_once(Same(older), Same(lines), self.log_filter, SEVERITIES[self.log_severity][1])

    @property
    def event(self) -> LogRow | None:
        """The selected row of the log, by default the newest; None: there is none."""
        rows = self.log_rows
        return rows[max(0, len(rows) - 1 - self.log_back)] if rows else None

    @property
    def order(self) -> SortOrder:
        """The filter and sort order of the page's list."""
        if self.page == "tasks":
            return self.tasks_order
        if self.page == "cost":
            return self.costs_order
        if self.page in OF_REQUESTS:
            return self.requests_order
        return self.agents_order if self.page in OF_AGENTS else SortOrder(self.log_filter if self.page == "log" else "")

    @property
    def agent(self) -> AgentView | None:
        """The selected agent, or the first where that isn't listed; on the page of one agent that one, elsewhere the
        agent of the selected request or task. None once it is forgotten."""
        if self.page in ("requests", "request"):
            request = self.request
            return self._named(request.agent) if request is not None else None
        if self.page == "tasks":
            return self._named(self.task.agent) if self.task is not None else None
        if self.page == "agent":
            return self._named(self.selected)
        agents = self.agents
        return _by_name(Same(agents)).get(self.selected) or (agents[0] if agents else None)

    def _named(self, name: str) -> AgentView | None:
        return _by_name(Same(self.snapshot.agents)).get(name)

    @property
    def request(self) -> RequestView | None:
        """The selected request, or the first where that isn't listed; on the page of one request that one. None once
        it is forgotten."""
        if self.page == "request":
            return next((each for each in self.requests if each.ticket == self.ticket), None)
        listed = self.listed
        return next((each for each in listed if each.ticket == self.ticket), listed[0] if listed else None)

    @property
    def following(self) -> bool:
        """Whether no agent is chosen on a list of agents, so that the cursor is on whichever comes first."""
        return self.page in OF_AGENTS and not (self.selected or self.marked) and len(self.agents) > 1

    @property
    def targets(self) -> tuple[AgentView, ...]:
        """The agents that commands apply to: on a list of agents those marked, if any, else the one selected."""
        if self.marked and self.page in OF_AGENTS:
            return tuple(agent for agent in self.snapshot.agents if agent.name in self.marked)
        return (self.agent,) if self.agent is not None else ()

    def of_lane(self, tickets: tuple[TicketView, ...]) -> list[TicketView]:
        """Return the tickets of the lane shown."""
        lane = self.lane
        return [ticket for ticket in tickets if lane is None or ticket.lane == lane.state.lane]

    def lane_note(self) -> str:
        """Return which of several lanes is shown, and unless the page lists them how many there are; empty where there
        is one."""
        lanes = self.snapshot.lanes
        if len(lanes) < 2 or self.lane is None:
            return ""
        if self.page == "overview":
            return self.lane.state.lane
        return f"{self.lane.state.lane} ({self.lane_index % len(lanes) + 1}/{len(lanes)}, tab)"


def keep_order(view: View) -> View:
    """Keep the agents in the order in which they are listed now, and the cursor on the agent that it is on."""
    agent = view.agent
    if view.page not in OF_AGENTS or agent is None:
        return view
    return replace(view, selected=agent.name, order_kept=tuple(each.name for each in view.agents))


def join(*notes: str) -> str:
    """Return the notes that aren't empty, separated by dots."""
    return " · ".join(note for note in notes if note)


T = TypeVar("T")
K = TypeVar("K")


def _kept(selected: K, before: Sequence[T], now: Sequence[T], key: Callable[[T], K]) -> K:
    """Return the key to select in the new list: the selected item, or, where it is gone, the item now in its row."""
    if not now or any(key(item) == selected for item in now):
        return selected
    row = next((index for index, item in enumerate(before) if key(item) == selected), 0)
    return key(now[min(row, len(now) - 1)])


@lru_cache(maxsize=4)
def _by_name(agents: Same[AgentView]) -> Mapping[str, AgentView]:
    """Return agents by name: of thousands, panels and keys ask for the selected one thirty times in a frame."""
    return {agent.name: agent for agent in agents.items}


OLDER_MOST = 20_000
"""Lines that are kept beyond those of the snapshot."""


def _still_older(view: View, lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return the lines read back, with those that left the snapshot; none after a recording was moved back."""
    older = view.log_older
    if not older or not lines or lines[0].at < older[-1].at:
        return ()
    gone = tuple(line for line in view.snapshot.lines if line.at < lines[0].at)
    return (older + gone)[-OLDER_MOST:] if gone else older


def _read_on(view: View, older: tuple[Line, ...], lines: tuple[Line, ...]) -> int:
    """Return how far the log is scrolled back after new lines, so that the lines shown stay."""
    if not view.log_back or not view.snapshot.lines:
        return view.log_back
    last = view.snapshot.lines[-1]
    if lines and lines[-1] == last:
        return view.log_back
    before, now = view.log_rows, view.log_rows_of(older, lines)
    at = max(0, len(before) - 1 - view.log_back)
    read = next((number for number, row in enumerate(now) if before and row.line == before[at].line), 0)
    newer = (len(now) - read) - (len(before) - at)
    return max(0, min(len(older) + len(lines) - 1, view.log_back + newer))


def _agents(view: View) -> tuple[tuple[AgentView, ...], Mapping[str, Branch]]:
    order, every = view.agents_order, view.snapshot.agents
    if view.machine:
        every = tuple(agent for agent in every if view.machine in agent.machines)
    tree = view.tree is not False and view.page in OF_AGENTS and bool(parents(every))
    if view.order_kept:
        places = {name: place for place, name in enumerate(view.order_kept)}
        agents: Sequence[AgentView] = sorted(every, key=lambda agent: places.get(agent.name, len(places)))
        order = SortOrder(order.filter)
    else:
        agents = every if order.sort else gravest_first(every, tree=tree)
    if tree:
        return branched(agents, order, view.folded, view.pinned)
    listed = lists.arranged(agents, order, lists.agent_fields, lists.AGENT_KEYS)
    return tuple(pinned_first(listed, view.pinned)), {}


class ViewBuilder:
    """Keeps the source's requests as the page last needed them, and those last arranged."""

    def __init__(self) -> None:
        self._all: tuple[RequestView, ...] = ()
        self._arranged: tuple[object, tuple[RequestView, ...]] = (None, ())
        self._agents: tuple[object, tuple[tuple[AgentView, ...], Mapping[str, Branch]]] = (None, ((), {}))

    def look(self, view: View, source: Source) -> View:
        """Return the view of the world now, unless the view is frozen."""
        view = replace(view, link=source.link)
        if view.frozen:
            return self.arrange(view)
        snapshot = over_span(source.snapshot(), view.back, view.page)
        fleet = source.fleet()
        if (view.everywhere or view.machine) and fleet.me:
            snapshot = replace(snapshot, agents=source.agents_everywhere())
        if view.page in (*OF_REQUESTS, "request", "agents", "log"):
            self._all = source.requests()
        older = _still_older(view, snapshot.lines)
        reached = view.log_before if older else math.inf
        view = replace(view, log_back=_read_on(view, older, snapshot.lines), log_older=older, log_before=reached)
        marked = view.marked and view.marked & {agent.name for agent in snapshot.agents}
        return self.arrange(replace(view, snapshot=snapshot, fleet=fleet, marked=marked))

    def arrange(self, view: View) -> View:
        """Return the view with its lists filtered and sorted."""
        page = view.page in OF_AGENTS
        shape = view.agents_order, view.order_kept, view.tree, view.folded, view.pinned, view.machine, page
        wanted = Same(view.snapshot.agents), shape
        if self._agents[0] != wanted:
            self._agents = wanted, _agents(view)
        shown, branches = self._agents[1]
        requests = self._requests(view)
        selected, ticket, chosen = view.selected, view.ticket, view.chosen
        tasks: tuple[TaskView, ...] = ()
        if view.page == "tasks":
            every = lists.in_order(view.snapshot.tasks)
            tasks = lists.arranged(every, view.tasks_order, lists.task_fields, lists.TASK_KEYS)
            chosen = _kept(chosen, view.tasks, tasks, lambda task: task.id)
        costs: tuple[Cost, ...] = ()
        if view.page == "cost":
            rows = view.back.rows("cost", view.snapshot.at)
            costs = lists.arranged(rows, view.costs_order, lists.cost_fields, lists.COST_KEYS)
        if view.page in OF_AGENTS and selected:
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
            costs=costs,
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
