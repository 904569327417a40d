"""A value that is refused stays where it was typed, with the reason."""

from __future__ import annotations

from pathlib import Path

from tui.kit import afresh, press, room, screen, seen
from tui.trials import Made, usual
from tui.worlds import busy_source, world

from hivemind.records import replace
from hivemind.scheduler.commands import Tune
from hivemind.world.snapshot import RecordingView

REFUSED = {
    "4 home j j j j enter 8 enter": "aimd.beta 8: must be a number from ",
    "4 home enter 1 , 5 enter": "max_concurrency 1.5: must be a whole number from ",
    "B m a n y enter": "is no budget",
    ": b e t a space 8 enter": "aimd.beta 8: must be a number from ",
    "w j j j j @other 8 enter": "aimd.beta 8: must be a number from ",
    "w @other n o n e = 1 enter": "no such setting",
}


async def test_a_refused_value_stays_in_the_line_with_the_reason(tmp_path: Path) -> None:
    """It can be corrected where it stands; the reason goes with the first change, and nothing is sent meanwhile."""
    source = busy_source()
    journal = tmp_path / "run.jsonl"
    journal.touch()
    source.become(replace(world(), recording=RecordingView(str(journal), 1, 0, "")))
    async with screen(source, (100, 12)) as pilot:
        room(pilot).simulation = Made(usual)
        bottom = room(pilot).line
        async for keys in afresh(pilot, REFUSED):
            assert bottom.is_open
            assert REFUSED[keys] in seen(pilot, "footer")
            assert f"{keys.split()[-2]}{bottom._ink.glyphs.cursor}" in seen(pilot, "footer")
            await press(pilot, "x")
            assert REFUSED[keys] not in seen(pilot, "footer")
            assert bottom.is_open
        assert source.applied == []


async def test_what_the_proxy_refuses_is_asked_for_again() -> None:
    """It alone knows some reasons; by then the line is closed, so it opens again, unless something else is open."""
    source = busy_source()
    source.reject = "at most max_concurrency, which is 12"
    async with screen(source) as pilot:
        await press(pilot, "4 home j j enter 5 enter")
        bottom = room(pilot).line
        assert bottom.is_open
        assert "5" in seen(pilot, "footer")
        assert source.reject in seen(pilot, "footer")
        source.reject = ""
        await press(pilot, "backspace 4 enter")
        assert source.applied == [Tune("aimd.floor", 4.0, "anthropic")]
        assert not bottom.is_open
