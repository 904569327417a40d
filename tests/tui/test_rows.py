"""Texts longer than a row: broken between words, cut with an ellipsis, scrolled."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from hivemind_tui.render.pen import Pen, Row
from hivemind_tui.render.rows import broken, flowed, scrolled

INK = Pen()
EVIL = "宽い\x1b[2J, wide; and \u202e words " * 9


def test_rows_end_with_words() -> None:
    """Blanks first, then commas; a number's comma is none, and a word longer than a row is broken."""
    assert broken("about 9,000 tokens in, 3,000 out", 24, 3, "…") == ("about 9,000 tokens in,", "3,000 out")
    assert broken("one-2025,two-2025,three", 18, 3, "…") == ("one-2025,two-2025,", "three")
    assert broken("abcdefghij", 4, 3, "…") == ("abcd", "efgh", "ij")
    assert broken("abcd efgh", 4, 3, "…") == ("abcd", "efgh")


def test_too_long_a_text_ends_with_an_ellipsis() -> None:
    """In the last row there is, and only there."""
    assert broken("one two three four", 9, 2, "…") == ("one two", "three fo…")
    assert broken("", 9, 2, "…") == ("",)


@pytest.mark.parametrize("width", [0, 1, 2, 3, 10, 31, 200])
def test_no_row_is_too_wide(width: int) -> None:
    """Wide and hostile characters too."""
    for rows in (1, 2, 5):
        made = broken(EVIL, width, rows, "…")
        assert 0 < len(made) <= rows
        assert all(cell_len(row) <= max(2, width) and row.isprintable() for row in made)


def test_chunks_stay_whole() -> None:
    """A row is full when the next chunk doesn't fit with a gap before it."""
    chunks = [[("ab", "text")], [("c", "dim"), ("d", "text")], [("efghijkl", "text")], [("m", "text")]]
    rows = ["".join(text for text, _ in row) for row in flowed(chunks, 6)]
    assert rows == ["ab  cd", "efghijkl", "m"]


def entries(*sizes: int) -> list[list[Row]]:
    return [[[(f"{n}.{row}", "text")] for row in range(size)] for n, size in enumerate(sizes)]


def shown(first: int, rows: int, *sizes: int) -> list[str]:
    strips = scrolled(entries(*sizes), first, 10, rows, INK)
    assert all(strip.cell_length == 10 for strip in strips)
    return [strip.text.split()[0] for strip in strips if strip.text[:3].strip()]


def test_scrolling_begins_with_an_entry() -> None:
    """Never in the middle of one; and the last page is as far as it goes."""
    assert shown(0, 3, 1, 2, 1, 1) == ["0.0", "1.0", "1.1"]
    assert shown(1, 3, 1, 2, 1, 1) == ["1.0", "1.1", "2.0"]
    assert shown(2, 3, 1, 2, 2, 1) == shown(99, 3, 1, 2, 2, 1) == ["2.0", "2.1", "3.0"]
    assert shown(-4, 3, 1, 2, 1, 1) == shown(0, 3, 1, 2, 1, 1)


def test_what_fits_has_no_bar() -> None:
    """And doesn't scroll."""
    assert shown(5, 4, 1, 2, 1) == ["0.0", "1.0", "1.1", "2.0"]
    assert all(strip.text.endswith(" ") for strip in scrolled(entries(1, 1), 0, 10, 2, INK))
    assert scrolled(entries(1, 1, 1), 0, 10, 2, INK)[0].text.endswith(INK.glyphs.thumb)
