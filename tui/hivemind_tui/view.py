"""What a panel is given: the world at one moment, and where the operator is looking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hivemind.requests import RequestDetail, RequestView
from hivemind.snapshot import AgentView, LaneView, Snapshot, TicketView

from .insides import Insides
from .listing import Order
from .source import Link

PAGES = ("overview", "agents", "requests", "tuning", "log")
"""Those with a number; `start` greets until the first request, `agent` and `request` are one level down."""


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
    log_filter: str = ""
    log_back: int = 0
    """Lines scrolled back from the newest."""
    scroll: int = 0
    """Entries of its lists scrolled past on the request page."""
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
    inside: Insides | None = None
    """How the screen itself is doing, while somebody looks at that."""
    drain_s: float = 30.0
    token: bool = False
    """Agents must show one."""
    demo: bool = False
    """The demo can be started from here."""

    @property
    def page(self) -> str:
        """The page shown."""
        return self.trail[-1]

    @property
    def agents(self) -> tuple[AgentView, ...]:
        """As the lists show them."""
        return self.snapshot.agents if self.agents_shown is None else self.agents_shown

    @property
    def listed(self) -> tuple[RequestView, ...]:
        """Requests as the lists show them; on an agent's page, its own."""
        return self.requests if self.requests_shown is None else self.requests_shown

    @property
    def lane(self) -> LaneView | None:
        """The lane shown; None before the first request."""
        lanes = self.snapshot.lanes
        return lanes[self.lane_index % len(lanes)] if lanes else None

    @property
    def agent(self) -> AgentView | None:
        """The selected agent; the first where none was selected or it is not among those shown."""
        agents = self.agents
        return next((agent for agent in agents if agent.name == self.selected), agents[0] if agents else None)

    @property
    def request(self) -> RequestView | None:
        """The selected request; the first where none was selected or it is not among those shown."""
        listed = self.listed
        return next((each for each in listed if each.ticket == self.ticket), listed[0] if listed else None)

    @property
    def targets(self) -> tuple[AgentView, ...]:
        """Whom a command on agents is for: the marked ones where there are any, else the selected one."""
        if self.marked:
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
        return f"{self.lane.state.lane} ({self.lane_index % len(lanes) + 1} of {len(lanes)}, tab)"


def join(*notes: str) -> str:
    """Notes of a title, those that say something, with a dot between."""
    return " · ".join(note for note in notes if note)
