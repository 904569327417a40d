"""The screen as the operator meets it: every key, every size, and panels that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot
from tui.worlds import LANE, FakeSource, empty_world, world

from hivemind.scheduler.commands import (
    Command,
    PauseAdmissions,
    PauseAgent,
    PinLevel,
    ReleaseLane,
    SetCeiling,
    SetCircuit,
    SetPriority,
)
from hivemind.scheduler.types import Priority
from hivemind.snapshot import Snapshot
from hivemind_styles.themes import DARK, LIGHT
from hivemind_tui.app import ControlRoom
from hivemind_tui.panels import agents as agents_panel
from hivemind_tui.widgets.line_table import LineTable
from hivemind_tui.widgets.overlay import Overlay


@asynccontextmanager
async def screen(source: FakeSource, size: tuple[int, int] = (100, 30), **more: Any) -> AsyncIterator[Pilot[str]]:
    """The control room on a source, drawn once."""
    app = ControlRoom(source, environment=more.pop("environment", {}), **more)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


def seen(pilot: Pilot[str], panel: str) -> str:
    """The text of one panel."""
    return "\n".join(row.text for row in pilot.app.query_one(f"#{panel}", LineTable).rows)


COMMANDS: dict[str, dict[str, Command]] = {
    "agent": {
        "+": SetPriority("alice", Priority.HIGH),
        "-": SetPriority("alice", Priority.LOW),
        "K": PauseAgent("alice", True),
        "j +": SetPriority("bob", Priority.CRITICAL),
        "G K": PauseAgent("mallory-refactors", True),
        "g down down up K": PauseAgent("bob", True),
    },
    "lane": {
        "[": SetCeiling(11, LANE),
        "]": SetCeiling(13, LANE),
        "a": PinLevel(8.0, LANE),
        "p": PauseAdmissions(True),
        "r": ReleaseLane(LANE),
    },
    "circuit": {
        "c a": SetCircuit("auto", LANE),
        "c o": SetCircuit("open", LANE),
        "c c": SetCircuit("closed", LANE),
        "c h": SetCircuit("probe", LANE),
    },
}


@pytest.mark.parametrize("group", COMMANDS)
async def test_keys_send_their_commands(group: str) -> None:
    """Each key sends the one command that it stands for, to the agent and lane in sight."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        for keys, command in COMMANDS[group].items():
            source.applied.clear()
            await pilot.press(*keys.split())
            assert source.applied == [command], keys


async def test_keys_that_give_back() -> None:
    """The keys that switch something off switch it on again."""
    full = world()
    lane = full.lanes[0]
    agent = replace(full.agents[0], paused=True, state="paused")
    changed = replace(
        full,
        mode="paused",
        agents=(agent,),
        lanes=(replace(lane, state=replace(lane.state, pinned=True)),),
    )
    source = FakeSource(changed)
    async with screen(source) as pilot:
        await pilot.press("p", "K", "a")
        assert source.applied == [PauseAdmissions(False), PauseAgent("alice", False), PinLevel(None, LANE)]
        assert "ADMISSIONS PAUSED" in seen(pilot, "header")


async def test_a_rejected_command_is_a_toast() -> None:
    """What the source refuses, and what makes no sense, is said in one line; nothing else happens."""
    source = FakeSource(world(), reject="the ceiling is [fixed]\x1b")
    async with screen(source) as pilot:
        await pilot.press("]")
        assert [note.message for note in pilot.app._notifications] == ["the ceiling is [fixed]·"]
        source.become(empty_world())
        for key in ("+", "K", "[", "a", "r"):
            await pilot.press(key)
        assert len(pilot.app._notifications) == 6
        assert source.applied == []


async def test_the_circuit_menu_names_what_is_in_flight_and_any_other_key_leaves_it() -> None:
    """The menu says what forcing the circuit open would touch; a wrong key closes it and does nothing."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        await pilot.press("c")
        assert "6 requests in flight go on" in seen(pilot, "overlay")
        for key in ("K", "tab", "q"):
            await pilot.press(key, "c")
        assert source.applied == []
        assert pilot.app.query_one(Overlay).is_open


async def test_quit_asks_while_requests_are_under_way() -> None:
    """With requests in flight q asks, and y drains and quits."""
    async with screen(FakeSource(world())) as pilot:
        await pilot.press("q")
        assert "6 requests in flight" in seen(pilot, "overlay")
        await pilot.press("n")
        assert pilot.app.is_running
        await pilot.press("q", "y")
    assert pilot.app.return_value == "quit"


async def test_quit_at_rest_asks_nothing() -> None:
    """With nothing under way q ends the screen at once, with code 0."""
    async with screen(FakeSource(empty_world())) as pilot:
        await pilot.press("q")
    assert pilot.app.return_value == "quit"
    assert pilot.app.return_code == 0


async def test_freeze_holds_the_view_and_not_the_commands() -> None:
    """A frozen view says so and stands still, commands still go through, and space brings the present back."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        await pilot.press("space")
        source.become(empty_world())
        await pilot.press("p")
        assert "VIEW FROZEN" in seen(pilot, "header")
        assert "alice" in seen(pilot, "agents")
        assert source.applied == [PauseAdmissions(True)]
        await pilot.press("space")
        await wait_until(pilot, lambda: "alice" not in seen(pilot, "agents"))


async def test_help_tells_keys_and_glyphs_and_scrolls_where_it_must() -> None:
    """The help lists every key and every state; on a small screen it scrolls."""
    async with screen(FakeSource(world()), size=(80, 24)) as pilot:
        await pilot.press("?")
        top = seen(pilot, "overlay")
        await pilot.press("pagedown", "pagedown", "pagedown")
        bottom = seen(pilot, "overlay")
        assert "pause or resume admissions" in top + bottom
        assert "half-open" in bottom
        await pilot.press("escape")
        assert not pilot.app.query_one(Overlay).is_open


async def test_theme_key_goes_round() -> None:
    """t takes the next theme, and the colours of the panels with it."""
    async with screen(FakeSource(world())) as pilot:
        assert pilot.app.theme == DARK.name
        await pilot.press("t")
        assert pilot.app.theme == LIGHT.name
        row = pilot.app.query_one("#agents", LineTable).rows[0]
        ground = row._segments[0].style
        assert ground is not None
        assert ground.bgcolor is not None
        assert ground.bgcolor.name == LIGHT.background
        await pilot.press("t", "ctrl+l")
        assert pilot.app.theme == DARK.name


ALL = "header slots curve windows circuit agents events footer"
SOME = "header slots windows agents events footer"
LAYOUTS = {
    (140, 36): ALL,
    (139, 36): SOME,
    (160, 35): SOME,
    (80, 24): SOME,
    (79, 24): "header agents footer",
    (40, 12): "header agents footer",
    (20, 5): "header agents footer",
    (5, 2): "header",
    (300, 90): ALL,
}


async def test_every_size_is_drawn() -> None:
    """From a stamp to a wall: no size raises, each shows what fits, and the header with the state is always there."""
    async with screen(FakeSource(world()), size=(160, 45)) as pilot:
        for size, panels in LAYOUTS.items():
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert {panel.id for panel in pilot.app.query(LineTable) if panel.is_on_screen} >= set(panels.split())
            assert ("curve" in panels) == pilot.app.query_one("#curve").is_on_screen
            if size != (5, 2):
                assert "SERVING" in seen(pilot, "header")


async def test_the_whole_screen_looks_as_agreed(golden: Callable[[str, str], None]) -> None:
    """The full and the compact layout, as text."""
    async with screen(FakeSource(world()), size=(160, 45)) as pilot:
        golden("screen_160x45", whole_screen(pilot))
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        golden("screen_80x24", whole_screen(pilot))


async def test_a_panel_that_raises_is_painted_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in one panel is an error text in its place and one log line; the others go on, and it may recover."""
    broken = True
    draw = agents_panel.render

    def render(*args: Any) -> Any:
        if broken:
            raise ZeroDivisionError("oops")
        return draw(*args)

    monkeypatch.setattr(agents_panel, "render", render)
    source = FakeSource(world())
    async with screen(source) as pilot:
        await pilot.press("j", "j")
        assert "panel error: ZeroDivisionError" in seen(pilot, "agents")
        assert "SERVING" in seen(pilot, "header")
        assert caplog.text.count("panel agents could not be drawn") == 1
        broken = False
        await pilot.press("j")
        assert "carol" in seen(pilot, "agents")


async def test_a_source_that_changes_is_followed_without_a_key() -> None:
    """The screen polls: what changes appears by itself."""
    source = FakeSource(empty_world())
    async with screen(source) as pilot:
        source.become(world())
        await wait_until(pilot, lambda: "alice" in seen(pilot, "agents"))


async def test_linux_console_gets_ascii() -> None:
    """With TERM=linux nothing but ASCII is drawn."""
    async with screen(FakeSource(world()), environment={"TERM": "linux"}) as pilot:
        assert whole_screen(pilot).isascii()


async def test_tasks_are_not_eager() -> None:
    """The proxy's loop keeps its task factory, which Textual would replace from Python 3.12 on."""
    import asyncio

    app = ControlRoom(FakeSource(empty_world()), environment={})
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
    app = ControlRoom(source, environment={})

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


def whole_screen(pilot: Pilot[str]) -> str:
    """What stands on the screen now, as text."""
    app = pilot.app
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips(app.size))


async def wait_until(pilot: Pilot[str], reached: Callable[[], bool]) -> None:
    """Let the screen work until the condition holds."""
    for _ in range(200):
        if reached():
            return
        await pilot.pause(0.01)
    raise AssertionError("never reached")
