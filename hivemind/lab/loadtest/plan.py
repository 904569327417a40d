"""A load test as the user asked for it, and the requests that it will send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

from hivemind.errors import UsageError
from hivemind.journal.read.reader import Journal
from hivemind.lab.loadtest.messages import can_be_sent
from hivemind.lab.loadtest.requests import JournalRequests, RecordedRequest, Selection
from hivemind.lab.loadtest.target import Target
from hivemind.lab.loadtest.totals import CostEstimate, estimate
from hivemind.prices import Prices
from hivemind.text.humanise import plural


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
class LoadTestPlan:
    """What is to be sent."""

    journal: str
    target: Target | None
    speed: float
    think: bool
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
    possible = [can_be_sent(each) for each in chosen]
    requests = tuple(compress(chosen, possible))
    unsupported = Counter(each.path for each, can in zip(chosen, possible, strict=True) if not can)
    if not requests:
        raise UsageError(f"none of the requests can be made up: their path is {unsupported.most_common(1)[0][0]}")
    return LoadTestPlan(
        journal.began.journal,
        target,
        options.speed,
        options.think,
        requests,
        unsupported,
        _estimate(requests, target),
    )


def _estimate(requests: Sequence[RecordedRequest], target: Target | None) -> CostEstimate:
    prices = Prices()
    prices.load()
    return estimate(requests, "generic" if target is None else target.provider, prices.cost)
