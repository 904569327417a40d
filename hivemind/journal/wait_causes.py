"""What keeps waiting requests: its names, and how long it did."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hivemind.text.humanise import share
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
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def causes_of(seconds: Sequence[float]) -> WaitCauses:
    """Return the causes of seconds that are in the order of :data:`CAUSES`."""
    return WaitCauses({name: each for name, each in zip(NAMES, seconds, strict=True) if each > 0})
