"""How a world stands, taken down at once and made into a value later.

Taking is all that has to happen between two events, and takes a microsecond an agent, request or task; the rest may be
done in another thread, and in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter

from .state import AgentState, AttemptState, OpenTicket, TaskStands, Values, WorldState
from .tickets import Attempt, Note, TicketFold, kept_note

_TICKET = tuple(field.name for field in fields(OpenTicket) if field.name not in ("attempts", "notes"))
_ticket_values = attrgetter(*_TICKET)
_attempt_values = attrgetter(*(field.name for field in fields(AttemptState)))
TicketValues = tuple[Values, tuple[Values, ...], tuple[Note, ...]]
"""A request's own, its attempts', and its notes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """At one moment; nothing that happens later changes it."""

    rest: WorldState
    """Without agents, requests and tasks."""
    agents: list[Values]
    tickets: list[TicketValues]
    tasks: list[Values]
    used_before: dict[str, tuple[int, float]]
    """By task, of those that run."""

    def state(self) -> WorldState:
        """All of it."""
        return replace(
            self.rest,
            agents=tuple([agent_state(each) for each in self.agents]),
            tickets=tuple([ticket_state(each) for each in self.tickets]),
            tasks=tuple([self.task_state(each) for each in self.moved()]),
        )

    def moved(self) -> list[Values]:
        """Of the tasks, the one that moved last at the end."""
        return sorted(self.tasks, key=_moved)

    def task_state(self, values: Values) -> TaskStands:
        """Of one."""
        return TaskStands(*(*values[:-1], self.used_before.get(values[0].task)))


def ticket_values(ticket: TicketFold) -> TicketValues:
    """Of a request, what is taken of it."""
    return _ticket_values(ticket), tuple([_values_of(each) for each in ticket.attempts]), tuple(ticket.notes or ())


def agent_state(values: Values) -> AgentState:
    """Of one."""
    return AgentState(*values)


def ticket_state(values: TicketValues) -> OpenTicket:
    """Of one."""
    own, attempts, notes = values
    return OpenTicket(
        **dict(zip(_TICKET, own, strict=True)),
        attempts=tuple([AttemptState(*each) for each in attempts]),
        notes=tuple(map(kept_note, notes)),
    )


def _values_of(attempt: Attempt) -> Values:
    values: Values = _attempt_values(attempt)
    return values


def _moved(values: Values) -> int:
    moved: int = values[-1]
    return moved
