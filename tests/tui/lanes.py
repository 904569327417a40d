"""A world with several upstreams, of which one has its troubles, for the first screen and all pages."""

from __future__ import annotations

from tui.graph import processes
from tui.requests import requests_of
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.health import Forecast
from hivemind.world.snapshot import LaneView, Snapshot, TicketView

KEYS = ("3f9c21aa", "77de40b1", "c01dcafe", "5ca1ab1e")


def several(lanes: int = 2, agents: int = 12) -> Snapshot:
    """Agents that work on so many upstreams: every second lane is held up by its circuit, every third rate-limited."""
    full = world(agents=agents)
    names = [f"{('anthropic', 'openai', 'backup')[n % 3]}:{KEYS[n % 4]}{n or ''}" for n in range(lanes)]

    def at(ticket: TicketView) -> TicketView:
        return replace(ticket, lane=names[ticket.ticket % lanes])

    slots, queue = tuple(map(at, full.slots)), tuple(map(at, full.queue))
    views = tuple(_lane(full.lanes[0], n, name, slots, queue) for n, name in enumerate(names))
    ends = {name: (9.0, None, 41.0)[: len(views[n].state.windows)] for n, name in enumerate(names) if n % 2 == 0}
    return replace(full, lanes=views, slots=slots, queue=queue, forecast=Forecast(windows=ends))


def _lane(lane: LaneView, n: int, name: str, slots: tuple[TicketView, ...], queue: tuple[TicketView, ...]) -> LaneView:
    waiting = [ticket.state for ticket in queue if ticket.lane == name]
    state = replace(
        lane.state,
        lane=name,
        upstream=name.partition(":")[0],
        active=sum(ticket.lane == name for ticket in slots),
        waiting=waiting.count("queued"),
        retrying=waiting.count("retry"),
        level=8.5 - 2 * (n % 3),
        circuit="open" if n % 2 else "closed",
        circuit_reopens_in_s=3.7 if n % 2 else None,
        rate_limited_for_s=12.0 if n % 3 == 2 else 0.0,
    )
    return replace(lane, state=state)


def several_source(lanes: int = 2, agents: int = 12) -> FakeSource:
    """A source with that world, its requests and a task graph."""
    full = several(lanes, agents)
    graph = processes(agents)
    full = replace(full, tasks=graph.tasks, task_counts=graph.task_counts)
    return FakeSource(full, requests=requests_of(full, 60))
