"""A replay from the journal to its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path

from hivemind.cli.journal.options import tell
from hivemind.errors import UsageError
from hivemind.host import server
from hivemind.journal.read.reader import Journal
from hivemind.lab.loadtest import comparison as comparison
from hivemind.lab.loadtest.messages import can_be_sent
from hivemind.lab.loadtest.options import LoadTestOptions
from hivemind.lab.loadtest.plan import JournalRequests, RecordedRequest
from hivemind.lab.loadtest.result import LoadTestPlan, as_json, as_text, plan_as_json, plan_as_text
from hivemind.lab.loadtest.runner import run_load_test
from hivemind.lab.loadtest.target import Target, target_of
from hivemind.prices import Prices
from hivemind.settings import load
from hivemind.text.table import show, width

_INTERRUPTED = 130


def run(journal: Journal, order: LoadTestOptions, flags: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
    """Carry it out; `flags` are those of settings. Returns the exit code.

    Raises: UsageError: nothing was sent. Unreachable: nothing answers there.
    """
    target = None if order.against is None else target_of(order.against)
    plan = planned(journal, order, target)
    if order.dry:
        print(plan_as_json(plan)) if order.json else show(plan_as_text(plan))
        return 0
    assert target is not None
    settings = load(flags, environ=environ, cwd=cwd, prog="hivemind replay")
    outcome = server.run_loop(run_load_test(journal.path, order, plan, target, environ, settings))
    print(as_json(outcome)) if order.json else show(as_text(outcome, width()))
    return _INTERRUPTED if outcome.interrupted else 0


def planned(journal: Journal, order: LoadTestOptions, target: Target | None) -> LoadTestPlan:
    """What can be sent, and what can't; what is wrong with the journal is told. Raises: UsageError."""
    reading = JournalRequests(journal.began.at)
    for event in journal.events():
        reading.apply(event)
    tell(journal)
    asks = reading.asks(order.selection, bodies=not order.synthetic)
    possible = [can_be_sent(ask) for ask in asks]
    good = tuple(compress(asks, possible))
    unsupported = Counter(ask.path for ask, can in zip(asks, possible, strict=True) if not can)
    if not good:
        raise UsageError(f"none of the requests can be made up: their path is {unsupported.most_common(1)[0][0]}")
    return LoadTestPlan(
        journal.began.journal, target, order.speed, order.think, good, unsupported, _estimated(good, target)
    )


def _estimated(asks: Sequence[RecordedRequest], target: Target | None) -> comparison.CostEstimate:
    prices = Prices()
    prices.load()
    return comparison.estimate(asks, "generic" if target is None else target.provider, prices.cost)
