"""Everything an operator can ask for, as one typed command each, whoever asks: a key, the control API, a tool.

:meth:`hivemind.scheduler.Scheduler.apply` checks and carries them out in one place; a command that was carried out
becomes a :class:`~hivemind.scheduler.events.Commanded` event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .types import Priority


class Rejected(ValueError):
    """A command that can't be carried out; the text says why and what would be right."""


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Give an agent another priority; its waiting tickets move at once."""

    agent: str
    priority: Priority


@dataclass(frozen=True, slots=True)
class SetCeiling:
    """Set the highest concurrency AIMD may reach (C_max) on one lane, or on all; 0: no limit."""

    ceiling: int
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class PinLevel:
    """Hold the concurrency level at a value, or (None) give it back to AIMD."""

    level: float | None
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class SetCircuit:
    """Steer the circuit: by itself, forced open, forced closed, or one probe now."""

    mode: Literal["auto", "open", "closed", "probe"]
    lane: str | None = None


@dataclass(frozen=True, slots=True)
class PauseAdmissions:
    """Grant nothing more (streams in flight go on), or resume."""

    paused: bool


@dataclass(frozen=True, slots=True)
class PauseAgent:
    """Hold an agent's requests in the queue, or let them go again."""

    agent: str
    paused: bool


@dataclass(frozen=True, slots=True)
class ReleaseLane:
    """End a pause that the provider asked for."""

    lane: str


Command = SetPriority | SetCeiling | PinLevel | SetCircuit | PauseAdmissions | PauseAgent | ReleaseLane
