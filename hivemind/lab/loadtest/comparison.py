"""The same requests as they went when they were recorded, and as they go now, counted the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hivemind.journal.figures import percentile
from hivemind.lab.loadtest.plan import RecordedRequest, RequestResult, wall_s
from hivemind.lab.loadtest.sender import Sent
from hivemind.scheduler.types import Price, Usage

CHARS_PER_TOKEN = 4.0
ASSUMED_ANSWER = 256
"""Tokens of an answer of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a number of requests came to."""

    requests: int
    answered: int
    statuses: dict[str, int]
    """By status; `none` where there was no answer."""
    errors: dict[str, int]
    """By what went wrong, of those that weren't answered."""
    first_p50_s: float | None
    first_p95_s: float | None
    """To the first content, of those that were answered; None: of none is it known."""
    took_p50_s: float | None
    took_p95_s: float | None
    input_tokens: int
    output_tokens: int
    uncounted: int
    """Answers of which nobody said how many tokens they took."""
    sending_s: float
    """From the first request to the last one."""
    wall_s: float
    """From the first request to the last end."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How much later than they should have gone requests went, in seconds."""

    p50_s: float
    p95_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What sending it all will take."""

    input_tokens: int
    output_tokens: int
    dollars: float | None
    """None: no price is known."""
    unpriced_tokens: int


def recorded(asks: Sequence[RecordedRequest]) -> Totals:
    """As they went then."""
    at = [ask.at_s for ask in asks]
    return _side([ask.then for ask in asks], _spread(at), wall_s(asks))


def now(sent: Sequence[Sent]) -> Totals:
    """As they went now."""
    at = [each.at_s for each in sent]
    ends = [each.at_s + (each.course.took_s or 0.0) for each in sent]
    return _side([each.course for each in sent], _spread(at), max(ends, default=0.0) - min(at, default=0.0))


def lateness(sent: Iterable[Sent]) -> Lateness:
    """Of all that were sent."""
    late = [each.late_s for each in sent]
    return Lateness(percentile(late, 0.5), percentile(late, 0.95), max(late, default=0.0))


def estimate(asks: Iterable[RecordedRequest], provider: str, price: Price) -> CostEstimate:
    """By what was used then, with nothing read from caches; `provider` is the profile of who will be paid, `generic`
    where that isn't known."""
    taken = produced = unpriced = 0
    dollars: float | None = None
    for ask in asks:
        usage = _expected(ask)
        taken += usage.input_tokens
        produced += usage.output_tokens
        cost = price(ask.provider if provider == "generic" and ask.provider else provider, ask.model, usage)
        if cost is None:
            unpriced += usage.total
        else:
            dollars = (dollars or 0.0) + cost
    return CostEstimate(taken, produced, dollars, unpriced)


def _expected(ask: RecordedRequest) -> Usage:
    used = ask.then.usage
    taken = used.total_input if used is not None else 0
    produced = used.output_tokens if used is not None else 0
    return Usage(
        input_tokens=taken or round(ask.size_chars / CHARS_PER_TOKEN),
        output_tokens=produced or min(ask.max_output_tokens or ASSUMED_ANSWER, ASSUMED_ANSWER),
    )


def _side(courses: Sequence[RequestResult], sending: float, wall: float) -> Totals:
    good = [course for course in courses if not course.error]
    first = [course.first_s for course in good if course.first_s is not None]
    took = [course.took_s for course in good if course.took_s is not None]
    used = [course.usage for course in courses if course.usage is not None]
    statuses = Counter("none" if course.status is None else str(course.status) for course in courses)
    return Totals(
        requests=len(courses),
        answered=len(good),
        statuses=dict(sorted(statuses.items())),
        errors=dict(Counter(course.error for course in courses if course.error).most_common()),
        first_p50_s=percentile(first, 0.5) if first else None,
        first_p95_s=percentile(first, 0.95) if first else None,
        took_p50_s=percentile(took, 0.5) if took else None,
        took_p95_s=percentile(took, 0.95) if took else None,
        input_tokens=sum(usage.total_input for usage in used),
        output_tokens=sum(usage.output_tokens for usage in used),
        uncounted=sum(course.usage is None for course in good),
        sending_s=sending,
        wall_s=wall,
    )


def _spread(at: Sequence[float]) -> float:
    return max(at, default=0.0) - min(at, default=0.0)
