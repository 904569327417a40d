"""The pressure that an explanation of refusals gives to each attempt: the number in process with it, or what was used
in the last minute with it. An attempt under more pressure than the limit is refused.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

from msgspec import Struct

from hivemind.lab.fit.limiter import Amounts, Form, amounts_of
from hivemind.lab.trace.steps import RequestAttempt, TracedAttempt
from hivemind.records import replace
from hivemind.scheduler.types import Failure, FailureKind, WindowKind

USUAL_S = 60.0
"""The usual length of a rate limit's window."""
_UNUSUAL = 1.0
"""The logarithm by which a window of another length is less likely than one of a minute before anything is seen."""
_LATE_S = 0.02
"""A provider may count an attempt for as long after its end."""


@dataclass(slots=True)
class Case:
    """The attempts of one family that may have been refused in one way."""

    family: str
    kind: FailureKind
    each: list[RequestAttempt]
    ends_at: float
    told: bool
    """Headers tell of limits."""
    in_process: Mapping[int, int]
    """By attempt's identity."""
    stated: tuple[WindowKind, int] | None = None
    """The limit a minute that these refusals state."""
    refused: list[bool] = field(init=False)
    unknown: list[bool] = field(init=False)
    """Failed in a way that isn't recorded, so that it may have been refused, or not."""
    amounts: list[Amounts] = field(init=False)

    def __post_init__(self) -> None:
        self.refused = [one.failed_as(self.kind) for _, one in self.each]
        self.unknown = [one.failed_somehow for _, one in self.each]
        self.amounts = [amounts_of(request, one.usage) for request, one in self.each]

    def step_per_s(self, of: Candidate) -> float:
        """Return the least difference between rates of a bucket that matters: one request over the recording."""
        one = fmean(amounts.first(of.window, reserves=False, cached=of.cached) for amounts in self.amounts)
        return one / max(1.0, self.each[-1][1].granted_at - self.each[0][1].granted_at)

    def charged(self, place: int) -> bool:
        """Return whether limits count the attempt at a place, or the answer (-1)."""
        return place < 0 or not self.each[place][1].uncharged


class Candidate(Struct, frozen=True):
    """An explanation before its limit is known."""

    what: Literal["places"] | Form
    window: WindowKind = WindowKind.REQUESTS
    span_s: float = USUAL_S
    per_s: float = 0.0
    """The rate at which a bucket is filled."""
    cached: bool = False
    """Input that is read from a cache counts, too."""

    @property
    def prior(self) -> float:
        """The logarithm of its likelihood before anything is seen."""
        unusual = self.what not in ("places", "bucket") and self.span_s != USUAL_S
        tokens = self.window is not WindowKind.REQUESTS
        return -_UNUSUAL * (unusual + tokens + self.cached + 2 * (self.what == "bucket"))


def in_process_by_attempt(sent: Sequence[RequestAttempt], ends_at: float) -> dict[int, int]:
    """Return the number in process at the beginning of each attempt, by its identity.

    Whether what has just ended still counted then isn't known. It did if the attempt was refused, else it didn't.
    """
    soon = in_process(sent, ends_at)
    late = in_process(sent, ends_at, late_s=_LATE_S)
    return {id(one): b if one.uncharged else a for (_, one), a, b in zip(sent, soon, late, strict=True)}


def charges(case: Case, of: Candidate, *, reserves: bool) -> Iterator[tuple[float, int, float]]:
    """Yield times, the place of the attempt that begins then or -1, and what is charged, in order."""
    found: list[tuple[float, int, float]] = []
    for place, ((_, one), amounts) in enumerate(zip(case.each, case.amounts, strict=True)):
        found.append((one.granted_at, place, amounts.first(of.window, reserves=reserves, cached=of.cached)))
        counts = of.window is WindowKind.OUTPUT or (of.window is WindowKind.TOKENS and not reserves)
        if counts and one.usage is not None and one.usage.output_tokens:
            found.append((one.granted_at + one.duration_s, -1, float(one.usage.output_tokens)))
    found.sort(key=lambda each: each[:2])
    yield from found


def pressures(case: Case, of: Candidate, *, reserves: bool) -> list[float]:
    """Return the pressure of each attempt."""
    if of.what == "places":
        return [float(case.in_process[id(one)]) for _, one in case.each]
    found = [0.0] * len(case.each)
    used, began, before_at = 0.0, -math.inf, -math.inf
    recent: deque[tuple[float, float]] = deque()
    for at, place, amount in charges(case, of, reserves=reserves):
        if of.what == "bucket":
            used, before_at = max(0.0, used - of.per_s * (at - before_at)) if used else 0.0, at
        elif of.what == "sliding":
            while recent and recent[0][0] <= at - of.span_s:
                used -= recent.popleft()[1]
        elif at >= began + of.span_s:
            used = 0.0
        if place >= 0:
            found[place] = used + amount
            if not case.charged(place):
                continue
            if of.what == "fixed" and at >= began + of.span_s:
                began = at
        used += amount
        if of.what == "sliding":
            recent.append((at, amount))
    return found


class Places(Struct, frozen=True):
    """A limit of requests in process at once; one more is refused."""

    most: int
    refusals: tuple[TracedAttempt, ...]
    """The recorded refusals that it explains."""
    failure: Failure
    """How it refuses."""

    def times(self, by: float) -> Places:
        """Return so many times as many places."""
        return replace(self, most=max(1, round(self.most * by)))

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        refused = self.failure.status or "refusals"
        yield f"{refused}s came from a limit of about {self.most} in flight"


def in_process(sent: Sequence[RequestAttempt], ends_at: float, *, late_s: float = 0.0) -> Iterator[int]:
    """Yield the number in process at the beginning of each attempt, itself included, in order of their beginnings.

    `ends_at`: when the recording ended, and with it what has no recorded end; `late_s`: places are free so long after
    the end of an attempt.
    """
    moments = [(one.granted_at, 1, not one.uncharged) for _, one in sent]
    moments += [
        (one.granted_at + one.duration_s + late_s if one.end_number else ends_at, 0, True)
        for _, one in sent
        if not one.uncharged
    ]
    moments.sort(key=lambda moment: moment[:2])
    count = 0
    for _, begins, takes in moments:
        if begins:
            yield count + 1
            count += takes
        else:
            count -= 1
