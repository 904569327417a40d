"""The plan of a load test with its cost, and its result, as text and as JSON.

The same requests are counted in the same way as recorded and as sent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from hivemind.console import json_text, printable
from hivemind.errors import UsageError
from hivemind.journal.figures import percentile
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.lab.comparison import Unit
from hivemind.lab.loadtest.messages import can_be_sent
from hivemind.lab.loadtest.requests import RecordedRequest, RequestResult, Sent, recorded_requests, wall_s
from hivemind.lab.loadtest.target import LoadTarget
from hivemind.prices import Prices
from hivemind.providers.profiles import PROFILES
from hivemind.records import replace
from hivemind.scheduler.types import Price, Usage
from hivemind.text.humanise import count, dollars, duration, plural
from hivemind.text.table import Cell, TextColumn, lines

LATE_S = 0.05
"""A p95 of lateness from which on a warning is shown."""
_COLUMNS = (
    TextColumn("", cut=True),
    TextColumn("RECORDED", right=True),
    TextColumn("NOW", right=True),
    TextColumn("DIFFERENCE", right=True, spare=1),
)
CHARS_PER_TOKEN = 4.0
ASSUMED_ANSWER = 256
"""Tokens of an answer whose length is unknown."""


class CostEstimate(Struct, frozen=True):
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


class LoadTestPlan(Struct, frozen=True):
    """What is to be sent."""

    journal: str
    target: LoadTarget | None
    speed: float
    requests: tuple[RecordedRequest, ...]
    unsupported: Counter[str]
    """Requests that can't be synthesized, by path."""
    estimate: CostEstimate

    def __str__(self) -> str:
        return f"{plural(len(self.requests), 'request')} ({self.estimate})"


def make_plan(
    journal: Journal,
    target: LoadTarget | None,
    *,
    speed: float = 1.0,
    from_s: float = 0.0,
    to_s: float = math.inf,
    most: int | None = None,
) -> LoadTestPlan:
    """Choose the requests to send, by their arrival since the journal began. Raises: UsageError: there are none."""
    found = recorded_requests(journal.events(FREQUENT), journal.began.at)
    if not found:
        raise UsageError("no request is in this journal")
    chosen = [each for each in found if from_s <= each.at_s <= to_s][:most]
    if not chosen:
        length = duration(found[-1].at_s)
        raise UsageError(f"no request is chosen; the journal's come from 0 to {length} after it began")
    requests = tuple(filter(can_be_sent, chosen))
    unsupported = Counter(each.path for each in chosen if not can_be_sent(each))
    if not requests:
        raise UsageError(f"none of the requests can be made up: their path is {unsupported.most_common(1)[0][0]}")
    prices = Prices()
    cost = estimate(requests, "generic" if target is None else target.provider, prices.cost)
    return LoadTestPlan(journal.began.journal, target, speed, requests, unsupported, cost)


def estimate(requests: Iterable[RecordedRequest], provider: str, price: Price) -> CostEstimate:
    """Estimate the cost from the recorded usage, without cache reads.

    `provider` is the profile of the provider to be paid; where nobody knows whose models it sells, the
    recorded provider's prices are taken.
    """
    input_tokens = output_tokens = unpriced = 0
    cost: float | None = None
    for request in requests:
        usage = _expected_usage(request)
        input_tokens += usage.input_tokens
        output_tokens += usage.output_tokens
        paid = request.provider if PROFILES[provider].anybodys and request.provider else provider
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
        tier=used.tier,
    )


class LoadTotals(Struct, frozen=True):
    """Figures of a number of requests."""

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


class Lateness(Struct, frozen=True):
    """How much later than planned requests were sent."""

    p50_s: float
    p95_s: float
    longest_s: float


class LoadTestResult(Struct, frozen=True):
    """What was sent, and how it ended."""

    plan: LoadTestPlan
    sent: tuple[Sent, ...]
    hivemind: bool
    """The target is a HiveMind."""
    interrupted: bool


def recorded_totals(requests: Sequence[RecordedRequest]) -> LoadTotals:
    """Return the totals as recorded."""
    return _totals([each.recorded for each in requests], [each.at_s for each in requests], wall_s(requests))


def sent_totals(sent: Sequence[Sent]) -> LoadTotals:
    """Return the totals of what was sent."""
    at = [each.at_s for each in sent]
    ends = [each.at_s + (each.result.took_s or 0.0) for each in sent]
    return _totals([each.result for each in sent], at, max(ends, default=0.0) - min(at, default=0.0))


def _totals(results: Sequence[RequestResult], sent_at: Sequence[float], wall: float) -> LoadTotals:
    answered = [result for result in results if not result.error]
    first = [result.first_s for result in answered if result.first_s is not None]
    took = [result.took_s for result in answered if result.took_s is not None]
    used = [result.usage for result in results if result.usage is not None]
    statuses = Counter("none" if result.status is None else str(result.status) for result in results)
    return LoadTotals(
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


def _compared(
    recorded: LoadTotals, now: LoadTotals, sending: str
) -> Iterator[tuple[str, Unit, float | None, float | None]]:
    """Yield name, unit and both values of the figures that are shown; `sending` names the time in which requests were
    sent."""
    yield "requests", "count", recorded.requests, now.requests
    yield "answered", "count", recorded.answered, now.answered
    for status in sorted({*recorded.statuses, *now.statuses}):
        name = "no answer" if status == "none" else f"status {status}"
        yield name, "count", recorded.statuses.get(status, 0), now.statuses.get(status, 0)
    for error in sorted({*recorded.errors, *now.errors}):
        yield error.replace("_", " "), "count", recorded.errors.get(error, 0), now.errors.get(error, 0)
    yield "first content p50", "seconds", recorded.first_p50_s, now.first_p50_s
    yield "first content p95", "seconds", recorded.first_p95_s, now.first_p95_s
    yield "whole answer p50", "seconds", recorded.took_p50_s, now.took_p50_s
    yield "whole answer p95", "seconds", recorded.took_p95_s, now.took_p95_s
    yield "tokens in", "tokens", recorded.input_tokens, now.input_tokens
    yield "tokens out", "tokens", recorded.output_tokens, now.output_tokens
    if recorded.uncounted or now.uncounted:
        yield "answers without a count", "count", recorded.uncounted, now.uncounted
    yield sending, "seconds", recorded.sending_s, now.sending_s
    yield "wall time", "seconds", recorded.wall_s, now.wall_s


def lateness(sent: Iterable[Sent]) -> Lateness:
    """Return by how much all that was sent was late."""
    late = [each.late_s for each in sent]
    return Lateness(percentile(late, 0.5), percentile(late, 0.95), max(late, default=0.0))


# --- As text -----------------------------------------------------------------------------------------------------


def plan_as_text(plan: LoadTestPlan) -> list[str]:
    """Return what would be sent, for people."""
    requests = plan.requests
    agents, real = len({each.agent for each in requests}), sum(each.has_body for each in requests)
    streams = sum(each.stream for each in requests)
    return [
        f"{printable(plan.journal)}: {plan} of {plural(agents, 'agent')}, in {duration(wall_s(requests) / plan.speed)}",
        f"{real:,} as they were recorded, {len(requests) - real:,} made up; {streams:,} of them streams",
        *_unsupported(plan),
        "nothing was sent",
    ]


def as_text(result: LoadTestResult, room: int | None) -> list[str]:
    """Return the result beside what was recorded of the same requests, for people."""
    plan, sent = result.plan, result.sent
    speed = "" if plan.speed == 1 else f", {plan.speed:g} times as fast"
    url = "" if plan.target is None else plan.target.url
    what = "HiveMind " if result.hivemind else ""
    synthetic = sum(not each.real for each in sent)
    text = [f"{printable(plan.journal)} against {what}{url}, at the recorded times{speed}", ""]
    text += table(recorded_totals([each.request for each in sent]), sent_totals(sent), plan.speed, room)
    text += ["", late_line(lateness(sent)), *([f"made up: {plural(synthetic, 'request')}"] if synthetic else [])]
    if result.interrupted:
        missing = plural(len(plan.requests) - len(sent), "request")
        text.append(f"stopped early: {missing} not sent or not over, and not counted")
    return [*text, *_unsupported(plan)]


def table(recorded: LoadTotals, now: LoadTotals, speed: float, room: int | None) -> list[str]:
    """Return the lines of the table."""
    recorded = replace(recorded, sending_s=recorded.sending_s / speed)
    sending = "sent within" if speed == 1 else f"sent within, at {speed:g}x"
    rows: list[list[Cell | str]] = []
    for name, unit, before, after in _compared(recorded, now, sending):
        text = "" if before is None or after is None else _difference(unit, after - before, before)
        rows.append([name, _amount(unit, before), _amount(unit, after), text])
    return lines(_COLUMNS, rows, room)


def late_line(late: Lateness) -> str:
    """Return how well the planned times were kept."""
    figures = f"p50 {duration(late.p50_s)}, p95 {duration(late.p95_s)}, longest {duration(late.longest_s)}"
    if late.p95_s < LATE_S:
        return f"sent late: {figures}"
    return f"sent late: {figures}; this machine didn't keep up, so the load was less"


def _amount(unit: Unit, value: float | None) -> str:
    if value is None:
        return "-"
    if unit == "seconds":
        return duration(value)
    return count(value) if unit == "tokens" else f"{value:,.0f}"


def _difference(unit: Unit, moved: float, base: float) -> str:
    if unit == "count":
        return f"{moved:+,.0f}" if moved else ""
    return f"{moved / base * 100:+.0f} %" if base else ""


def _unsupported(plan: LoadTestPlan) -> list[str]:
    rows = plan.unsupported.most_common(5)
    paths = ", ".join(f"{printable(path)} {number:,}" for path, number in rows)
    return [f"left out, because they can't be made up: {paths}"] if rows else []


# --- As JSON -----------------------------------------------------------------------------------------------------


def plan_as_json(plan: LoadTestPlan) -> str:
    """Return what would be sent, for programs."""
    return _encoded(plan, recorded=recorded_totals(plan.requests))


def as_json(result: LoadTestResult) -> str:
    """Return the result for programs."""
    sent = result.sent
    return _encoded(
        result.plan,
        hivemind=result.hivemind,
        interrupted=result.interrupted,
        over=len(sent),
        made_up=sum(not each.real for each in sent),
        recorded=recorded_totals([each.request for each in sent]),
        now=sent_totals(sent),
        late=lateness(sent),
    )


def _encoded(plan: LoadTestPlan, **more: object) -> str:
    fields: dict[str, object] = {
        "journal": plan.journal,
        "against": None if plan.target is None else plan.target.url,
        "speed": plan.speed,
        "requests": len(plan.requests),
        "agents": len({each.agent for each in plan.requests}),
        "with_bodies": sum(each.has_body for each in plan.requests),
        "left_out": plan.unsupported,
        "estimate": plan.estimate,
    }
    return json_text(msgspec.json.encode(fields | more))
