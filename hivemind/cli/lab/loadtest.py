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
from hivemind.lab.loadtest import comparison as sides
from hivemind.lab.loadtest.messages import can_be_made
from hivemind.lab.loadtest.order import Order
from hivemind.lab.loadtest.outcome import Plan, as_json, as_text, plan_as_json, plan_as_text
from hivemind.lab.loadtest.plan import Ask, Reading
from hivemind.lab.loadtest.runner import resend
from hivemind.lab.loadtest.target import Target, target_of
from hivemind.prices import Prices
from hivemind.settings import load
from hivemind.text.table import show, width

_INTERRUPTED = 130


def run(journal: Journal, order: Order, flags: Sequence[str], environ: Mapping[str, str], cwd: Path) -> int:
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
    outcome = server.run_loop(resend(journal.path, order, plan, target, environ, settings))
    print(as_json(outcome)) if order.json else show(as_text(outcome, width()))
    return _INTERRUPTED if outcome.interrupted else 0


def planned(journal: Journal, order: Order, target: Target | None) -> Plan:
    """What can be sent, and what can't; what is wrong with the journal is told. Raises: UsageError."""
    reading = Reading(journal.began.at)
    for event in journal.events():
        reading.apply(event)
    tell(journal)
    asks = reading.asks(order.selection, bodies=not order.synthetic)
    possible = [can_be_made(ask) for ask in asks]
    good = tuple(compress(asks, possible))
    left_out = Counter(ask.path for ask, can in zip(asks, possible, strict=True) if not can)
    if not good:
        raise UsageError(f"none of the requests can be made up: their path is {left_out.most_common(1)[0][0]}")
    return Plan(journal.began.journal, target, order.speed, order.think, good, left_out, _estimated(good, target))


def _estimated(asks: Sequence[Ask], target: Target | None) -> sides.Estimate:
    prices = Prices()
    prices.load()
    return sides.estimate(asks, "generic" if target is None else target.provider, prices.cost)
