"""`hivemind journal stats`: the figures of a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from hivemind.cli.journals import open_named_journal, prices_at, print_damage
from hivemind.console import print_json
from hivemind.journal.figures import Figures, Tally
from hivemind.journal.read.reader import FREQUENT, Journal
from hivemind.scheduler.types import Price
from hivemind.text.humanise import dollars, duration
from hivemind.text.table import Cell, Column, lines, show, width

_WAITS = (
    Column("PRIORITY"),
    Column("REQUESTS", right=True),
    Column("P50 WAIT", right=True),
    Column("P95 WAIT", right=True),
    Column("LONGEST", right=True),
)


def run(namespace: argparse.Namespace) -> int:
    """Raises: UsageError."""
    journal = open_named_journal(namespace)
    figures = figures_of(journal, prices_at(journal.began.wall))
    if namespace.json:
        facts = {"journal": journal.began.journal, **asdict(figures), "told": journal.damage.messages()}
        print_json(facts)
    else:
        show(shown(figures, width()))
    print_damage(journal)
    return 0


def figures_of(journal: Journal, price: Price | None) -> Figures:
    """Counts all that can be read. Raises: UsageError."""
    tally = Tally(price)
    for event in journal.events(FREQUENT):
        tally.apply(event)
    return tally.figures()


def shown(figures: Figures, room: int | None) -> list[str]:
    """A fact a line, and a table of the waits."""
    facts = [(name, text) for name, text in _facts(figures) if text]
    size = max(len(name) for name, _ in facts)
    rows = [f"{name:<{size}}  {text}" for name, text in facts]
    if figures.waits:
        rows += ["", "time in the queue, over all attempts of a request:", *_waits(figures, room)]
    return rows


def _facts(figures: Figures) -> Sequence[tuple[str, str]]:
    money = "no price is known" if figures.dollars is None else dollars(figures.dollars)
    blind = f" (the price of {figures.unpriced_tokens:,} tokens isn't known)" if figures.unpriced_tokens else ""
    return (
        ("agents", f"{figures.agents:,} ({figures.finished:,} ended with an answer)"),
        ("time", f"{duration(figures.wall_s)} from the first request to the last answer"),
        ("requests", f"{figures.requests:,}"),
        ("  answered", f"{figures.answered:,}"),
        ("  failed", f"{figures.failed:,} in an error of the provider's" if figures.failed else ""),
        ("  refused", f"{figures.refused:,} by HiveMind" if figures.refused else ""),
        ("  left", f"{figures.left:,} given up by their clients" if figures.left else ""),
        ("  open", f"{figures.open:,} not over at the end" if figures.open else ""),
        ("attempts", f"{figures.attempts:,}, {figures.retries:,} of them again after a fault"),
        ("retried OK", f"{figures.rescued:,} answered after failed attempts, unseen by their agents"),
        ("at once", f"{figures.busiest:,} in flight at most"),
        ("waited", f"{duration(figures.waited_s)} in the queue, all requests together"),
        ("fairness", f"{figures.fairness:.3f} (Jain's index; 1: waiting slowed all agents down alike)"),
        ("tokens", f"{figures.tokens:,}"),
        (
            "  wasted",
            f"{figures.wasted_tokens:,} on attempts that failed or were left" if figures.wasted_tokens else "",
        ),
        ("dollars", f"{money}{blind}" if figures.tokens or figures.dollars else "$0.00"),
    )


def _waits(figures: Figures, room: int | None) -> list[str]:
    rows: list[list[Cell | str]] = [
        [name, f"{waits.requests:,}", duration(waits.p50_s), duration(waits.p95_s), duration(waits.longest_s)]
        for name, waits in figures.waits.items()
    ]
    return lines(_WAITS, rows, room)
