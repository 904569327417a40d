"""Lists with columns: a head that shows the order, rows of which one is selected, and a scrollbar."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from textual.strip import Strip

from hivemind_tui.render.format import fit, fit_name
from hivemind_tui.render.pen import Pen, Span, linked, scrollbar

T = TypeVar("T")
GAP = 2


class Column(Struct, Generic[T], frozen=True):
    """One column; where the table is narrow, those of the highest `rank` are left out first. Rank 0 always stays."""

    id: str
    head: str
    width: int
    rank: int
    cell: Callable[[T, Pen], Span]
    align: str = ">"
    is_name: bool = False


class Placed(Struct, Generic[T], frozen=True):
    """A column in its place: `width` cells after a gap."""

    column: Column[T]
    width: int
    gap: int

    def span(self, item: T, pen: Pen, role: str = "") -> Span:
        """Return the cell of one item, in `role` instead of its own where one is given."""
        text, own = self.column.cell(item, pen)
        shown = fit_name(text, self.width) if self.column.is_name else fit(text, self.width, self.column.align)
        return " " * self.gap + shown, role or own


class Table(Struct, Generic[T], frozen=True):
    """The columns of one kind of list. The first column, `name`, takes what the others leave, within limits."""

    name: Column[T]
    """Its width is the least that it has before any other column is left out."""
    columns: tuple[Column[T], ...]
    rest: Column[T] | None = None
    """Takes the cells left at the right, where they are enough for its width. With a rank above 0, columns of higher
    ranks are left out in its favour."""
    sortable: Collection[str] = ()
    """Ids of the columns that the list can be sorted by."""
    lead: int = 2
    """Cells before the first column."""
    gap: int = GAP
    names: tuple[int, int] = (8, 24)
    """Narrowest and widest first column."""

    def placed(self, width: int) -> list[Placed[T]]:
        """Return the columns that fit, in their places; depends on the width alone."""
        columns, gap, rest = list(self.columns), self.gap, self.rest
        if rest is not None and rest.rank:
            columns.append(rest)
        beside = width - self.lead - self.name.width
        while any(c.rank for c in columns) and sum(column.width + gap for column in columns) > beside:
            columns.remove(max(columns, key=lambda column: column.rank))
        columns = [column for column in columns if column is not rest]
        left = width - self.lead - sum(column.width + gap for column in columns)
        claimed = rest.width + GAP if rest is not None and rest.rank else 0
        room = left - claimed if left - claimed >= self.name.width else left
        name = max(self.names[0], min(self.names[1], room))
        spare = left - name - (GAP + rest.width if rest is not None and left - name - GAP >= rest.width else 0)
        placed = [Placed(self.name, name, 0)]
        for column in columns:
            more = max(0, min(spare, self.names[1] - column.width)) if column.is_name else 0
            placed.append(Placed(column, column.width + more, gap))
            spare, left = spare - more, left - more
        if rest is not None and left - name - GAP >= rest.width:
            placed.append(Placed(rest, left - name - GAP, GAP))
        return placed


class Rows(Struct, Generic[T], frozen=True):
    """What one list shows now."""

    items: Sequence[T]
    selected: T | None = None
    """One of the items."""
    sort: str = ""
    reverse: bool = False
    marked: Callable[[T], bool] = lambda _: False
    pinned: Callable[[T], bool] = lambda _: False
    link: Callable[[T], str] = lambda _: ""
    """Return the action of a click on an item's row; empty: none."""


def render(table: Table[T], rows: Rows[T], width: int, height: int, pen: Pen) -> list[Strip]:
    """Return a head and as many rows as fit, scrolled so that the selected one is among them."""

    def draw(items: Sequence[T], cells: int) -> list[Strip]:
        placed = table.placed(cells)
        return [heads(table, placed, rows, cells, pen), *(row(item, placed, rows, cells, pen) for item in items)]

    return scrolling(rows, width, height, pen, draw)


def scrolling(
    rows: Rows[T], width: int, height: int, pen: Pen, draw: Callable[[Sequence[T], int], list[Strip]]
) -> list[Strip]:
    """Return what `draw` makes of the items in sight and the cells they have, beside a scrollbar where it is needed."""
    if height <= 0:
        return []
    room, total = height - 1, len(rows.items)
    long = total > room
    selected = next((index for index, item in enumerate(rows.items) if item is rows.selected), 0)
    first = scrolled(selected, total, room)
    body = draw(rows.items[first : first + room], width - long)
    if long:
        bar = [pen.row(1), *(pen.row(1, span) for span in scrollbar(first, room, total, room, pen))]
        body = [Strip.join([strip, end]) for strip, end in zip(body, bar, strict=True)]
    return body


def heads(table: Table[T], placed: Sequence[Placed[T]], rows: Rows[T], width: int, pen: Pen, lead: str = "") -> Strip:
    """Return the head: a click on a column sorts by it, and an arrow marks the one that the list is sorted by."""
    spans: list[Span] = [(fit(lead, table.lead), "dim")]
    for each in placed:
        column, text, role, gap, room = each.column, each.column.head, "dim", each.gap, each.width
        if column.align == ">":  # the arrow may take a cell of the gap
            room, gap = room + gap, 0
        if column.id == rows.sort:
            arrow = pen.glyphs.descending if rows.reverse else pen.glyphs.ascending
            text, role = f"{text[: max(1, room - 1)]}{arrow}", "accent"
        action = f"app.sort_by({column.id!r})" if column.id in table.sortable else ""
        spans += [(" " * gap, "dim"), linked(fit(text, room, column.align), role, action)]
    return pen.row(width, *spans)


def row(item: T, placed: Sequence[Placed[T]], rows: Rows[T], width: int, pen: Pen) -> Strip:
    """Return the row of one item, with a cursor where it is selected and a sign where it is marked."""
    selected = item is rows.selected
    cursor = pen.glyphs.cursor if selected else " "
    sign = pen.glyphs.marked if rows.marked(item) else pen.glyphs.pinned if rows.pinned(item) else " "
    first, *others = placed
    spans: list[Span] = [
        (cursor + sign, "accent"),
        first.span(item, pen, "strong" if selected else ""),
        *(each.span(item, pen) for each in others),
    ]
    return pen.row(width, *spans, selected=selected, link=rows.link(item))


def sorted_by(table: Table[T], sort: str) -> str:
    """Return what the list is sorted by, unless it is in its usual order."""
    columns = (table.name, *table.columns)
    return next((f"sorted by {column.head.lower() or sort}" for column in columns if column.id == sort), "")


def scrolled(index: int, total: int, room: int) -> int:
    """Return the first row to show, so that row `index` is near the middle and no row stays empty without need."""
    return max(0, min(index - room // 2, total - room))
