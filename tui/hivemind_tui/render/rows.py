"""Rows of spans: facts with labels, texts longer than a row, and lists that are scrolled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from textual.strip import Strip

from hivemind_tui.render.format import clean, fit, wrapped
from hivemind_tui.render.glyphs import Sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, fitting, scrollbar

LABEL = 10
_GAP = "  "
_WORD = 13
"""Cells for a state's glyph and word."""


class Fact(Struct, frozen=True):
    """One row; where there are too few rows, the facts of the highest rank are left out."""

    rank: int
    label: str
    chunks: Sequence[Chunk]


def fact_rows(facts: Iterable[Fact], cells: int, rows: int, label: int = LABEL) -> list[list[Span]]:
    """Return a row for each fact that fits, with its label where `label` cells are given to it."""
    kept = _fitting(facts, rows)
    heads: list[list[Span]] = [[(f"{fact.label:<{label}}", "dim")] if label else [] for fact in kept]
    return [[*head, *fitting(cells - label, fact.chunks)] for head, fact in zip(heads, kept, strict=True)]


def _fitting(facts: Iterable[Fact], rows: int) -> list[Fact]:
    kept = [fact for fact in facts if fact.chunks]
    while len(kept) > max(1, rows):
        kept.remove(max(kept, key=lambda fact: fact.rank))
    return kept


def flowing(facts: Iterable[Fact], cells: int, rows: int) -> list[list[Span]]:
    """Return the facts that fit with their labels, those of the lowest rank over as many rows as they need."""
    kept = _fitting(facts, rows)
    spare, over = rows - len(kept), dict[int, list[list[Span]]]()
    for number, fact in sorted(enumerate(kept), key=lambda each: each[1].rank):
        lines = flowed([spans for _, spans in fact.chunks], cells - LABEL)
        if len(lines) - 1 <= spare:
            over[number], spare = lines, spare - len(lines) + 1
    return [
        [(("" if row else fact.label).ljust(LABEL), "dim"), *line]
        for number, fact in enumerate(kept)
        for row, line in enumerate(over.get(number) or [fitting(cells - LABEL, fact.chunks)])
    ]


def labelled(label: str, *spans: Span, width: int) -> Row:
    """Return a row of spans behind a label of so many cells."""
    return [(fit(label, width), "dim"), *spans]


def named(label: str, value: str, role: str = "text") -> list[Span]:
    """Return a value after what it is called."""
    return [(f"{label} ", "dim"), (value, role)]


def described(
    facts: Sequence[tuple[str, str]], width: int, label: int, name_role: str = "title", role: str = "dim"
) -> list[Row]:
    """Return each label with its text, over as many rows as that needs."""
    return [
        [(fit("" if number else name, label), name_role), (line, role)]
        for name, text in facts
        for number, line in enumerate(wrapped(text, max(1, width - label)))
    ]


def signs(title: str, shown: Mapping[str, Sign], pen: Pen) -> list[Row]:
    """Return a title, and below it states as they are shown, with their meanings."""
    return [
        [(title, "title")],
        *(
            [(fit(word, _WORD), role), (sign.meaning, "dim")]
            for sign in shown.values()
            for word, role in [pen.worded(sign)]
        ),
    ]


def counted(value: str, words: str, role: str = "text") -> list[Span]:
    """Return a value before the words for what it counts."""
    return [(value, role), (f" {words}", "dim")]


def hanging(text: str, role: str, width: int, sign: Span = ("", "text")) -> list[list[Span]]:
    """Return a text over as many rows as it needs, after a sign in the first one and a blank below."""
    glyph, colour = sign
    indent = 2 if glyph else 0
    lines = wrapped(text, max(1, width - indent)) or [""]
    heads: list[Span] = [(f"{glyph} ", colour) if glyph else sign, *[(" " * indent, "text")] * (len(lines) - 1)]
    return [[head, (line, role)] for head, line in zip(heads, lines, strict=True)]


def flowed(chunks: Iterable[Row], width: int) -> list[list[Span]]:
    """Return the chunks in rows of at most `width` cells, each chunk whole; one longer than a row has its own."""
    rows: list[list[Span]] = []
    left = 0
    for chunk in chunks:
        cells = sum(cell_len(clean(text)) for text, _ in chunk)
        if rows and cells + len(_GAP) <= left:
            rows[-1] += [(_GAP, "text"), *chunk]
            left -= cells + len(_GAP)
        else:
            rows.append([*chunk])
            left = width - cells
    return rows


@lru_cache(1024)
def broken(text: str, width: int, rows: int, ellipsis: str) -> tuple[str, ...]:
    """Return the text in at most so many rows, broken after words or commas, and cut with an ellipsis if longer."""
    text, made = clean(text).strip(), list[str]()
    width = max(2, width)  # the widest character
    while cell_len(text) > width and len(made) < rows - 1:
        row = _cut(text, width)
        made.append(row.rstrip())
        text = text[len(row) :].lstrip()
    return (*made, text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + ellipsis)


def _cut(text: str, width: int) -> str:
    whole = len(text)
    while cell_len(text[:whole]) > width:
        whole -= max(1, (cell_len(text[:whole]) - width) // 2)
    if text[whole : whole + 1] == " ":
        return text[:whole]
    half = width // 2
    # Numbers have commas too: a row ends with one only where it has no blank.
    end = text.rfind(" ", half, whole) + 1 or max(text.rfind(",", half, whole), text.rfind(";", half, whole)) + 1
    return text[: max(1, end or whole)]


def scrolled(entries: Sequence[Sequence[Row]], first: int, width: int, rows: int, pen: Pen) -> list[Strip]:
    """Return the entries from the `first` on, each of one or several rows of `width` - 1 cells, and a scrollbar.

    Beyond the last page, `first` means that page.
    """
    lines = [row for entry in entries for row in entry]
    if len(lines) <= rows:
        return [pen.row(width, *row) for row in lines]
    first = min(max(0, first), last_page(entries, rows))
    above = sum(len(entry) for entry in entries[:first])
    shown = [*lines[above : above + rows], *[()] * (above + rows - len(lines))]
    bar = scrollbar(above, rows, len(lines), rows, pen)
    return [Strip.join([pen.row(width - 1, *row), pen.row(1, span)]) for row, span in zip(shown, bar, strict=True)]


def last_page(entries: Sequence[Sequence[Row]], rows: int) -> int:
    """Return the first entry from which the last one is shown completely."""
    left = rows
    for index in range(len(entries) - 1, -1, -1):
        left -= len(entries[index])
        if left < 0:
            return min(index + 1, len(entries) - 1)
    return 0
