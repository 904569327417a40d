"""Events as a proxy would tell them, and the world that they make."""

from __future__ import annotations

from msgspec import structs

from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.events import Hold, LaneState
from hivemind.scheduler.types import FailureKind, Price, Priority, Usage
from hivemind.world.snapshot import AgentView, Snapshot, TicketView
from hivemind.world.world import World

LANE = "up:1"
USED = Usage(100, 20, 30, 40)


def told(*events: ev.Event, price: Price | None = None) -> World:
    """The world after these events."""
    upstreams = (("up", "https://up"),)
    world = World(at=0.0, wall=1000.0, address="http://127.0.0.1:8765", upstreams=upstreams, price=price)
    for event in events:
        world.apply(event)
    return world


def arrived(
    ticket: int = 1, agent: str = "ann", at: float = 0.0, lane: str = LANE, **about: str | bool | Priority
) -> ev.Arrived:
    """A streaming request of normal priority."""
    event = ev.Arrived(at, ticket, agent, lane, "model", "family", Priority.NORMAL, True, 100, 256)
    return structs.replace(event, **about)


def granted(ticket: int = 1, agent: str = "ann", at: float = 1.0, attempt: int = 1) -> ev.Granted:
    """After a second's wait."""
    return ev.Granted(at, ticket, agent, LANE, attempt, 1.0)


def first_content(ticket: int = 1, agent: str = "ann", at: float = 3.0, ttft_s: float = 2.0) -> ev.FirstContent:
    """After two seconds."""
    return ev.FirstContent(at, ticket, agent, LANE, ttft_s)


def failed(
    retry_in_s: float | None, at: float = 2.0, usage: Usage | None = None, message: str = "", attempt: int = 1
) -> ev.AttemptFailed:
    """Ann's first ticket met a 429."""
    kind = FailureKind.RATE_LIMITED
    return ev.AttemptFailed(at, 1, "ann", LANE, attempt, kind, 429, message, retry_in_s, usage)


def finished(
    ticket: int = 1, agent: str = "ann", at: float = 5.0, attempts: int = 1, usage: Usage | None = USED
) -> ev.Finished:
    """It had arrived at the beginning."""
    return ev.Finished(at, ticket, agent, LANE, "model", 200, attempts, usage, at)


def abandoned(ticket: int = 1, at: float = 5.0, in_flight: bool = True, usage: Usage | None = None) -> ev.Abandoned:
    """Ann's client left."""
    return ev.Abandoned(at, ticket, "ann", LANE, in_flight, usage)


def refused(ticket: int | None = 1, at: float = 5.0, reason: str = "queue_full") -> ev.Refused:
    """By us, of ann's."""
    return ev.Refused(at, ticket, "ann", LANE, reason, 503)


def commanded(name: str, at: float = 1.0, who: str = "you", **arguments: object) -> ev.Commanded:
    """A command was carried out."""
    return ev.Commanded(at, who, name, arguments)


def hold(ticket: int, gate: str = "slot", opens_in_s: float | None = None, estimate_s: float | None = None) -> Hold:
    """What keeps a ticket."""
    return Hold(ticket, gate, opens_in_s, estimate_s)


def state(at_level: float = 4.0, **about: object) -> LaneState:
    """A lane at peace."""
    lane = LaneState(
        lane=LANE,
        upstream="up",
        provider="generic",
        active=2,
        waiting=0,
        retrying=0,
        level=at_level,
        ceiling=8.0,
        floor=1.0,
        mean_ttft_s=0.5,
        latency_target_s=2.0,
        circuit_window=20,
        circuit_threshold=0.5,
    )
    return replace(lane, **about)  # type: ignore[arg-type]


def sampled(at: float, *states: LaneState, budgets: tuple[ev.BudgetState, ...] = ()) -> ev.Sampled:
    """Every lane's gauges, and how the budgets stand."""
    return ev.Sampled(at, states, budgets)


def budget(owner: str | None = "ann", **about: object) -> ev.BudgetState:
    """Of 5,000 tokens, of which none is used."""
    covers = "all" if owner is None else "agent"
    return replace(ev.BudgetState(owner, 5_000, None, "run", covers, 0, 0.0, 0), **about)  # type: ignore[arg-type]


def task_added(task: str = "lint", at: float = 0.0, agent: str = "", after: tuple[str, ...] = ()) -> ev.TaskAdded:
    """A task of normal priority."""
    return ev.TaskAdded(at, task, "", agent or task, Priority.NORMAL, 900, after)


def task_changed(
    state: str, note: str = "", at: float = 1.0, task: str = "lint", priority: Priority = Priority.NORMAL
) -> ev.TaskChanged:
    """In its first attempt."""
    return ev.TaskChanged(at, task, state, priority, 1, note)


def only_agent(snapshot: Snapshot) -> AgentView:
    """Of a world with one."""
    (agent,) = snapshot.agents
    return agent


def only_ticket(snapshot: Snapshot) -> TicketView:
    """Of a world with one that is open."""
    (ticket,) = (*snapshot.queue, *snapshot.slots)
    return ticket
