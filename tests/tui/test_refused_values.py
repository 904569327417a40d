"""A value that is refused stays where it was typed, with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tui.kit import press, room, screen, seen
from tui.trials import Made, usual
from tui.worlds import busy_source, world

from hivemind.scheduler.commands import Tune
from hivemind.world.snapshot import RecordingView

REFUSED = {
    "4 g j j j enter 8 enter": "aimd.beta 8: must be a number from ",
    "4 g enter 1 , 5 enter": "max_concurrency 1.5: must be a whole number from ",
    "B m a n y enter": "is no budget",
    ": b e t a space 8 enter": "aimd.beta 8: must be a number from ",
    "w j j j o 8 enter": "aimd.beta 8: must be a number from ",
    "w o n o n e = 1 enter": "no such setting",
}


@pytest.mark.parametrize("keys", REFUSED)
async def test_a_refused_value_stays_in_the_line_with_the_reason(keys: str, tmp_path: Path) -> None:
    """It can be corrected where it stands; the reason goes with the first change, and nothing is sent meanwhile."""
    source = busy_source()
    if keys.startswith("w"):
        journal = tmp_path / "run.jsonl"
        journal.touch()
        source.become(replace(world(), recording=RecordingView(str(journal), 1, 0, "")))
    typed = keys.split()[-2]
    async with screen(source) as pilot:
        room(pilot).simulation = Made(usual)
        await press(pilot, keys)
        bottom = room(pilot).line
        assert bottom.is_open
        assert REFUSED[keys] in seen(pilot, "footer")
        assert f"{typed}{bottom._ink.glyphs.cursor}" in seen(pilot, "footer")
        await press(pilot, "x")
        assert REFUSED[keys] not in seen(pilot, "footer")
        assert bottom.is_open
        assert source.applied == []


async def test_a_decimal_comma_is_a_point() -> None:
    """`0,8` is what many keyboards and habits make of 0.8; it never is 8."""
    source = busy_source()
    async with screen(source) as pilot:
        await press(pilot, "4 g j j j enter 0 , 8 enter")
        assert source.applied == [Tune("aimd.beta", 0.8, "anthropic")]
        assert not room(pilot).line.is_open


async def test_what_the_proxy_refuses_is_asked_for_again() -> None:
    """It alone knows some reasons; by then the line is closed, so it opens again, unless something else is open."""
    source = busy_source()
    source.reject = "at most max_concurrency, which is 12"
    async with screen(source) as pilot:
        await press(pilot, "4 g j enter 5 enter")
        bottom = room(pilot).line
        assert bottom.is_open
        assert "5" in seen(pilot, "footer")
        assert source.reject in seen(pilot, "footer")
        source.reject = ""
        await press(pilot, "backspace 4 enter")
        assert source.applied == [Tune("aimd.floor", 4.0, "anthropic")]
        assert not bottom.is_open
