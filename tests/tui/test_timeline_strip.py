"""The strip below a replay, and the header above it, drawn as text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from tui.decks import AT, LENGTH_S, WALL, Deck, recording
from tui.worlds import calm_world, world

from hivemind.journal.index.activity import ActivityColumn, Mark
from hivemind.records import replace
from hivemind.world.snapshot import RecordingView
from hivemind.world.verdict import completed, judged
from hivemind_tui.panels import header, timeline_strip
from hivemind_tui.panels.timeline_strip import share_at
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.sources.playback import KINDS, Playback, kind_sign
from hivemind_tui.state.view import View

PLAIN = Pen()
LIVE = world()
SIZES = {"wide": (160, 4), "narrow": (80, 2)}


@cache
def playback() -> Playback:
    """A third of the way through the made-up recording."""
    deck = Deck(recording())
    return Playback(
        name="20261121-140000-8765",
        begins_at=AT,
        ends_at=AT + LENGTH_S,
        at=AT + 40.25,
        wall_offset_s=WALL - AT,
        speed=4.0,
        playing=True,
        marks=deck.marks,
        mark_count=len(deck.marks),
        columns=deck.overview(480),
    )


NOTED = {"note": "bob: it broke; passed on to the agent", "note_kind": "failed", "playing": False}
STATES: dict[str, dict[str, object]] = {
    "playing": {},
    "stopped": NOTED,
    "late": {**NOTED, "at": AT + 100},
    "loop": {"loop_from": AT + 20, "loop_to": AT + 70},
    "opened": {"loop_from": AT + 45.95, "at": AT + 45.95},
    "reading": {"known_to": 0.5, "approximate": True, "columns": Deck(recording(), known_to=0.5).overview(480)},
    "end": {"at": AT + LENGTH_S, "playing": False, "speed": 0.25},
    "followed": {"at": AT + LENGTH_S, "playing": False, "growing": True, "following": True, "speed": 1.0},
}


def text(view: Playback | None, width: int, height: int, pen: Pen = PLAIN) -> str:
    return "\n".join(row.text for row in timeline_strip.render(View(world(), playback=view), width, height, pen))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_strip_looks_as_agreed(state: str, size: str, golden: Callable[[str, str], None]) -> None:
    """In each state and at each size it is what was looked at and found good."""
    golden(f"timeline_{state}_{size}", text(replace(playback(), **STATES[state]), *SIZES[size]))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [0, 12, 80, 250])
@pytest.mark.parametrize("height", [0, 2, 6])
def test_every_size_is_filled(width: int, height: int) -> None:
    """Exactly so many rows of exactly so many cells, whatever there is to show, in any alphabet."""
    hostile = "\x1b[2Jevil\n名前" * 20
    bare = Playback(hostile, 5.0, 5.0, 5.0, 0.0, note=hostile, note_kind="new", marks=[Mark(5.0, "new", "", "")])
    long = replace(playback(), begins_at=-1e7, ends_at=1e7, columns=[ActivityColumn(10**9, 10**9, 0.0, 0, 0)])
    never = replace(playback(), wall_offset_s=1e18, growing=True)
    for shown in (playback(), bare, long, never, replace(never, wall_offset_s=-1e300), None):
        for pen in (PLAIN, Pen(glyphs=ASCII)):
            view = View(LIVE, playback=shown)
            rows = timeline_strip.render(view, width, height, pen)
            assert [row.cell_length for row in rows] == [width] * height
            above = header.render(view, width, height, pen)
            assert [row.cell_length for row in above] == [width] * height


def test_a_click_is_a_share_of_the_whole() -> None:
    """Left of the bars is the beginning, their last cell and what is right of them the end."""
    for width, height in SIZES.values():
        left, cells, _ = timeline_strip.room(width, height)
        assert share_at(0, width, height) == 0.0
        assert share_at(left + 1, width, height) == 0.0
        assert share_at(width - 1, width, height) == 1.0
        middle = share_at(left + 1 + cells // 2, width, height)
        assert middle == pytest.approx(0.5, abs=0.02)


def test_marks_of_one_cell_show_the_gravest() -> None:
    """Where a cut and a death fall together, the death is seen."""
    marks = [Mark(AT + 60, "cut", "", ""), Mark(AT + 60.1, "failed", "", ""), Mark(AT + 60.2, "command", "", "")]
    row = text(replace(playback(), marks=marks), 160, 4).splitlines()[2]
    assert PLAIN.glyphs.cross in row
    assert PLAIN.glyphs.descending not in row


def test_every_kind_has_a_sign_of_its_own() -> None:
    """No two kinds of marks look alike, and one that isn't known is shown too."""
    glyphs = [sign.glyph for sign in KINDS.values()]
    assert len({*glyphs}) == len(glyphs)
    assert kind_sign("newer").glyph not in glyphs


def head(view: View, width: int = 160) -> str:
    return header.render(view, width, 2, PLAIN)[0].text


def test_nobody_takes_it_for_live() -> None:
    """The header begins with what it is, at any width; the time is that of the recording."""
    view = View(world(), playback=playback())
    assert head(view).startswith(" ► REPLAY x4  Sat 21 Nov 14:00:40  20261121-140000-8765")
    assert "REPLAY x4" in head(view, 40)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_verdict_stands_beside_the_recorded_time(width: int) -> None:
    """Its cause is cut to what is left of the row; the key that would end it isn't named, as none does."""
    calm = calm_world()
    died = replace(calm.agents[0], state="died", running=False, exit_code=3)
    snapshot = judged(replace(calm, agents=(died, *calm.agents[1:])))
    row = head(View(snapshot, playback=playback()), width)
    assert "Sat 21 Nov 14:00:40  ▲ DEGRADED alice" in row or "20261121-140000-8765  ▲ DEGRADED alice" in row
    assert "(A)" not in row


def test_damage_is_told() -> None:
    """What is wrong with the recording stands in the header, and how much more is."""
    hurt = replace(
        playback(), damage=("312 events are missing in 2 gaps: the disk was full", "the last line isn't whole")
    )
    assert "▲ 312 events are missing in 2 gaps: the disk was full (+1)" in head(View(world(), playback=hurt))
    assert "▲ 312" in head(View(world(), playback=hurt), 80)


def test_that_a_journal_is_written_is_told() -> None:
    """A live header says how large it is, and louder what is lost, or why it can't be written."""
    live = calm_world()
    assert "journal" not in head(View(live))
    told = {
        RecordingView("/j", 18_200_000, 0, ""): "journal 18 MB",
        RecordingView("/j", 4_200, 0, ""): "journal 4 kB",
        RecordingView("/j", 18_200_000, 1200, ""): "▲ journal 18 MB, 1.2k events lost",
        RecordingView("/j", 18_200_000, 7, "No space left on device"): "▲ not recorded: No space left on device",
    }
    for recording_, words in told.items():
        assert words in head(View(replace(live, recording=recording_)), 250)
    failing = RecordingView("/j", 18_200_000, 7, "No space left on device")
    judged_too = completed(live, None, failing)
    assert "DEGRADED the journal can't be written, until its disk takes it again" in head(View(judged_too), 80)
