"""The first screen: what to paste, where requests go, and on a large screen all that helps to begin."""

from __future__ import annotations

import pytest
from tui.kit import text
from tui.worlds import empty_world

from hivemind.records import replace
from hivemind.world.lines import SETTINGS
from hivemind.world.snapshot import Line
from hivemind_tui.panels import connect
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View


@pytest.mark.parametrize("width", [80, 160, 250])
def test_a_long_upstreams_name_does_not_touch_its_address(width: int) -> None:
    """A blank is between them at least, and short names stay in line with the lines to paste."""
    url = "https://llm.example.org"
    upstreams = (("anthropic", url), ("gateway-of-the-whole-company", url))
    rows = text(connect.render(View(replace(empty_world(), upstreams=upstreams)), width, 44, Pen()))
    found = [row for row in rows.splitlines() if url in row]
    assert len(found) == 2
    assert all(row.split(url)[0][-1] == " " for row in found)
    assert len({row.index(url) for row in found}) == 1


@pytest.mark.parametrize(("width", "height"), [(80, 22), (160, 43)])
def test_what_isnt_trusted_is_told(width: int, height: int) -> None:
    """The whole line stands where requests go, on the small screen too."""
    told = "/home/me/a-project/hivemind.toml isn't trusted, so via and ca_file in it don't count; hivemind trust"
    lines = (Line(0.0, 0.0, "info", "lane", "lab:all", "first request"), Line(0.0, 0.0, "bad", SETTINGS, "file", told))
    rows = text(connect.render(View(replace(empty_world(), lines=lines)), width, height, Pen()))
    assert all(word in rows for word in told.split())
