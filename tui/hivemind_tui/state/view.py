"""What a panel is given: the world at one moment, and where the operator is looking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hivemind.text.shells import Shell
from hivemind.world.request_view import RequestDetail, RequestView
from hivemind.world.snapshot import AgentView, LaneView, Snapshot, TaskView, TicketView
from hivemind_tui.loop.diagnostics import Diagnostics
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.playback import Playback
from hivemind_tui.state.filtering import Order
from hivemind_tui.state.tree import Branch
from hivemind_tui.whatif.state import WhatIf

PAGES = ("overview", "agents", "requests", "tuning", "log", "tasks")
"""Those with a number; `start` greets until the first request, `agent` and `request` are one level down."""
OF_AGENTS = frozenset({"overview", "agents"})
"""Pages whose list is of agents."""
OF_REQUESTS = frozenset({"requests", "agent"})
"""Pages whose list is of requests."""


@dataclass(frozen=True, slots=True)
class View:
    """One frame's worth of facts."""

    snapshot: Snapshot
    link: Link = field(default_factory=Link)
    trail: tuple[str, ...] = ("overview",)
    """The pages gone through; the last one is shown."""
    lane_index: int = 0
    """Which lane the lane panels show, counted round."""
    selected: str = ""
    """Name of the selected agent; empty: the first."""
    ticket: int = 0
    """The selected request; 0: the first."""
    marked: frozenset[str] = frozenset()
    """Agents that a command is for together."""
    frozen: bool = False
    """The view stands still; the traffic doesn't."""
    agents_order: Order = field(default_factory=Order)
    requests_order: Order = field(default_factory=Order)
    tasks_order: Order = field(default_factory=Order)
    chosen: str = ""
    """Id of the selected task; empty: the first."""
    tasks_shown: tuple[TaskView, ...] | None = None
    log_filter: str = ""
    log_back: int = 0
    """Lines scrolled back from the newest."""
    scroll: int = 0
    """Entries of its lists scrolled past on the request page; the line chosen on the first screen."""
    tree: bool | None = None
    """Whether agents stand under those that started them; None: where any was started by another."""
    folded: frozenset[str] = frozenset()
    """Agents of which those below aren't shown."""
    branches: Mapping[str, Branch] = field(default_factory=dict)
    """Where each agent stands in the tree; empty where they are listed flat."""
    agents_shown: tuple[AgentView, ...] | None = None
    """Arranged as the order has it; None: as they came."""
    requests: tuple[RequestView, ...] = ()
    """All that are remembered, newest first."""
    requests_shown: tuple[RequestView, ...] | None = None
    detail: RequestDetail | None = None
    """Of the request that the request page shows; None until it is there."""
    knob: str = "aimd.alpha"
    """The knob that the tuning page's cursor is on."""
    untuned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By upstream, the knobs that were turned here, as they stood before, or as they were last written down."""
    undoable: bool = False
    """Something was changed here that can be taken back."""
    inside: Diagnostics | None = None
    """How the screen itself is doing, while somebody looks at that."""
    what_if: WhatIf = field(default_factory=WhatIf)
    """What the what-if page shows."""
    drain_s: float = 30.0
    token: bool = False
    """Agents must show one."""
    shell: Shell = "bash"
    """The one whose lines are shown and copied."""
    """Agents must show one."""
    demo: bool = False
    """The demo can be started from here."""
    playback: Playback | None = None
    """Where in time it is, on a recording."""

    @property
    def page(self) -> str:
        """The last page of the trail, which is shown."""
        return self.trail[-1]

    @property
    def live(self) -> bool:
        """Whether this is a proxy that runs, here or elsewhere, rather than a recording."""
        return self.playback is None

    @property
    def agents(self) -> tuple[AgentView, ...]:
        """As the lists show them."""
        return self.snapshot.agents if self.agents_shown is None else self.agents_shown

    @property
    def listed(self) -> tuple[RequestView, ...]:
        """Requests as the lists show them; on an agent's page, its own."""
        return self.requests if self.requests_shown is None else self.requests_shown

    @property
    def tasks(self) -> tuple[TaskView, ...]:
        """As the list shows them."""
        return self.snapshot.tasks if self.tasks_shown is None else self.tasks_shown

    @property
    def task(self) -> TaskView | None:
        """The selected task, or the first where that isn't among those shown."""
        tasks = self.tasks
        return next((task for task in tasks if task.id == self.chosen), tasks[0] if tasks else None)

    @property
    def lane(self) -> LaneView | None:
        """The lane shown; None before the first request."""
        lanes = self.snapshot.lanes
        return lanes[self.lane_index % len(lanes)] if lanes else None

    @property
    def filter(self) -> str:
        """What the page's list is filtered by."""
        if self.page == "log":
            return self.log_filter
        if self.page == "tasks":
            return self.tasks_order.filter
        if self.page in OF_REQUESTS:
            return self.requests_order.filter
        return self.agents_order.filter if self.page in OF_AGENTS else ""

    @property
    def agent(self) -> AgentView | None:
        """Where agents are listed the selected one, or the first where that isn't among those shown. On the page of one
        agent that one, and with requests the one that made the selected request; None once it is forgotten."""
        if self.page in ("requests", "request"):
            request = self.request
            return self._named(request.agent) if request is not None else None
        if self.page == "tasks":
            return self._named(self.task.agent) if self.task is not None else None
        if self.page == "agent":
            return self._named(self.selected)
        agents = self.agents
        return next((agent for agent in agents if agent.name == self.selected), agents[0] if agents else None)

    def _named(self, name: str) -> AgentView | None:
        return next((agent for agent in self.snapshot.agents if agent.name == name), None)

    @property
    def request(self) -> RequestView | None:
        """The selected request, or the first where none was selected or it is not among those shown. On the page of one
        request that one; None once it is forgotten."""
        if self.page == "request":
            return next((each for each in self.requests if each.ticket == self.ticket), None)
        listed = self.listed
        return next((each for each in listed if each.ticket == self.ticket), listed[0] if listed else None)

    @property
    def targets(self) -> tuple[AgentView, ...]:
        """Whom a command on agents is for: where agents are listed the marked ones, if there are any, else the one that
        is selected or inspected."""
        if self.marked and self.page in OF_AGENTS:
            return tuple(agent for agent in self.snapshot.agents if agent.name in self.marked)
        return (self.agent,) if self.agent is not None else ()

    def of_lane(self, tickets: tuple[TicketView, ...]) -> list[TicketView]:
        """Those of the tickets that belong to the lane shown."""
        lane = self.lane
        return [ticket for ticket in tickets if lane is None or ticket.lane == lane.state.lane]

    def lane_note(self) -> str:
        """Which of several lanes this is; empty where there is one."""
        lanes = self.snapshot.lanes
        if len(lanes) < 2 or self.lane is None:
            return ""
        return f"{self.lane.state.lane} ({self.lane_index % len(lanes) + 1}/{len(lanes)}, tab)"


def join(*notes: str) -> str:
    """Notes of a title, those that say something, with a dot between."""
    return " · ".join(note for note in notes if note)
