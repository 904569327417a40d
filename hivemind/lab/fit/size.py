"""How big an answer is, and the work that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from hivemind.lab.trace.steps import RequestStep, TracedAttempt
from hivemind.scheduler.types import FailureKind, Usage

_LOADS = frozenset({FailureKind.TRUNCATED, FailureKind.DISCONNECTED, FailureKind.TIMEOUT})
"""Kinds of failures until which the provider worked on an answer."""
PARTS = ("input", "cached", "output", "chars")
"""What the size of an answer is measured by: tokens of the prompt that aren't from a cache, those that are, tokens of
the answer, and characters of the request."""


class Size(Struct, frozen=True):
    """The work of an answer by its size: `(base + parts) * kinds`."""

    base_s: float = 1.0
    parts_s: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Of one token or character, in the order of :data:`PARTS`."""
    kinds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Logarithms of factors, by `model`, `stream` or `lane` and its value."""

    def of(self, request: RequestStep, usage: Usage | None) -> float:
        """Return the expected work of an answer."""
        found = sizes(request, usage)
        work = self.base_s + sum(each * size for each, size in zip(self.parts_s, found, strict=True) if each)
        effects = (effect for (name, kind), effect in self.kinds.items() if kind_of(request, name) == kind)
        return work * math.exp(sum(effects))


def loads(one: TracedAttempt) -> bool:
    """Return whether an attempt kept the provider at work until its end."""
    return one.failure is None or one.failure.kind in _LOADS


def sizes(request: RequestStep, usage: Usage | None) -> tuple[float, float, float, float]:
    """Return the size of an answer by each of :data:`PARTS`."""
    arrived = request.arrived
    chars = float(arrived.size_chars or 4 * arrived.estimated_input)
    if usage is None:
        return float(arrived.estimated_input), 0.0, 0.0, chars
    uncached = float(usage.input_tokens + usage.cache_write_tokens)
    return uncached, float(usage.cache_read_tokens), float(usage.output_tokens), chars


def kind_of(request: RequestStep, name: str) -> str:
    """Return what a request is by `model`, `stream` or `lane`."""
    arrived = request.arrived
    if name == "model":
        return arrived.model
    return str(arrived.stream) if name == "stream" else arrived.lane
