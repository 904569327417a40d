"""Tables: aligned, cut before anything is left out, and in colour on terminals alone."""

from __future__ import annotations

import math

import pytest

from hivemind.cli.operator import status
from hivemind.cli.operator.budget import budget_share
from hivemind.console import printable
from hivemind.scheduler.events import BudgetState, WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.text.table import Cell, TextColumn, lines

COLUMNS = (
    TextColumn("NAME", cut=True),
    TextColumn("NUMBER", right=True),
    TextColumn("WHY", spare=1),
    TextColumn("EMPTY"),
)
ROWS = (("short", "1", "because", ""), ("a-name-of-twenty-two-x", "1,000", "", ""))


def test_as_wide_as_it_is() -> None:
    """Without a width nothing is cut; numbers stand to the right; an empty column isn't there."""
    assert lines(COLUMNS, ROWS, None) == [
        "NAME                    NUMBER  WHY",
        "short                        1  because",
        "a-name-of-twenty-two-x   1,000",
    ]


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (
            39,
            [
                "NAME                    NUMBER  WHY",
                "short                        1  because",
                "a-name-of-twenty-two-x   1,000",
            ],
        ),
        (30, ["NAME           NUMBER  WHY", "short               1  because", "a-name-of-tw…   1,000"]),
        (28, ["NAME                  NUMBER", "short                      1", "a-name-of-twenty-tw…   1,000"]),
        (12, ["NAME  NUMBER", "sho…       1", "a-n…   1,000"]),
    ],
)
def test_too_wide(room: int, shown: list[str]) -> None:
    """A long cell is cut a little, then a column is left out, then the cut is as deep as it takes."""
    found = lines(COLUMNS, ROWS, room)
    assert found == shown
    assert max(map(len, found)) <= room


def test_nothing_helps() -> None:
    """A terminal narrower than any table gets one that is too wide, rather than none."""
    assert lines(COLUMNS, ROWS, 5)[1].split() == ["short", "1"]


class Terminal:
    """Standard output, where somebody looks or nobody does."""

    def __init__(self, looked_at: bool) -> None:
        self._looked_at = looked_at

    def isatty(self) -> bool:
        return self._looked_at


@pytest.mark.parametrize(
    ("looked_at", "environ", "coloured"),
    [(True, {}, True), (False, {}, False), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_colours(monkeypatch: pytest.MonkeyPatch, looked_at: bool, environ: dict[str, str], coloured: bool) -> None:
    """On a terminal alone, and not where somebody wants none; they take no room."""
    monkeypatch.setattr("sys.stdout", Terminal(looked_at))
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (_, row) = lines((TextColumn("A"), TextColumn("B")), [[Cell("x", "bad"), "y"]], None)
    assert row == ("\x1b[31mx\x1b[0m  y" if coloured else "x  y")


def state(tokens: int | None, dollars: float | None, used: int, spent: float) -> BudgetState:
    return BudgetState("ann", tokens, dollars, "run", "agent", used, spent, 0)


def test_shares() -> None:
    """Of two ceilings the nearer one is told; from 85 % on in another colour."""
    assert budget_share(None) == Cell("")
    assert budget_share(state(None, None, 5, 1.0)) == Cell("")
    assert budget_share(state(200_000, None, 46_000, 0.0)) == Cell("23 % of 200k")
    assert budget_share(state(200_000, 5.0, 46_000, 4.5)) == Cell("90 % of $5.00", "warn")
    assert budget_share(state(1000, 5.0, 1200, 0.0)) == Cell("120 % of 1k", "bad")


def test_nothing_a_terminal_obeys() -> None:
    """A name or note from elsewhere can't move the cursor."""
    assert printable("a\x1b[2Jb\nc") == "a?[2Jb?c"


def test_what_is_left_of_windows() -> None:
    """By kind; where several families of models have windows of their own, whose they are is said."""
    requests, tokens = (
        WindowState("claude-opus", kind, 80_000, 0, 0, 79_000, None, "headers")
        for kind in (WindowKind.REQUESTS, WindowKind.TOKENS)
    )
    other = WindowState("claude-haiku", WindowKind.TOKENS, 500, 0, 0, -3, None, "headers")
    endless = WindowState("gpt", WindowKind.TOKENS, math.inf, 0, 0, math.inf, None, "settings")
    assert status.left([requests, tokens, endless]) == "requests 79k/80k, tokens 79k/80k"
    assert status.left([requests, other, tokens]) == (
        "claude-opus: requests 79k/80k, tokens 79k/80k; claude-haiku: tokens 0/500"
    )
    assert status.left([endless]) == ""
