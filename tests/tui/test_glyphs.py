"""Glyphs and words: one cell each, told apart, and in ASCII where the terminal has nothing else."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from hivemind.errors import UsageError
from hivemind.scheduler.events import GATES
from hivemind.scheduler.tasks import TASK_STATES
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import AGENT_STATES, ENDS, TICKET_STATES
from hivemind_tui.render.glyphs import (
    ASCII,
    GATE_SIGNS,
    LEGEND,
    PHASES,
    PRIORITIES,
    SIGNS,
    TASK_SIGNS,
    UNICODE,
    Glyphs,
    gate_sign,
    glyphs_for,
    sign,
    task_sign,
)
from hivemind_tui.render.pen import ROLES

SETS = {"unicode": UNICODE, "ascii": ASCII}
FIELDS = [name for name in Glyphs.__struct_fields__ if name != "braille"]


@pytest.mark.parametrize("glyphs", SETS.values(), ids=SETS)
def test_every_glyph_takes_one_cell(glyphs: Glyphs) -> None:
    """Columns stay straight: whatever a glyph's name holds, each character of it is one cell wide."""
    for name in FIELDS:
        text = getattr(glyphs, name)
        assert [cell_len(character) for character in text] == [1] * len(getattr(UNICODE, name)), name


def test_ascii_is_ascii() -> None:
    """The poor set has a character of its own for every glyph."""
    assert all(getattr(ASCII, name).isascii() for name in FIELDS)


@pytest.mark.parametrize("glyphs", SETS.values(), ids=SETS)
def test_what_stands_side_by_side_differs(glyphs: Glyphs) -> None:
    """Without any colour the pieces of a bar, of a waterfall and of a scrollbar, both arrows and the agents' states can
    be told apart; states have words too."""
    pieces = [getattr(glyphs, phase.glyph) for phase in PHASES.values() if phase.glyph != "idle"]
    agents = [
        getattr(glyphs, sign(state).glyph) for state in (*TICKET_STATES, "idle", "ended", "held", "stopped", "died")
    ]
    ends = [getattr(glyphs, sign(state).glyph) for state in ENDS]
    for group in (
        [glyphs.full, glyphs.part, glyphs.empty],
        pieces,
        [glyphs.thumb, glyphs.track],
        [glyphs.ascending, glyphs.descending],
        [glyphs.marked, glyphs.cursor, " "],
        agents,
        ends,
    ):
        assert len(set(group)) == len(group), group
    words = [sign(state).word for state in LEGEND]
    assert len(set(words)) == len(words)


def test_every_state_has_a_sign() -> None:
    """Whatever state a request or an agent can be in is shown by a glyph, a word of at most nine cells and a role, and
    the help explains it."""
    states = {*TICKET_STATES, *ENDS, *AGENT_STATES}
    assert states <= set(LEGEND)
    for shown in (*SIGNS.values(), *GATE_SIGNS.values(), *PHASES.values(), *TASK_SIGNS.values()):
        assert shown.glyph in FIELDS
        assert shown.role in ROLES
        assert cell_len(shown.word) <= 10
    assert all(sign(state).word and sign(state).meaning for state in LEGEND)
    assert sign("something new").word == "?"
    assert set(PRIORITIES) == set(Priority)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_state_of_a_task_has_a_sign(glyphs: Glyphs) -> None:
    """One that tells it from the others without colours, too."""
    assert set(TASK_SIGNS) == set(TASK_STATES)
    assert len({getattr(glyphs, task_sign(state).glyph) for state in TASK_STATES}) == len(TASK_STATES)
    assert len({task_sign(state).word for state in TASK_STATES}) == len(TASK_STATES)
    assert task_sign("something new").word == "?"


def test_every_gate_has_a_sign() -> None:
    """Whatever can keep a request waiting has a word and a sentence; a gate of a newer proxy goes by its own name."""
    assert set(GATE_SIGNS) == {*GATES, "next"}
    assert all(gate_sign(gate).word and gate_sign(gate).meaning for gate in GATES)
    assert len({shown.word for shown in GATE_SIGNS.values()}) == len(GATE_SIGNS)
    assert gate_sign("somebodys").word == "somebodys"


ENVIRONMENTS: dict[str, tuple[dict[str, str], Glyphs]] = {
    "nothing": ({}, UNICODE),
    "xterm": ({"TERM": "xterm-256color", "LANG": "de_DE.UTF-8"}, UNICODE),
    "macos": ({"TERM": "xterm-256color", "LC_CTYPE": "UTF-8"}, UNICODE),
    "container": ({"TERM": "xterm"}, UNICODE),
    "vte": ({"TERM": "vte-256color"}, UNICODE),
    "linux console": ({"TERM": "linux", "LANG": "en_US.UTF-8"}, ASCII),
    "linux console, many colours": ({"TERM": "linux-16color"}, ASCII),
    "screen on it": ({"TERM": "screen.linux"}, ASCII),
    "vt100": ({"TERM": "vt100"}, ASCII),
    "vt220": ({"TERM": "vt220-8bit"}, ASCII),
    "dumb": ({"TERM": "dumb"}, ASCII),
    "latin": ({"TERM": "xterm", "LANG": "de_DE@euro"}, ASCII),
    "c": ({"TERM": "xterm", "LC_ALL": "C", "LANG": "en_US.UTF-8"}, ASCII),
    "ctype": ({"TERM": "xterm", "LC_ALL": "", "LC_CTYPE": "C.utf8", "LANG": "C"}, UNICODE),
    "asked": ({"TERM": "linux", "LANG": "C", "HIVEMIND_GLYPHS": "unicode"}, UNICODE),
    "asked for less": ({"TERM": "xterm-256color", "HIVEMIND_GLYPHS": "ascii"}, ASCII),
    "asked for nothing": ({"TERM": "vt102", "HIVEMIND_GLYPHS": ""}, ASCII),
}


@pytest.mark.parametrize(("environment", "glyphs"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_which_set(environment: dict[str, str], glyphs: Glyphs) -> None:
    """What is asked for goes first, then a poor terminal, then the first locale variable that is set."""
    assert glyphs_for(environment) is glyphs


def test_a_set_that_there_isnt() -> None:
    """It is named, with those that there are."""
    with pytest.raises(UsageError, match=r"^HIVEMIND_GLYPHS \(environment\): must be unicode or ascii, not 'utf8'$"):
        glyphs_for({"HIVEMIND_GLYPHS": "utf8"})
