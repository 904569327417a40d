"""What keeps waiting requests: its names, how long it did, and a lane's state as far as it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hivemind.scheduler.config import LaneConfig, RetryConfig
from hivemind.scheduler.events import LaneState
from hivemind.text.humanise import listed, share
from hivemind.world.gates import GATES

CAUSES: Mapping[str, str] = {
    "paused": "paused by the operator",
    "rate_limited": "rate-limited (Retry-After)",
    "circuit": "circuit not closed",
    "slots": "slots: max concurrency",
    "level": "slots: level cut",
    "windows": "rate windows",
    "fleet": "slots of the fleet",
    "other": "order and other",
    "held": "held by the operator",
    "budget": "budget used up",
    "task": "its task waited",
    "retry": "pause before a retry",
}
"""What keeps a request, and its name in tables. The first three keep a whole lane, the next ones the first in its line,
the last four a request that isn't in line."""
WAITED_FOR: Mapping[str, str] = {
    "paused": "for the operator's pause to end",
    "rate_limited": "for pauses that the provider asks for (Retry-After)",
    "circuit": "for the circuit to close",
    "slots": "for slots",
    "level": "for slots that cuts of the level took away",
    "windows": "for rate windows",
    "fleet": "for slots of the fleet",
    "other": "in line",
    "held": "for the operator's release",
    "budget": "for budgets",
    "task": "for their tasks",
    "retry": "between attempts",
}
"""Of each cause, the end of a sentence that begins "requests waited"."""
GATE_CAUSES: Mapping[str, str] = {name: gate.cause for name, gate in GATES.items()}
"""The cause that each of the scheduler's :data:`~hivemind.scheduler.events.GATES` is, and `next`; for a slot that a cut
of the level took away it is `level` instead."""
NAMES = tuple(CAUSES)
_CAUSES_TOLD = 4
"""If there are more than one beyond these, they are told together."""
_LEAST_TOLD = 0.005
"""Smaller shares of all waits aren't worth a word."""
PAUSED, RATE_LIMITED, CIRCUIT, SLOTS, LEVEL, WINDOWS, FLEET, OTHER, HELD, BUDGET, TASK, RETRY = range(12)


class WaitCauses(Struct, frozen=True):
    """How long requests waited, by what kept them."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """By the names of :data:`CAUSES`, in their order; only those that there were."""

    @property
    def total_s(self) -> float:
        """All of them together."""
        return math.fsum(self.seconds.values())

    @property
    def largest(self) -> str:
        """The name of the cause that took most; empty: nothing waited."""
        return max(self.seconds, key=lambda cause: self.seconds[cause], default="")

    def by_size(self) -> list[tuple[str, float]]:
        """Causes and seconds, the largest first."""
        return sorted(self.seconds.items(), key=lambda each: -each[1])


def shares_text(causes: WaitCauses) -> str:
    """Return `71 % for rate windows, 20 % for the circuit to close and 9 % for other reasons`, the largest first; of a
    single cause only its name."""
    total_s = causes.total_s
    shown = [(cause, seconds) for cause, seconds in causes.by_size() if seconds >= _LEAST_TOLD * total_s]
    if len(shown) > _CAUSES_TOLD + 1:
        shown = shown[:_CAUSES_TOLD]
    if not shown:
        return ""
    parts = [f"{share(seconds / total_s)} {WAITED_FOR[cause]}" for cause, seconds in shown]
    rest_s = total_s - math.fsum(seconds for _, seconds in shown)
    if rest_s >= _LEAST_TOLD * total_s:
        parts.append(f"{share(rest_s / total_s)} for other reasons")
    if len(parts) == 1:
        return WAITED_FOR[shown[0][0]]
    return listed(parts, "and")


def causes_of(seconds: Sequence[float]) -> WaitCauses:
    """Return the causes of seconds that are in the order of :data:`CAUSES`."""
    return WaitCauses({name: each for name, each in zip(NAMES, seconds, strict=True) if each > 0})


LANE_CAUSES = HELD
"""Causes before this one are lanes', those from it on are requests' own."""
STAGGER_S = RetryConfig().stagger_s


class LaneWaits:
    """A lane's state as far as it keeps requests, and the seconds in which something waited by what kept it."""

    __slots__ = (
        *("at", "cause", "ceiling", "circuit", "config", "in_flight", "key", "leased", "level", "limited"),
        *("rate_limited", "resumes_until", "resuming", "seconds", "shut", "upstream", "waiting"),
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.upstream = key.partition(":")[0]
        self.config: LaneConfig | None = None
        self.level = self.ceiling = self.leased = math.inf
        self.rate_limited = self.limited = False
        self.circuit = "closed"
        self.in_flight = self.waiting = 0
        self.shut: dict[str, int] = {}
        """Families of models that are held though the lane isn't, and what keeps them."""
        self.at = -math.inf
        self.cause = OTHER
        self.seconds = [0.0] * LANE_CAUSES
        self.resuming = 0
        """Grants that are still spaced out after a pause of the provider's, and until when the present space lasts."""
        self.resumes_until = -math.inf

    def advance(self, at: float) -> None:
        """Count the time until then."""
        since = self.at
        if at <= since:
            return
        self.at = at
        if not self.waiting:
            return
        cause = self.cause
        if self.resuming and WINDOWS <= cause < LANE_CAUSES and since < self.resumes_until:
            spaced_s = min(at, self.resumes_until) - since
            self.seconds[RATE_LIMITED] += spaced_s
            since += spaced_s
        self.seconds[cause] += at - since

    def configure(self, config: LaneConfig) -> None:
        """Take over settings. The level stays, unless it is the first time."""
        first, self.config = self.config is None, config
        self.ceiling = config.max_concurrency or math.inf
        if first:
            self.level = self.ceiling
        if config.rpm or config.tpm:
            self.limited = True

    def sampled(self, state: LaneState) -> None:
        """Take over the gauges."""
        self.upstream = state.upstream
        self.level, self.ceiling = state.level, state.ceiling
        self.rate_limited = state.rate_limited_for_s > 0
        self.circuit = state.circuit
        self.leased = math.inf if state.lease is None else state.lease.slots
        self.limited = bool(state.windows) or self.limited

    def add(self, number: int) -> None:
        """Count requests that wait, fewer if the number is negative."""
        self.waiting += number
        if not self.waiting:
            self.resuming = 0

    def judge(self, *, paused: bool, upstream_full: bool) -> None:
        """Say what keeps the first in line from now on."""
        in_flight = self.in_flight
        if paused:
            self.cause = PAUSED
        elif self.rate_limited:
            self.cause = RATE_LIMITED
        elif self.circuit != "closed":
            self.cause = CIRCUIT
        elif in_flight + 1 > self.leased:
            self.cause = FLEET if self.leased < self.level else SLOTS
        elif in_flight and in_flight + 1 > self.level:
            self.cause = SLOTS if in_flight + 1 > self.ceiling else LEVEL
        elif upstream_full:
            self.cause = SLOTS
        else:
            self.cause = WINDOWS if self.limited else OTHER
