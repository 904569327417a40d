"""Containers: one row is rendered however high they are, and looks as Textual's own rows do."""

from __future__ import annotations

import pytest
from textual import containers
from textual.app import App, ComposeResult

from hivemind_tui.widgets.box import Horizontal, Vertical


class _Both(App[None]):
    CSS = "#own, #textual { background: #224466; height: 1fr; }"

    def __init__(self, own: type[containers.Container]) -> None:
        super().__init__()
        self._own = own

    def compose(self) -> ComposeResult:
        yield self._own(id="own")
        yield containers.Container(id="textual")


@pytest.mark.parametrize(("own", "no_color"), [(Horizontal, True), (Vertical, False)])
async def test_rows_are_one_row(
    own: type[containers.Container], no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rendered once for all of them, also where the terminal has no colours."""
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    async with _Both(own).run_test(size=(40, 20)) as pilot:
        mine, textuals = (pilot.app.query_one(name) for name in ("#own", "#textual"))
        rows = mine.render_lines(mine.size.region)
        assert len(rows) == 10
        assert len({id(row) for row in rows}) == 1
        (theirs,) = textuals.render_lines(textuals.size.region)[0]
        (segment,) = rows[0]
        assert segment.text == theirs.text
        assert segment.style is not None
        assert theirs.style is not None
        assert segment.style.bgcolor == theirs.style.bgcolor
