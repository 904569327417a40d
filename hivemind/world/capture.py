"""How a world stands, taken down at once and made into a value later.

Taking is all that has to happen between two events, and takes a microsecond an agent, request or task; the rest may be
done in another thread, and in pieces. Values of agents and tasks stand in a row: as many tuples, the collector of
garbage would look at each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from hivemind.world.lifecycle import Attempt
from hivemind.world.state import TASK_TAKEN, AgentState, AttemptState, OpenTicket, TaskRecord, Values, WorldState
from hivemind.world.tickets import Note, TicketFold, kept_note

_TICKET = tuple(field.name for field in fields(OpenTicket) if field.name not in ("attempts", "notes"))
_PER_AGENT, _PER_TASK = len(fields(AgentState)), len(TASK_TAKEN)
_ticket_values = attrgetter(*_TICKET)
_attempt_values = attrgetter(*(field.name for field in fields(AttemptState)))
TicketValues = tuple[Values, tuple[Values, ...], tuple[Note, ...]]
"""A request's own, its attempts', and its notes."""


@dataclass(frozen=True, slots=True)
class Capture:
    """At one moment; nothing that happens later changes it."""

    rest: WorldState
    """Without agents, requests and tasks."""
    agents: list[Any]
    """The values of one after the other's, as are the tasks'."""
    tickets: list[TicketValues]
    tasks: list[Any]
    used_before: dict[str, tuple[int, float]]
    """By task, of those that run."""

    def state(self) -> WorldState:
        """All of it."""
        return replace(
            self.rest,
            agents=tuple([self.agent(start) for start in self.agent_starts()]),
            tickets=tuple([ticket_state(each) for each in self.tickets]),
            tasks=tuple([self.task(start) for start in self.task_starts()]),
        )

    def agent_starts(self) -> Sequence[int]:
        """Where each one's values begin."""
        return range(0, len(self.agents), _PER_AGENT)

    def task_starts(self) -> Sequence[int]:
        """Likewise; of the one that moved last at the end."""
        return sorted(range(0, len(self.tasks), _PER_TASK), key=self._moved)

    def agent(self, start: int) -> AgentState:
        """The one whose values begin there."""
        return AgentState(*self.agents[start : start + _PER_AGENT])

    def task(self, start: int) -> TaskRecord:
        """Likewise."""
        own = self.tasks[start : start + _PER_TASK - 1]
        return TaskRecord(*(*own, self.used_before.get(own[0].task)))

    def _moved(self, start: int) -> int:
        moved: int = self.tasks[start + _PER_TASK - 1]
        return moved


def ticket_values(ticket: TicketFold) -> TicketValues:
    """Of a request, what is taken of it."""
    return _ticket_values(ticket), tuple([_values_of(each) for each in ticket.attempts]), tuple(ticket.notes or ())


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
