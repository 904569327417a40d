"""The options of a load test, the requests that it will send, and what they will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hivemind.errors import UsageError
from hivemind.journal.read.reader import Journal
from hivemind.lab.loadtest.messages import can_be_sent
from hivemind.lab.loadtest.requests import JournalRequests, RecordedRequest, Selection
from hivemind.lab.loadtest.target import Target
from hivemind.prices import Prices
from hivemind.scheduler.types import Price, Usage
from hivemind.text.humanise import count, dollars, plural

CHARS_PER_TOKEN = 4.0
ASSUMED_ANSWER = 256
"""Tokens of an answer whose length is unknown."""


@dataclass(frozen=True, slots=True)
class LoadTestOptions:
    """What to send, where to, and how."""

    against: str | None = None
    """The target's URL; None with `dry`."""
    selection: Selection = field(default_factory=Selection)
    speed: float = 1.0
    think: bool = False
    """Agents wait for their answers."""
    max_in_flight: int = 0
    """0: no limit."""
    synthetic: bool = False
    """Recorded bodies aren't sent."""
    as_allowed: bool = False
    """Synthetic requests allow answers as long as the recorded requests did, rather than as long as they were."""
    agent_header: str | None = None
    key_variable: str | None = None
    token_variable: str | None = None
    dry: bool = False
    confirmed: bool = False
    """It may cost money."""
    json: bool = False


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


@dataclass(frozen=True, slots=True)
class LoadTestPlan:
    """What is to be sent."""

    journal: str
    target: Target | None
    options: LoadTestOptions
    requests: tuple[RecordedRequest, ...]
    unsupported: Counter[str]
    """Requests that can't be synthesized, by path."""
    estimate: CostEstimate

    def __str__(self) -> str:
        return f"{plural(len(self.requests), 'request')} ({self.estimate})"


def make_plan(journal: Journal, options: LoadTestOptions, target: Target | None) -> LoadTestPlan:
    """Choose the requests to send. Raises: UsageError: there are none."""
    reader = JournalRequests(journal.began.at)
    for event in journal.events():
        reader.apply(event)
    chosen = reader.requests(options.selection, bodies=not options.synthetic)
    requests = tuple(filter(can_be_sent, chosen))
    unsupported = Counter(each.path for each in chosen if not can_be_sent(each))
    if not requests:
        raise UsageError(f"none of the requests can be made up: their path is {unsupported.most_common(1)[0][0]}")
    prices = Prices()
    prices.load()
    cost = estimate(requests, "generic" if target is None else target.provider, prices.cost)
    return LoadTestPlan(journal.began.journal, target, options, requests, unsupported, cost)


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
