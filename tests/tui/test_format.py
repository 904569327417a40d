"""Numbers, durations and names as people read them."""

from __future__ import annotations

import math

import pytest
from rich.cells import cell_len

from hivemind_tui.render import format


def test_commands_are_broken_between_words() -> None:
    """Else after a slash; all of it is there, and only a word without either is cut."""
    line = "export ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/claude"
    assert format.broken(line, 80) == [line]
    assert format.broken(line, 55) == ["export ", "ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/claude"]
    assert format.broken(line, 50) == ["export ", "ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/", "claude"]
    assert format.broken("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert format.broken("", 10) == [""]


def test_uptime_changes_by_the_minute_after_an_hour() -> None:
    """A clock that ticks each second would repaint the header each second, over ssh too."""
    assert format.uptime(252) == "04:12"
    assert format.uptime(8073) == format.uptime(8099) == "2h14m"


@pytest.mark.parametrize("text", ["", "alice", "mallory-refactors-everything", "日本語エージェント", "a\x1b[31m\u202e"])
@pytest.mark.parametrize("align", ["<", ">"])
@pytest.mark.parametrize("width", [0, 1, 7, 30])
def test_fit_is_exact(text: str, align: str, width: int) -> None:
    """Whatever the name, also in letters two cells wide, it takes exactly its column and holds nothing to obey."""
    fitted = format.fit(text, width, align)
    assert cell_len(fitted) == width
    assert fitted.isprintable()


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("sprinter-07", 10, "spr…ter-07"),
        ("sprinter-07", 12, "sprinter-07 "),
        ("crew/自动化-測試-12", 12, "crew…測試-12"),
        ("ann", 2, "a…"),
    ],
)
def test_a_name_is_cut_in_its_middle(name: str, width: int, shown: str) -> None:
    """Names that are made alike differ at their ends."""
    assert format.fit_name(name, width) == shown
    assert cell_len(format.fit_name(name, width)) == width


def test_levels_and_limits() -> None:
    """A level has one decimal, a limit none, and no limit is a sign of its own."""
    assert (format.level(8.04), format.level(math.inf)) == ("8", "∞")
    assert (format.whole(12.0), format.whole(1.5), format.whole(math.inf)) == ("12", "1.5", "∞")
    assert (format.percent(1, 4), format.percent(1, 0)) == ("25%", "—")


def test_about() -> None:
    """An estimate is told in whole seconds, and never as nothing."""
    shown = [format.about(value) for value in (None, 0.0, 8.4, 9.7, 59.0, 65.0)]
    assert shown == ["—", "1s", "8s", "10s", "59s", "1m05s"]


def test_ordinal() -> None:
    """As people write places."""
    shown = [format.ordinal(value) for value in (1, 2, 3, 4, 11, 12, 21, 113)]
    assert shown == ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "113th"]


@pytest.mark.parametrize("width", [1, 2, 5, 9, 40])
def test_wrapped_lines_fit_and_lose_nothing(width: int) -> None:
    """Broken at blanks where it goes, inside a word where it must, wide characters counted as two cells."""
    text = "waits for a slot: 漢字漢字 and-a-very-long-word-that-fits-nowhere"
    lines = format.wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    if width > 1:
        assert all(cell_len(line) <= width for line in lines)


def test_wrapped_text_obeys_nothing() -> None:
    """What comes from outside can't break lines itself."""
    assert format.wrapped("a\nb\x1b[2J", 40) == ["a·b·[2J"]
    assert format.wrapped("", 40) == []
