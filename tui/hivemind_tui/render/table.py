"""Lists with columns: a head that tells the order, rows of which one is selected, and a bar that tells how far down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from textual.strip import Strip

from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, linked, scrollbar

T = TypeVar("T")
GAP = 2
NAME = (8, 24)
"""Narrowest and widest first column."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column; where the table is narrow, those of the highest `rank` go first. Rank 0 never goes."""

    id: str
    head: str
    width: int
    rank: int
    cell: Callable[[T, Pen, float], Span]
    """From an item, the pen and the snapshot's moment."""
    align: str = ">"
    key: Callable[[T], Any] | None = None
    """What the list is sorted by, smallest first; None where it can't be."""


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """What is the same for every list of one kind: the first column takes the room that the others leave it."""

    name: Column[T]
    """Its width is what it has before any of the others goes."""
    columns: tuple[Column[T], ...]
    rest: Column[T] | None = None
    """Takes the cells that are left at the right, where there are enough for it (its width). With a rank above 0, the
    columns of higher ranks go before it does."""

    @property
    def keys(self) -> dict[str, Callable[[T], Any]]:
        """By column, how to sort."""
        return {column.id: column.key for column in (self.name, *self.columns) if column.key is not None}

    def fitting(self, width: int) -> Sequence[Column[T]]:
        """The columns that fit beside the first one."""
        columns = list(self.columns)
        if self.rest is not None and self.rest.rank:
            columns.append(self.rest)
        while any(c.rank for c in columns) and 2 + self.name.width + sum(c.width + GAP for c in columns) > width:
            columns.remove(max(columns, key=lambda column: column.rank))
        return [column for column in columns if column is not self.rest]

    def layout(self, width: int) -> tuple[Sequence[Column[T]], int, int]:
        """The columns that fit, the width of the first one, and that of the last (0: it doesn't fit)."""
        columns = self.fitting(width)
        left = width - 2 - sum(column.width + GAP for column in columns)
        claimed = self.rest.width + GAP if self.rest is not None and self.rest.rank else 0
        name = max(NAME[0], min(NAME[1], left - claimed if left - claimed >= self.name.width else left))
        rest = left - name - GAP
        return columns, name, rest if self.rest is not None and rest >= self.rest.width else 0


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """What one list shows now."""

    items: Sequence[T]
    selected: int
    """Index; -1: none."""
    sort: str = ""
    reverse: bool = False
    marked: Callable[[T], bool] = lambda _: False
    link: Callable[[T], str] = lambda _: ""
    """The action that a click on a row means; empty: none."""
    sort_link: str = ""
    """The action that a click on a head means; `{}` stands for the column's id."""


def render(table: Table[T], rows: Rows[T], at: float, width: int, height: int, pen: Pen) -> list[Strip]:
    """A head, and as many rows as fit, scrolled so that the selected one is among them."""
    if height <= 0:
        return []
    room = height - 1
    long = len(rows.items) > room
    cells = width - (1 if long else 0)
    columns, name, rest = table.layout(cells)
    last = table.rest if rest else None
    first = scrolled(rows.selected, len(rows.items), room)
    body = [_head(table.name, name, columns, last, rest, rows, cells, pen)]
    for index in range(first, min(len(rows.items), first + room)):
        body.append(_row(table, name, columns, last, rest, rows, index, at, cells, pen))
    if long:
        bar = [
            pen.row(1),
            *(pen.row(1, span) for span in scrollbar(first, room, len(rows.items), room, pen)),
        ]
        body = [Strip.join([strip, end]) for strip, end in zip(body, bar, strict=True)]
    return body


def hidden_order(table: Table[T], sort: str, shown: Sequence[Column[T]]) -> str:
    """What the list is sorted by, where that column isn't among those shown; else nothing."""
    in_sight = {table.name.id, *(column.id for column in shown)}
    heads = [column.head for column in table.columns if column.id == sort and sort not in in_sight]
    return f"by {heads[0].lower()}" if heads else ""


def scrolled(index: int, total: int, room: int) -> int:
    """The first row shown so that row `index` is near the middle, and no row is left empty that could be filled."""
    return max(0, min(index - room // 2, total - room))


def _head(
    first: Column[T],
    name: int,
    columns: Sequence[Column[T]],
    last: Column[T] | None,
    rest: int,
    rows: Rows[T],
    width: int,
    pen: Pen,
) -> Strip:
    spans: list[Span] = [("  ", "dim"), *heading(first, name, "<", rows, pen)]
    for column in columns:
        spans += heading(column, column.width, column.align, rows, pen, GAP)
    if last is not None:
        spans += [(" " * GAP, "dim"), (fit(last.head, rest), "dim")]
    return pen.row(width, *spans)


def heading(column: Column[T], width: int, align: str, rows: Rows[T], pen: Pen, gap: int = 0) -> list[Span]:
    """A column's head, in so many cells behind a gap: a click sorts by it, and an arrow tells that the list is sorted
    so, for which a head at the right may take a cell of the gap."""
    text, role = column.head, "dim"
    room = width + gap if align == ">" else width
    if column.id == rows.sort:
        arrow = pen.glyphs.descending if rows.reverse else pen.glyphs.ascending
        text, role = f"{column.head[: max(1, room - 1)]}{arrow}", "accent"
    action = rows.sort_link.format(repr(column.id)) if column.key is not None and rows.sort_link else ""
    head = linked(fit(text, room, align), role, action)
    return [head] if align == ">" or not gap else [(" " * gap, "dim"), head]


def _row(
    table: Table[T],
    name: int,
    columns: Sequence[Column[T]],
    last: Column[T] | None,
    rest: int,
    rows: Rows[T],
    index: int,
    at: float,
    width: int,
    pen: Pen,
) -> Strip:
    item = rows.items[index]
    selected = index == rows.selected
    tag = pen.glyphs.marked if rows.marked(item) else " "
    text, role = table.name.cell(item, pen, at)
    spans: list[Span] = [
        (pen.glyphs.cursor if selected else " ", "accent"),
        (tag, "accent"),
        (fit(text, name), "strong" if selected else role),
    ]
    for column in columns:
        text, role = column.cell(item, pen, at)
        spans.append((" " * GAP + fit(text, column.width, column.align), role))
    if last is not None:
        text, role = last.cell(item, pen, at)
        spans.append((" " * GAP + fit(text, rest), role))
    return pen.row(width, *spans, selected=selected, link=rows.link(item))
