"""Who is turned away, and why: requests for which waiting is no use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivemind.scheduler.admission.circuit import CircuitState
from hivemind.scheduler.ledger import budget
from hivemind.scheduler.tasks import task_agents
from hivemind.scheduler.ticket import Refusal, Ticket

if TYPE_CHECKING:
    from hivemind.scheduler.lane import Lane
    from hivemind.scheduler.scheduler import Scheduler

DRAINING = Refusal("draining", 5.0)
TOO_MANY_AGENTS = Refusal("too_many_agents", 60.0)
QUEUE_FULL = Refusal("queue_full", 10.0)
WAIT_TOO_LONG = Refusal("wait_too_long", 10.0)
AGENT_STOPPED = Refusal("agent_stopped", None, 403)


def on_arrival(scheduler: Scheduler, ticket: Ticket, now: float) -> Refusal | None:
    """Why a ticket that came may neither fly nor wait."""
    if ticket.agent.cut_off:
        return AGENT_STOPPED
    if scheduler.draining:
        return DRAINING
    agent = ticket.agent
    if agent.gate == "blocked":
        return task_agents.blocked(scheduler, agent)
    if agent.limits and (refusal := budget.spent(agent) or budget.unknown_price(scheduler, ticket)) is not None:
        return refusal
    return by_circuit(ticket, now)


def full(scheduler: Scheduler) -> Refusal | None:
    """Why a ticket that can't fly may not wait either."""
    waiting = sum(lane.queue.waiting + len(lane.retries) for lane in scheduler.lanes.values())
    return QUEUE_FULL if waiting >= scheduler.config.queue.max_depth else None


def by_circuit(ticket: Ticket, now: float) -> Refusal | None:
    """An open circuit turns away whoever can't wait for it to be tried again."""
    lane = ticket.lane
    if lane.circuit.state is not CircuitState.OPEN or not lane.settings.backpressure:
        return None
    reopens_at = lane.circuit.reopens_at
    if lane.refuses or (reopens_at is not None and reopens_at > ticket.expires_at):
        wait_s = lane.config.circuit.cooldown_s if reopens_at is None else reopens_at - now
        return Refusal("circuit_open", max(wait_s, 1.0))
    return None


def behind_circuit(scheduler: Scheduler, lane: Lane, now: float) -> None:
    """Turn away whoever waits in vain for the lane's circuit."""
    if lane.circuit.state is not CircuitState.OPEN or not lane.settings.backpressure:
        return
    waiting = [t for a in scheduler.agents.values() for t in a.tickets.values() if t.lane is lane and t.waiting]
    for ticket in waiting:
        refusal = by_circuit(ticket, now)
        if refusal is not None:
            scheduler.refuse(ticket, refusal, now)
