"""Facts in rows: a label and what there is to say, shortened to the rows and cells that there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hivemind_tui.render.pen import Span, fitting

LABEL = 10
Row = list[Span]
Chunk = tuple[int, Sequence[Span]]
"""Rank and text; where a row is too narrow, the chunks of the highest rank are left out."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One row; where there are too few rows, the facts of the highest rank are left out."""

    rank: int
    label: str
    chunks: Sequence[Chunk]


def fact_rows(facts: Iterable[Fact], cells: int, rows: int, label: int = LABEL) -> list[Row]:
    """Return a row for each fact that fits, with its label where `label` cells are given to it."""
    kept = [fact for fact in facts if fact.chunks]
    while len(kept) > max(1, rows):
        kept.remove(max(kept, key=lambda fact: fact.rank))
    heads: list[Row] = [[(f"{fact.label:<{label}}", "dim")] if label else [] for fact in kept]
    return [[*head, *fitting(cells - label, fact.chunks)] for head, fact in zip(heads, kept, strict=True)]


def named(label: str, value: str, role: str = "text") -> Row:
    """Return a value after what it is called."""
    return [(f"{label} ", "dim"), (value, role)]
