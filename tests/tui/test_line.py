"""A line that is being typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hivemind_tui.widgets.prompt import LONGEST, InputLine


@pytest.mark.parametrize(
    ("keys", "text", "at"),
    [
        ("left left", "one two", 5),
        ("home", "one two", 0),
        ("home right", "one two", 1),
        ("home end", "one two", 7),
        ("backspace", "one tw", 6),
        ("home backspace", "one two", 0),
        ("home delete", "ne two", 0),
        ("delete", "one two", 7),
        ("ctrl+w", "one ", 4),
        ("ctrl+w ctrl+w", "", 0),
        ("left left left ctrl+w", "two", 0),
        ("left ctrl+u", "o", 0),
        ("left ctrl+k", "one tw", 6),
    ],
)
def test_keys_edit_the_line(keys: str, text: str, at: int) -> None:
    """The keys of every shell do what they do there."""
    line: InputLine | None = InputLine.of("one two")
    for key in keys.split():
        assert line is not None
        line = line.pressed(key)
    assert line == InputLine(text, at)


def test_a_key_that_edits_nothing() -> None:
    """Whoever asks learns that the key means something else."""
    assert InputLine.of("x").pressed("f5") is None


def test_what_is_typed_goes_in_at_the_cursor() -> None:
    """Pasted lines become one; what a terminal would obey is replaced; blanks can be typed."""
    assert InputLine("ad", 1).typed("b\nc\x1b") == InputLine("ab c·d", 5)
    assert InputLine.of("a").typed(" ").text == "a "
    assert len(InputLine.of("x" * LONGEST).typed("yy").text) == LONGEST


@given(st.text("ab 宽é", max_size=60), st.integers(0, 60), st.integers(1, 40))
def test_the_cursor_is_in_sight(text: str, at: int, width: int) -> None:
    """However long the line and however narrow the place, there is a cell for the cursor."""
    before, after = InputLine(text, min(at, len(text))).shown(width)
    assert cell_len(before) < max(2, width)
    if cell_len(text) < width:
        assert before + after == text
