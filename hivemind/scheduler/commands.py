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
class Tune:
    """Turn a knob (:mod:`.knobs`) while everything runs, on all lanes or an upstream's, those to come included."""

    knob: str
    """Name of the setting, as in `aimd.beta`."""
    value: float
    upstream: str | None = None
    """Makes no difference to a knob that all upstreams share."""


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
class BoostAgent:
    """Treat an agent as CRITICAL for a while, or (0) no longer."""

    agent: str
    for_s: float = 60.0


@dataclass(frozen=True, slots=True)
class StopAgent:
    """Cut an agent off: what it has in flight ends, what waits and what comes is refused; or let it ask again."""

    agent: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Let an agent use so many tokens in all, or (None) as many as it likes."""

    agent: str
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Drain:
    """Refuse whoever waits and whoever comes, and let what is in flight finish; or take requests again."""

    draining: bool


@dataclass(frozen=True, slots=True)
class ReleaseLane:
    """End a pause that the provider asked for."""

    lane: str


Command = (
    SetPriority
    | Tune
    | PinLevel
    | SetCircuit
    | PauseAdmissions
    | PauseAgent
    | BoostAgent
    | StopAgent
    | SetBudget
    | Drain
    | ReleaseLane
)
