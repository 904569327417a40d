"""Text in rows: as wide as it should be, cut between cells or broken between words, clickable, and cheap to compare."""

from __future__ import annotations

from typing import ClassVar

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.strip import Strip

from hivemind.records import replace
from hivemind_styles.themes import CONTRAST, DARK, MONO, SIXTEEN
from hivemind_tui.render.glyphs import ASCII, UNICODE
from hivemind_tui.render.pen import Pen, Row, Span, call, linked, scrollbar
from hivemind_tui.render.rows import broken, flowed, scrolled
from hivemind_tui.widgets.line_table import LineTable

PLAIN = Pen()


def themed(theme: object = DARK, boxed: bool = True) -> Pen:
    assert isinstance(theme, type(DARK))
    return Pen.themed({**theme.variables, "background": theme.background or ""}, UNICODE, boxed)


def segments(strip: Strip) -> list[Segment]:
    return list(strip)


def style(segment: Segment) -> Style:
    assert segment.style is not None
    return segment.style


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        ([], "        "),
        ([("ab", "text"), ("cd", "ok")], "abcd    "),
        ([("abcdef", "text"), ("ghijkl", "ok")], "abcdefg…"),
        ([("abcdef", "text"), ("──────", "ok")], "abcdef──"),
        ([("abcdefgh", "text"), ("i", "ok")], "abcdefg…"),
        ([("abcdefgh", "text"), ("│", "ok")], "abcdefgh"),
        ([("abcdefg", "text"), ("hi", "ok")], "abcdefg…"),
        ([("日本語日本語", "text")], "日本語 …"),
        ([("a日本語日", "text")], "a日本語…"),
        ([("", "ok"), ("a\x1b[31m\n", "bad")], "a·[31m· "),
    ],
)
def test_a_row_is_as_wide_as_asked(spans: list[Span], text: str) -> None:
    """Short rows are padded, cut words end in a sign, never in the middle of a wide character; nothing is obeyed."""
    row = PLAIN.row(8, *spans)
    assert row.text == text
    assert row.cell_length == cell_len(row.text) == 8


def test_ascii_where_there_is_nothing_else() -> None:
    """Our own signs in a text are replaced where the terminal lacks them; as wide as what they became."""
    row = replace(PLAIN, glyphs=ASCII).row(12, ("— 3 → ∞ …", "text"))
    assert row.text == "- 3 > inf ~ "


def test_neighbours_of_one_role_are_one_segment() -> None:
    """Each segment costs the terminal some forty bytes, so a row has no more of them than it has changes of style."""
    row = themed().row(20, ("  a", "text"), ("  b", "text"), ("", "ok"), ("  c", "text"), ("d", "ok"), ("e", "bad"))
    assert [segment.text for segment in segments(row)] == ["  a  b  c", "d", "e", " " * 9]


def test_styles_are_not_kept_for_ever() -> None:
    """Agents come and go; what their links look like is forgotten, and rows stay right."""
    pen = themed()
    for number in range(5000):
        pen.row(10, linked(f"{number}", "ok", f"app.open({number})"), ("x", "dim"), link=f"app.select({number})")
        pen.row(10, linked(f"{number}", "ok", f"app.open({number})"), ("x", "dim"))
    kept = len(pen._made)
    assert kept < 10_000
    last = segments(pen.row(2, linked("a", "ok", "app.open(1)"), ("x", "dim")))
    assert style(last[0]).meta == {"@click": "app.open(1)"}
    assert style(last[1]) == pen.styles["dim"]


def test_links() -> None:
    """A link covers its span, a row's link the rest of the row; the look is the role's."""
    pen = themed()
    row = segments(pen.row(12, ("a", "text"), linked("b", "ok", "app.b"), ("c", "dim"), link="app.row"))
    assert [style(segment).meta.get("@click") for segment in row] == ["app.row", "app.b", "app.row", "app.row"]
    assert style(row[1]).color == pen.styles["ok"].color
    bare = segments(pen.row(3, ("a", "text"), linked("b", "ok", "")))
    assert [style(segment).meta for segment in bare] == [{}, {}, {}]


def test_selected_rows() -> None:
    """A selected row has the bar's ground; where a theme says so one colour for all of it, and attributes alone do."""
    dark = segments(themed().row(4, ("a", "ok"), ("b", "dim"), selected=True))
    assert {style(segment).bgcolor for segment in dark} == {themed().selection.bgcolor}
    assert len({style(segment).color for segment in dark}) == 3
    strong = segments(themed(CONTRAST).row(4, ("a", "ok"), ("b", "dim"), selected=True))
    assert len({style(segment).color for segment in strong}) == 1
    for theme in (SIXTEEN, MONO):
        bare = segments(themed(theme).row(4, ("a", "bad"), ("b", "dim"), selected=True))
        assert all(style(segment).reverse and not style(segment).dim for segment in bare)


def test_blanks_are_not_underlined() -> None:
    """Without colours what is bad is underlined: its words, not an empty cell nor what aligns them; links stay."""
    row = segments(themed(MONO).row(20, ("      ", "bad"), linked("  7s ", "bad", "app.b"), ("x", "bad")))
    assert [segment.text for segment in row if style(segment).underline] == ["7s", "x"]
    assert [style(segment).meta.get("@click") for segment in row] == [None, "app.b", "app.b", "app.b", None, None]
    assert "".join(segment.text for segment in row) == "        7s x".ljust(20)


@pytest.mark.parametrize("boxed", [True, False])
@pytest.mark.parametrize("size", [(40, 6), (16, 3), (15, 3), (40, 2), (3, 3), (2, 2), (40, 0)])
def test_a_frame_fits_its_place(size: tuple[int, int], boxed: bool) -> None:
    """Exactly as many rows and cells as asked for, with more body than room and with less."""
    width, height = size
    pen = replace(PLAIN, boxed=boxed)
    cells, rows = pen.body_size(width, height)
    for count in (0, 1, rows, rows + 5):
        drawn = pen.frame(
            "Title", "a note", [pen.row(max(0, cells), ("x" * 50, "text"))] * max(0, count), width, height
        )
        assert [cell_len(row.text) for row in drawn] == [width] * height


def test_scrollbar() -> None:
    """The thumb is as long as what is in sight, touches an end only where the list does, and is never lost."""

    def drawn(first: int, shown: int, total: int, rows: int) -> str:
        return "".join(text for text, _ in scrollbar(first, shown, total, rows, replace(PLAIN, glyphs=ASCII)))

    assert drawn(0, 10, 10, 10) == ""
    assert drawn(0, 0, 10, 0) == ""
    assert drawn(0, 10, 20, 10) == "#####:::::"
    assert drawn(10, 10, 20, 10) == ":::::#####"
    assert drawn(1, 10, 2000, 10) == ":#::::::::"
    assert drawn(1989, 10, 2000, 10) == "::::::::#:"
    assert drawn(1990, 10, 2000, 10) == ":::::::::#"
    assert drawn(99_999, 10, 2000, 10) == ":::::::::#"
    assert drawn(1, 2, 4, 2) in ("#:", ":#")
    assert [len(drawn(first, 7, 300, 7)) for first in range(300)] == [7] * 300


NASTY = "x'),app.quit('\\\"\n"


class Clicked(App[None]):
    """A table whose cells do something."""

    CSS: ClassVar[str] = "LineTable { height: 3; }"

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, object]] = []
        self.table = LineTable()

    def compose(self) -> ComposeResult:
        yield self.table

    def action_select(self, name: str) -> None:
        self.done.append(("select", name))

    def action_sort(self, column: str, up: bool) -> None:
        self.done.append(("sort", (column, up)))


async def test_a_click_does_what_the_span_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A click runs the span's action, else the row's; elsewhere nothing; a name can't smuggle another action in.
    Neither moving over links nor clicking twice, which selects text elsewhere, has anything painted."""
    app, pen = Clicked(), themed()
    async with app.run_test(size=(30, 5)) as pilot:
        app.table.set_rows(
            [
                pen.row(30, ("AGENT ", "dim"), linked("IN", "dim", call("app.sort", "in", True))),
                pen.row(30, ("bob", "text"), link=call("app.select", "bob"), selected=True),
                pen.row(30, ("nasty", "text"), link=call("app.select", NASTY)),
            ]
        )
        await pilot.pause()
        painted: list[object] = []
        monkeypatch.setattr(app.table, "refresh", lambda *regions, **_: painted.append(regions))
        for x, y in ((0, 0), (7, 0), (1, 1), (29, 1), (2, 2)):
            await pilot.hover(LineTable, offset=(x, y))
            await pilot.click(LineTable, offset=(x, y))
        assert app.done == [("sort", ("in", True)), ("select", "bob"), ("select", "bob"), ("select", NASTY)]
        await pilot.click(LineTable, offset=(1, 1), times=2)
        assert app.done[4:] == [("select", "bob")] * 2
        assert painted == []
        app.table.set_rows([pen.row(30, ("ann", "text"))])
        assert painted


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
