"""Values as they are typed: the line, the knobs, and the reason why one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tui.kit import afresh, press, room, screen, seen
from tui.trials import Made, usual
from tui.worlds import busy_source, world

from hivemind.records import replace
from hivemind.scheduler.commands import Rejected, Tune
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.world.snapshot import RecordingView
from hivemind_tui.render.dials import DIALS, NAMES, number, shown_value, stepped, typed
from hivemind_tui.widgets.prompt import LONGEST, InputLine


def test_every_knob_has_a_dial() -> None:
    """What can be tuned stands on the page, and nothing else does."""
    assert set(DIALS) == set(KNOBS)


@pytest.mark.parametrize(
    ("name", "value", "steps", "wanted"),
    [
        ("aimd.beta", 0.5, 1, 0.55),
        ("aimd.beta", 0.55, 1, 0.6),
        ("aimd.alpha", 0.3, -1, 0.2),
        ("aimd.alpha", 0.33, 1, 0.4),
        ("max_concurrency", 12.0, 10, 22),
        ("circuit.window", 5.0, -10, 1),
        ("tpm", 400_000.0, 1, 440_000),
        ("tpm", 400_000.0, 10, 600_000),
        ("rpm", 1.0, 1, 2),
        ("rpm", 50.0, -1, 45),
    ],
)
def test_a_press_goes_one_step(name: str, value: float, steps: int, wanted: float) -> None:
    """To the next round value, however odd the present one is."""
    assert stepped(name, value, steps) == pytest.approx(wanted)


@given(st.sampled_from(NAMES), st.floats(0, 1), st.sampled_from([1, -1, 10, -10]))
def test_a_step_stays_in_range_and_goes_the_right_way(name: str, share: float, steps: int) -> None:
    """From anywhere within the range, in the direction asked, in whole numbers where those are wanted."""
    knob = KNOBS[name]
    value = knob.lowest + share * (knob.highest - knob.lowest)
    value = float(round(value)) if knob.whole else value
    try:
        wanted = stepped(name, value, steps)
    except Rejected:
        assert value in (knob.lowest, knob.highest)
        return
    assert knob.lowest <= wanted <= knob.highest
    assert (wanted - value) * steps > 0
    assert not knob.whole or wanted == int(wanted)


def test_without_a_limit_there_is_nothing_to_step_from() -> None:
    """0 means no limit; a number has to be typed."""
    with pytest.raises(Rejected, match="no limit to step from"):
        stepped("rpm", 0.0, 1)
    assert shown_value("rpm", 0.0) == "no limit"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tpm", "400k", 400_000),
        ("tpm", "1.5M", 1_500_000),
        ("aimd.latency_target_s", " 2.5s ", 2.5),
        ("rpm", "1,000", 1000),
        ("tpm", "1,234,567", 1_234_567),
        ("aimd.beta", "0,8", 0.8),
        ("aimd.latency_target_s", "2,5 s", 2.5),
        ("tpm", "1,5M", 1_500_000),
    ],
)
def test_numbers_are_typed_as_people_write_them(name: str, text: str, value: float) -> None:
    """With thousands, decimal commas, units and blanks."""
    assert typed(name, text) == value


@pytest.mark.parametrize("text", ["", "fast", "1e999", "nan", "--1", "k", "0,8,1", "1,00.5", "0.8,1"])
def test_what_is_no_number_is_said_so(text: str) -> None:
    """One line that shows what was typed and what would be right."""
    with pytest.raises(Rejected, match="is no number"):
        typed("aimd.beta", text)


@pytest.mark.parametrize(
    ("name", "text"), [("aimd.beta", "8"), ("aimd.beta", "8,0"), ("max_concurrency", "1,5"), ("rpm", "-1")]
)
def test_what_is_out_of_range_is_refused(name: str, text: str) -> None:
    """The reason names the range."""
    with pytest.raises(Rejected, match=r"must be a .* from "):
        typed(name, text)


def test_numbers_have_no_more_digits_than_they_need() -> None:
    """Binary fractions don't show."""
    assert [number(value) for value in (0.1 + 0.2, 400_000.0, 12.0, 0.55)] == ["0.3", "400,000", "12", "0.55"]


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
