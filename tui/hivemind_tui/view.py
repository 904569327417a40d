"""What a panel is given: the world at one moment, and where the operator is looking."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind.snapshot import AgentView, LaneView, Snapshot, TicketView


@dataclass(frozen=True, slots=True)
class View:
    """One frame's worth of facts."""

    snapshot: Snapshot
    lane_index: int = 0
    """Which lane the lane panels show, counted round."""
    selected: str = ""
    """Name of the selected agent; empty: the first."""
    frozen: bool = False
    """The view stands still; the traffic doesn't."""

    @property
    def lane(self) -> LaneView | None:
        """The lane shown; None before the first request."""
        lanes = self.snapshot.lanes
        return lanes[self.lane_index % len(lanes)] if lanes else None

    @property
    def agent(self) -> AgentView | None:
        """The selected agent; the first where none was selected or it is gone."""
        agents = self.snapshot.agents
        return next((agent for agent in agents if agent.name == self.selected), agents[0] if agents else None)

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
