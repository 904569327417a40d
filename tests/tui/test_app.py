"""The screen as the operator meets it: every key, every size, and panels that fail."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from tui.graph import processes
from tui.kit import SMALLEST, TERMINAL, frame, press, room, screen, seen, settle, whole_screen
from tui.requests import requests_of
from tui.worlds import LANE, FakeSource, busy_source, empty_world, world

from hivemind.scheduler.commands import PauseAdmissions
from hivemind.world.snapshot import Snapshot
from hivemind_styles.themes import DARK, LIGHT, THEMES
from hivemind_tui.app import ControlRoom
from hivemind_tui.panels import agent_table
from hivemind_tui.widgets.line_table import LineTable


async def test_theme_key_goes_round() -> None:
    """t takes the next theme, and the colours of the panels with it but no text; after the last one the first."""
    async with screen(FakeSource(world()), (80, 24)) as pilot:
        app = room(pilot)
        assert app.theme == app.themes[0] == DARK.name
        assert {*app.themes} == {theme.name for theme in THEMES}
        agreed = whole_screen(pilot).splitlines()[:-1]  # the last row tells how fast the screen is, too
        await press(pilot, "@theme")
        assert app.theme == app.themes[1] == LIGHT.name
        ground = app.query_one("#agents", LineTable).rows[0]._segments[0].style
        assert ground is not None
        assert ground.bgcolor is not None
        assert ground.bgcolor.name == LIGHT.background
        assert whole_screen(pilot).splitlines()[:-1] == agreed
        app.theme = app.themes[-1]
        await press(pilot, "@theme")
        assert app.theme == DARK.name


ALL = "header slots curve windows circuit agents events footer"
SOME = "header slots windows agents events footer"
LAYOUTS = {
    (140, 36): ALL,
    (139, 36): SOME,
    (80, 24): SOME,
    (40, 12): "header slots footer",
    (20, 5): "header footer",
    (5, 2): "header",
}


async def test_every_page_is_drawn_in_every_size() -> None:
    """From a stamp to a wall: no page raises or paints over the header, and each size shows what fits."""
    async with screen(busy_source(), size=(160, 45)) as pilot:
        for size, panels in LAYOUTS.items():
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert {panel.id for panel in pilot.app.query(LineTable) if panel.is_on_screen} >= set(panels.split())
            assert ("curve" in panels) == pilot.app.query_one("#curve").is_on_screen
            every = ("2", "2 enter", "3", "3 enter", "4", "5", "0", "@inside", "@inside 1")
            for keys in every if size in ((40, 12), (5, 2)) else ("1",):
                await press(pilot, keys)
                assert "panel error" not in whole_screen(pilot), (keys, size)
                if "inside" in keys and "1" not in keys and size == (40, 12):
                    await frame(pilot)
                    assert "frames" in seen(pilot, "inside")
                if size != (5, 2):
                    assert "HEALTHY" in whole_screen(pilot).splitlines()[0]


async def test_a_frozen_view_stands_still_and_commands_go_through() -> None:
    """v stops the view and says so, commands still go through, and v again brings the present back."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        await press(pilot, "v")
        source.become(empty_world())
        await press(pilot, "p")
        assert "VIEW FROZEN" in seen(pilot, "header")
        assert "alice" in seen(pilot, "agents")
        assert source.applied == [PauseAdmissions(True)]
        await press(pilot, "v", until=lambda: "alice" not in seen(pilot, "agents"))


async def test_the_mouse_selects_opens_sorts_and_turns_pages() -> None:
    """A click on a row selects it, a second one opens it; on a head it sorts; on a tab it turns the page; the wheel
    moves the selection."""
    async with screen(busy_source(), size=(160, 45)) as pilot:
        assert not pilot.app.query("#agents-all")  # made when it is first shown
        await pilot.click("#header", offset=(17, 1))
        await settle(pilot)
        assert room(pilot).view.page == "agents"
        await pilot.click("#agents-all", offset=(6, 4))
        await settle(pilot)
        assert room(pilot).view.selected == room(pilot).view.agents[2].name
        await pilot.click("#agents-all", offset=(5, 1))
        await settle(pilot)
        assert room(pilot).view.agents_order.sort == "name"
        await pilot.click("#agents-all", offset=(6, 2))
        await pilot.click("#agents-all", offset=(6, 2))
        await settle(pilot)
        assert room(pilot).view.page == "agent"


CLICKS = {
    ("3", "pick('ticket', 58)"): "request",
    ("2", "pick_agent('carol')"): "agent",
    ("6", "pick('chosen', 'nightly.review')"): "agent",
    ("2 enter", "open_request(58)"): "request",
    ("6", "open_agent('carol')"): "agent",
}


async def test_a_row_opens_on_its_second_click() -> None:
    """Whatever the list; one beside the page's own opens at once, and an upstream is shown by a click on its name."""
    graph = processes()
    source = FakeSource(graph, requests=requests_of(graph, 60))
    async with screen(source, SMALLEST) as pilot:
        app = room(pilot)
        for (keys, click), opened in CLICKS.items():
            await press(pilot, keys)
            page = app.view.page
            app.run_key_action(click)
            assert (app.view.page == page) == click.startswith("pick"), click
            if app.view.page == page:
                app.run_key_action(click)
            assert app.view.page == opened, click
        app.run_key_action("pick_lane('gone')")
        app.run_key_action(f"pick_lane('{LANE}')")
        assert app.view.lane is graph.lanes[0]
        await press(pilot, "4")
        app.run_key_action("pick_knob('aimd.beta')")
        app.run_key_action("pick_knob('aimd.beta')")
        assert app.line.is_open


async def test_a_panel_that_raises_is_painted_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in one panel is an error text in its place and one log line; the others go on, and it may recover."""
    broken = True
    draw = agent_table.render

    def render(*args: Any) -> Any:
        if broken:
            raise ZeroDivisionError("oops")
        return draw(*args)

    monkeypatch.setattr(agent_table, "render", render)
    source = FakeSource(world())
    async with screen(source) as pilot:
        await press(pilot, "j j")
        assert "panel error: ZeroDivisionError" in seen(pilot, "agents")
        assert "HEALTHY" in seen(pilot, "header")
        assert caplog.text.count("panel agents could not be drawn") == 1
        broken = False
        await press(pilot, "j")
        assert "carol" in seen(pilot, "agents")


async def test_linux_console_gets_ascii() -> None:
    """With TERM=linux nothing but ASCII is drawn."""
    async with screen(FakeSource(world()), environment={"TERM": "linux"}) as pilot:
        assert whole_screen(pilot).isascii()


async def test_tasks_are_not_eager() -> None:
    """The proxy's loop keeps its task factory, which Textual would replace from Python 3.12 on."""
    import asyncio

    app = ControlRoom(FakeSource(empty_world()), environment=TERMINAL)
    factories: list[object] = []

    async def look(_pilot: Pilot[Any]) -> None:
        factories.append(asyncio.get_running_loop().get_task_factory())
        app.exit()

    await app.run_async(headless=True, size=(80, 24), auto_pilot=look)
    assert factories == [None]


async def test_a_failing_screen_prints_no_variables(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A crash ends the screen with code 1 and a log line; no local variable, which may be a secret, is printed."""
    source = FakeSource(world())
    app = ControlRoom(source, environment=TERMINAL)

    def fail() -> Snapshot:
        secret = "sk-" + "ant-0123456789"
        raise RuntimeError(f"no world ({len(secret)})")

    async def spoil(_pilot: Pilot[Any]) -> None:
        source.become(fail)

    await app.run_async(headless=True, size=(80, 24), auto_pilot=spoil)
    assert app.return_code == 1
    assert "the screen failed" in caplog.text
    out, err = capfd.readouterr()
    assert "ant-0123" not in out + err
