"""A made-up world on a bad afternoon: every gate holds somebody, and the curve was bent in every way."""

from __future__ import annotations

from typing import Any

from tui.worlds import calm, world

from hivemind.records import replace
from hivemind.scheduler.events import GATES
from hivemind.scheduler.types import Usage
from hivemind.world.snapshot import AgentView, CurvePoint, LaneView, Line, Snapshot, TicketView
from hivemind.world.verdict import judged

MARKS = {
    60: "rate_limited",
    150: "overloaded",
    210: "latency",
    280: "aimd.beta=0.7",
    340: "circuit",
    400: "server_error",
    470: "timeout",
    540: "truncated",
}
"""What bent the curve, by the second of its ten minutes."""


def bad_afternoon(agents: int = 24) -> Snapshot:
    """Every gate, every mark, one agent that failed, one stopped, one with a parent."""
    full = world(agents=agents)
    crew = tuple(_agent(index, agent) for index, agent in enumerate(full.agents))
    queue = tuple(_held(index, ticket) for index, ticket in enumerate(full.queue))
    lane = full.lanes[0]
    state = replace(lane.state, circuit="open", circuit_reopens_in_s=8.1, circuit_errors=11, circuit_results=20)
    opened = Line(4990.0, full.wall - 10, "bad", "circuit", lane.state.lane, "open (529), a probe in 10 s")
    afternoon = replace(
        full,
        agents=crew,
        queue=queue,
        lines=(*full.lines, opened),
        lanes=(LaneView(state, bent(lane.curve)),),
        totals=replace(full.totals, failed=1, refused=2, unpriced=900),
    )
    return judged(afternoon)


def with_lane(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """The snapshot with its first lane's gauges changed."""
    lane = snapshot.lanes[0]
    lanes = (replace(lane, state=replace(lane.state, **changes)), *snapshot.lanes[1:])
    return calm(replace(snapshot, lanes=lanes))


def bent(curve: tuple[CurvePoint, ...]) -> tuple[CurvePoint, ...]:
    """The curve with a mark of each kind; each cut halves the level, which then grows again."""
    level, points = 6.0, []
    for index, point in enumerate(curve):
        mark = MARKS.get(index, "")
        cut = (level, level / 2) if mark and "=" not in mark else None
        level = min(12.0, level + 0.05) if cut is None else cut[1]
        points.append(replace(point, level=level, active=min(point.active, int(level)), mark=mark, cut=cut))
    return tuple(points)


def _agent(index: int, agent: AgentView) -> AgentView:
    if index == 0:
        return replace(agent, failed=1, parent="orchestrator", usage=Usage(60_000, 500_000, 33_000, 39_000))
    if index == 2:
        return replace(agent, stopped=True, state="stopped", in_flight=0)
    return agent


def _held(index: int, ticket: TicketView) -> TicketView:
    """By each gate in turn, those that stand in a line by their place in it."""
    if ticket.state == "retry":
        return ticket
    gate = GATES[index % len(GATES)]
    opens = 12.0 + index if gate in ("rate_limited", "circuit", "requests", "tokens", "backoff") else None
    place = None if gate in ("held", "backoff") else index + 1
    about = None if gate in ("paused", "held") else 3.0 + 4 * index
    return replace(ticket, gate=gate, gate_opens_in_s=opens, position=place, estimate_s=about)
