"""Totals of the same requests, as recorded and as sent by a load test, counted in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from hivemind.journal.figures import percentile
from hivemind.lab.comparison import Measure
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, wall_s
from hivemind.lab.loadtest.sender import Sent
from hivemind.scheduler.types import Price, Usage
from hivemind.text.humanise import count, dollars

CHARS_PER_TOKEN = 4.0
ASSUMED_ANSWER = 256
"""Tokens of an answer whose length is unknown."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a number of requests came to."""

    requests: int
    answered: int
    statuses: dict[str, int]
    """By status; `none` where there was no answer."""
    errors: dict[str, int]
    """Of the requests that weren't answered, by kind."""
    first_p50_s: float | None
    first_p95_s: float | None
    """To the first content of answered requests; None: unknown for all of them."""
    took_p50_s: float | None
    took_p95_s: float | None
    input_tokens: int
    output_tokens: int
    uncounted: int
    """Answers without a token count."""
    sending_s: float
    """From the first request to the last one."""
    wall_s: float
    """From the first request to the last end."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """By how much requests were sent later than planned."""

    p50_s: float
    p95_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What sending all requests will use."""

    input_tokens: int
    output_tokens: int
    dollars: float | None
    """None: no price is known."""
    unpriced_tokens: int

    def __str__(self) -> str:
        text = f"about {count(self.input_tokens)} tokens in and {count(self.output_tokens)} out"
        if self.dollars is None:
            return f"{text}, of unknown price"
        more = f", and {count(self.unpriced_tokens)} tokens of unknown price" if self.unpriced_tokens else ""
        return f"{text}, {dollars(self.dollars)}{more}"


def recorded_totals(requests: Sequence[RecordedRequest]) -> Totals:
    """Return the totals as recorded."""
    return _totals([each.recorded for each in requests], [each.at_s for each in requests], wall_s(requests))


def sent_totals(sent: Sequence[Sent]) -> Totals:
    """Return the totals of what was sent."""
    at = [each.at_s for each in sent]
    ends = [each.at_s + (each.result.took_s or 0.0) for each in sent]
    return _totals([each.result for each in sent], at, max(ends, default=0.0) - min(at, default=0.0))


def _totals(results: Sequence[RequestResult], sent_at: Sequence[float], wall: float) -> Totals:
    answered = [result for result in results if not result.error]
    first = [result.first_s for result in answered if result.first_s is not None]
    took = [result.took_s for result in answered if result.took_s is not None]
    used = [result.usage for result in results if result.usage is not None]
    statuses = Counter("none" if result.status is None else str(result.status) for result in results)
    return Totals(
        requests=len(results),
        answered=len(answered),
        statuses=dict(sorted(statuses.items())),
        errors=dict(Counter(result.error for result in results if result.error).most_common()),
        first_p50_s=percentile(first, 0.5) if first else None,
        first_p95_s=percentile(first, 0.95) if first else None,
        took_p50_s=percentile(took, 0.5) if took else None,
        took_p95_s=percentile(took, 0.95) if took else None,
        input_tokens=sum(usage.total_input for usage in used),
        output_tokens=sum(usage.output_tokens for usage in used),
        uncounted=sum(result.usage is None for result in answered),
        sending_s=max(sent_at, default=0.0) - min(sent_at, default=0.0),
        wall_s=wall,
    )


def measures(recorded: Totals, now: Totals, sending: str) -> Iterator[Measure[Totals]]:
    """Yield the figures by which two totals are compared; `sending` names the time in which requests were sent."""
    yield Measure("requests", "count", "", lambda each: each.requests)
    yield Measure("answered", "count", "more", lambda each: each.answered, counts_endings=True)
    for status in sorted({*recorded.statuses, *now.statuses}):
        name = "no answer" if status == "none" else f"status {status}"
        yield Measure(name, "count", "", partial(_by_status, status))
    for error in sorted({*recorded.errors, *now.errors}):
        yield Measure(error.replace("_", " "), "count", "less", partial(_by_error, error), counts_endings=True)
    yield Measure("first content p50", "seconds", "less", lambda each: each.first_p50_s)
    yield Measure("first content p95", "seconds", "less", lambda each: each.first_p95_s)
    yield Measure("whole answer p50", "seconds", "less", lambda each: each.took_p50_s)
    yield Measure("whole answer p95", "seconds", "less", lambda each: each.took_p95_s)
    yield Measure("tokens in", "tokens", "", lambda each: each.input_tokens)
    yield Measure("tokens out", "tokens", "", lambda each: each.output_tokens)
    if recorded.uncounted or now.uncounted:
        yield Measure("answers without a count", "count", "", lambda each: each.uncounted)
    yield Measure(sending, "seconds", "", lambda each: each.sending_s)
    yield Measure("wall time", "seconds", "", lambda each: each.wall_s)


def _by_status(status: str, totals: Totals) -> int:
    return totals.statuses.get(status, 0)


def _by_error(error: str, totals: Totals) -> int:
    return totals.errors.get(error, 0)


def lateness(sent: Iterable[Sent]) -> Lateness:
    """Return by how much all that was sent was late."""
    late = [each.late_s for each in sent]
    return Lateness(percentile(late, 0.5), percentile(late, 0.95), max(late, default=0.0))


def estimate(requests: Iterable[RecordedRequest], provider: str, price: Price) -> CostEstimate:
    """Estimate the cost from the recorded usage, without cache reads.

    `provider` is the profile of the provider to be paid; with `generic`, the recorded provider's prices are taken.
    """
    input_tokens = output_tokens = unpriced = 0
    cost: float | None = None
    for request in requests:
        usage = _expected_usage(request)
        input_tokens += usage.input_tokens
        output_tokens += usage.output_tokens
        paid = request.provider if provider == "generic" and request.provider else provider
        each = price(paid, request.model, usage)
        if each is None:
            unpriced += usage.total
        else:
            cost = (cost or 0.0) + each
    return CostEstimate(input_tokens, output_tokens, cost, unpriced)


def _expected_usage(request: RecordedRequest) -> Usage:
    used = request.recorded.usage or Usage()
    return Usage(
        input_tokens=used.total_input or round(request.size_chars / CHARS_PER_TOKEN),
        output_tokens=used.output_tokens or min(request.max_output_tokens or ASSUMED_ANSWER, ASSUMED_ANSWER),
    )
