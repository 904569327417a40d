"""What lies over the board: it gets every key in the order in which they are pressed, and the mouse works there too."""

from __future__ import annotations

from textual import events
from textual.pilot import Pilot
from tui.kit import frame, press, room, screen, seen, settle
from tui.worlds import LANE, FakeSource, busy_source, world

from hivemind.records import replace
from hivemind.scheduler.commands import PauseAdmissions, SetBudget, SetCircuit, StopAgent
from hivemind_tui.widgets.overlay import Choice, Overlay, Palette, found


async def at_once(pilot: Pilot[str], *keys: str) -> None:
    """Press keys without waiting for any of them."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await settle(pilot)


async def test_what_is_typed_ahead_isnt_lost() -> None:
    """A key that follows at once goes to what the one before it opened, and the next one to the board again."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        await at_once(pilot, "c", "h", "B", "5", "k", "enter", "x", "y", "y")
        assert source.applied == [SetCircuit("probe", LANE), SetBudget("alice", 5000), StopAgent("alice", True)]
        await at_once(pilot, "colon", *"pause", "enter", "slash", *"bob")
        assert source.applied[-1] == PauseAdmissions(True)
        assert [agent.name for agent in room(pilot).view.agents] == ["bob"]


async def test_pasted_text_is_typed_where_somebody_types() -> None:
    """Into the filter or the palette, on one line; on the board it is nothing."""
    async with screen(busy_source()) as pilot:
        pilot.app.post_message(events.Paste("xq"))
        await settle(pilot)
        assert pilot.app.is_running
        await press(pilot, "/")
        pilot.app.post_message(events.Paste("car\nol\n"))
        await settle(pilot)
        assert room(pilot).view.order.filter == "car ol"
        await press(pilot, "escape :")
        pilot.app.post_message(events.Paste("aimd.beta 0.7"))
        await settle(pilot)
        assert "set it to 0.7" in seen(pilot, "palette")


async def test_choices_can_be_clicked_and_a_click_beside_closes() -> None:
    """In a question and in the palette; what lies under them isn't touched by it."""
    source = FakeSource(world())
    async with screen(source, size=(160, 45)) as pilot:
        overlay, palette = pilot.app.query_one(Overlay), pilot.app.query_one(Palette)
        await press(pilot, "x")
        await pilot.click("#header", offset=(17, 1))
        await settle(pilot)
        assert not overlay.is_open
        assert room(pilot).view.page == "overview"
        await press(pilot, "j k x")
        row = next(index for index, row in enumerate(overlay.rows) if " y  stop" in row.text)
        await pilot.click(Overlay, offset=(4, row))
        await settle(pilot)
        assert source.applied == [StopAgent("alice", True)]
        await press(pilot, ":")
        row = next(index for index, row in enumerate(palette.rows) if " tuning " in row.text)
        await pilot.click(Palette, offset=(6, row))
        await settle(pilot)
        assert room(pilot).view.page == "tuning"
        await pilot.click("#footer", offset=(1, 0))
        await settle(pilot)
        assert overlay.is_open


async def test_the_wheel_scrolls_what_is_on_top() -> None:
    """The list under a question stays where it is, so that the question stays about whom it names."""
    async with screen(busy_source(), size=(80, 24)) as pilot:
        before = room(pilot).view.agent
        for keys in ("?", "escape :", "escape B"):
            await press(pilot, keys)
            pilot.app.on_mouse_scroll_down()  # type: ignore[attr-defined]
            await settle(pilot)
            assert room(pilot).view.agent is before
        await press(pilot, "escape ? ?")
        first = seen(pilot, "overlay")
        pilot.app.on_mouse_scroll_down()  # type: ignore[attr-defined]
        assert seen(pilot, "overlay") != first
        await press(pilot, "end home")
        assert seen(pilot, "overlay") == first


def test_what_is_called_so_comes_first() -> None:
    """The name itself, then names that begin with it, then words in a name, then any text."""
    names = ("mark all", "sort by mark", "remark", "mark", "help")
    choices = [Choice(name, "marks" if name == "help" else "", "", lambda: None) for name in names]
    assert [choice.name for choice in found(choices, "mark")] == ["mark", "mark all", "sort by mark", "remark", "help"]
    assert [choice.name for choice in found(choices, "")] == list(names)


def flat(box: str) -> str:
    """Its text without its frame and rows."""
    return " ".join(box.replace("│", " ").split())


async def test_a_question_counts_what_is_there_now() -> None:
    """Not what was in flight and waited when it was asked, also while the view is frozen."""
    full = world()
    source = FakeSource(full)
    async with screen(source, size=(80, 24)) as pilot:
        lane = full.lanes[0]
        busy = replace(lane, state=replace(lane.state, waiting=41))
        for keys in "qDxc":
            await press(pilot, f"v {keys}")
            assert " waiting are refused" in flat(seen(pilot, "overlay"))
            assert "41 waiting" not in flat(seen(pilot, "overlay"))
            source.become(replace(full, queued=41, lanes=(busy, *full.lanes[1:])))
            await frame(pilot)
            assert "41 waiting are refused" in flat(seen(pilot, "overlay"))
            source.become(full)
            await press(pilot, "escape v")
            await frame(pilot)


async def test_a_second_q_quits_and_the_question_says_so() -> None:
    """With requests under way, too."""
    async with screen(FakeSource(world()), size=(80, 24)) as pilot:
        await press(pilot, "q")
        assert "so does a second q" in seen(pilot, "overlay")
        await press(pilot, "q")
        assert pilot.app.return_value == "quit"


async def test_where_no_agent_is_chosen_only_all_can_be_stopped() -> None:
    """The cursor is on some agent that nobody means."""
    async with screen(FakeSource(world()), size=(80, 24)) as pilot:
        assert "x stop" in seen(pilot, "footer")
        await press(pilot, "x")
        assert "Stop all spending?" in seen(pilot, "overlay")
        assert "choose it first: j k" in seen(pilot, "overlay")
        assert "stop it" not in seen(pilot, "overlay")
        await press(pilot, "escape j k x")
        assert "Stop alice, or all spending?" in seen(pilot, "overlay")
        assert "stop it" in seen(pilot, "overlay")
