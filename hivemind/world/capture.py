"""The state of a world, captured at once and converted to a value later.

Only capturing has to happen between two events; it takes a microsecond an agent, request or task. The rest may be done
in another thread, and in pieces. Values of agents and tasks are flat lists, because the garbage collector would visit
each of as many tuples.
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
"""A request's own values, its attempts', and its notes."""


@dataclass(frozen=True, slots=True)
class Capture:
    """The state at one moment; later events don't change it."""

    rest: WorldState
    """Everything but agents, requests and tasks."""
    agents: list[Any]
    """The values of all agents, one after the other; tasks likewise."""
    tickets: list[TicketValues]
    tasks: list[Any]
    used_before: dict[str, tuple[int, float]]
    """By running task."""

    def state(self) -> WorldState:
        """Return the whole state."""
        return replace(
            self.rest,
            agents=tuple([self.agent(start) for start in self.agent_starts()]),
            tickets=tuple([ticket_state(each) for each in self.tickets]),
            tasks=tuple([self.task(start) for start in self.task_starts()]),
        )

    def agent_starts(self) -> Sequence[int]:
        """Return where each agent's values begin."""
        return range(0, len(self.agents), _PER_AGENT)

    def task_starts(self) -> Sequence[int]:
        """Return where each task's values begin, by its last move."""
        return sorted(range(0, len(self.tasks), _PER_TASK), key=self._moved)

    def agent(self, start: int) -> AgentState:
        """Return the agent whose values begin there."""
        return AgentState(*self.agents[start : start + _PER_AGENT])

    def task(self, start: int) -> TaskRecord:
        """Return the task whose values begin there."""
        own = self.tasks[start : start + _PER_TASK - 1]
        return TaskRecord(*(*own, self.used_before.get(own[0].task)))

    def _moved(self, start: int) -> int:
        moved: int = self.tasks[start + _PER_TASK - 1]
        return moved


def ticket_values(ticket: TicketFold) -> TicketValues:
    """Return the values of a request to capture."""
    return _ticket_values(ticket), tuple([_values_of(each) for each in ticket.attempts]), tuple(ticket.notes or ())


def ticket_state(values: TicketValues) -> OpenTicket:
    """Return the state of the request with these values."""
    own, attempts, notes = values
    return OpenTicket(
        **dict(zip(_TICKET, own, strict=True)),
        attempts=tuple([AttemptState(*each) for each in attempts]),
        notes=tuple(map(kept_note, notes)),
    )


def _values_of(attempt: Attempt) -> Values:
    values: Values = _attempt_values(attempt)
    return values
