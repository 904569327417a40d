"""A lane at a moment, for people: its gauges, its rate windows, and what holds its waiting tickets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hivemind.scheduler.types import Utilisation, WindowKind


@dataclass(frozen=True, slots=True)
class WindowState:
    """One rate window at a moment; part of :class:`LaneState`."""

    family: str
    kind: WindowKind
    limit: float
    used: float
    """Counted in the window now, settled with real usage where known."""
    reserved: float
    """The part of `used` that is still an estimate."""
    remaining: float
    resets_in_s: float | None
    source: str
    """`headers`, `settings` or `profile`."""
    probe_in_s: float | None = None
    """Until a probe is sent although the provider states that nothing is left, because its reset is later than the
    window can last. None: there is no such doubt, or something is left."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a waiting ticket at a moment; part of :class:`LaneState`."""

    ticket: int
    gate: str
    """The first gate that is shut, one of :data:`GATES`; `next` where none is and its turn has come."""
    opens_in_s: float | None
    """Until that gate opens by itself, where that is known."""
    estimate_s: float | None
    """ETA of its grant, by the pace at which slots and windows have come free; None: unknown."""


GATES = (
    *("paused", "parked", "circuit", "slot", "upstream", "requests", "tokens"),
    *("budget", "held", "dependency", "backoff"),
)
"""Admissions are paused; the provider asked for a pause (Retry-After); the circuit is open; no slot is free; all lanes
of the upstream together have as many requests in flight as they may; a window of requests, or of tokens, is used up; so
is a budget of the agent's; the operator holds the agent; its task waits for others; between two attempts."""


@dataclass(frozen=True, slots=True)
class LaneState:
    """A lane's gauges at a moment; part of :class:`~hivemind.scheduler.events.Sampled`."""

    lane: str
    upstream: str
    provider: str
    active: int
    waiting: int
    retrying: int
    """Tickets that wait for their next attempt."""
    level: float
    """AIMD's level; `inf` where there is no limit."""
    ceiling: float
    floor: float
    pinned: bool
    mean_ttft_s: float | None
    """Over AIMD's window of samples."""
    latency_target_s: float
    parked_for_s: float
    paused: bool
    circuit: str
    circuit_forced: bool
    circuit_errors: int
    circuit_results: int
    circuit_window: int
    circuit_threshold: float
    circuit_reopens_in_s: float | None
    windows: tuple[WindowState, ...]
    plan: tuple[Utilisation, ...]
    upcoming: tuple[Hold, ...] = ()
    """The next tickets in about the order in which they will be sent, :data:`UPCOMING_SHOWN` at most."""
    knobs: Mapping[str, float] = field(default_factory=dict)
    """The value of every knob in :data:`~hivemind.scheduler.operator.knobs.KNOBS` now, by name; 0 means no limit."""
    upstream_active: int = 0
    """Requests in flight in all lanes of this upstream, where their number is limited."""
    upstream_limit: int = 0
    """Most of them; 0: no limit."""


UPCOMING_SHOWN = 100
