"""The panels of the overview and of the agents' page, drawn as text: what stands where, at several sizes, and never an
exception."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from tui.kit import text
from tui.trouble import bad_afternoon, with_lane
from tui.worlds import empty_world, world

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState
from hivemind.world.health import Alert
from hivemind.world.snapshot import Snapshot
from hivemind_tui.panels import agent_page, agent_table, cost_table, curve, header, lanes, limits, log, slots, vitals
from hivemind_tui.render.glyphs import ASCII, UNICODE
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.widgets.line_table import Render

PANELS: dict[str, Render] = {
    "agent_card": agent_page.render_card,
    "agent_table": agent_table.render,
    "circuit": limits.render_circuit,
    "curve": curve.render,
    "events": log.render_newest,
    "header": header.render,
    "slots": slots.render,
    "windows": limits.render_windows,
}
WIDE_BOX = 96, 13
LARGE = {"agent_card": (50, 42), "agent_table": (160, 12), "curve": (64, 14), "header": (160, 2)}
PLAIN = Pen()


@pytest.mark.parametrize("name", PANELS)
def test_panel_on_a_bad_afternoon(name: str, golden: Callable[[str, str], None]) -> None:
    """With every gate shut to somebody and every kind of cut, each panel still reads well."""
    width, height = LARGE.get(name, WIDE_BOX)
    golden(f"{name}_trouble", text(PANELS[name](View(bad_afternoon()), width, height, PLAIN)))


@pytest.mark.parametrize("name", PANELS)
def test_panel_before_the_first_request(name: str, golden: Callable[[str, str], None]) -> None:
    """An empty panel says what will appear there, rather than nothing."""
    golden(f"{name}_empty", text(PANELS[name](View(empty_world()), 80, 6, PLAIN)))


# --- Whatever comes ----------------------------------------------------------------------------------------------

EVIL = "a\x1b[2J\x07\u202e\n"
WIDE = "漢字" * 30
WIDTHS = (0, 1, 5, 16, 20, 33, 74, 100, 160, 250)
HEIGHTS = (0, 1, 2, 3, 5, 8, 13, 22, 60)


def hostile(name: str) -> Snapshot:
    """A world in which every text from outside is this one."""
    full = bad_afternoon()
    snapshot = replace(
        full,
        agents=tuple(replace(agent, name=name, last_error=name, client=name, parent=name) for agent in full.agents),
        slots=tuple(replace(ticket, agent=name, model=name) for ticket in full.slots),
        queue=tuple(replace(ticket, agent=name, last_error=name, model=name) for ticket in full.queue),
        lines=tuple(replace(line, who=name, text=name, tag=name) for line in full.lines),
        upstreams=((name, name),),
        address=name,
    )
    state = snapshot.lanes[0].state
    named = tuple(replace(window, family=name) for window in state.windows)
    plan = tuple(replace(each, name=name, status=name) for each in state.plan)
    return with_lane(snapshot, lane=name, upstream=name, windows=named, plan=plan)


def extreme() -> Snapshot:
    """A world in which nothing is known, and what is counted is without end."""
    full = world()
    infinite = math.inf
    endless = BudgetState("x", 1, 0.001, "ever", "subtree", 10**15, 1e9, 10**15)
    agents = tuple(
        replace(agent, budget=endless, ttft_s=None, client="", dollars=1e9, waited_s=1e9, requests=10**12)
        for agent in full.agents
    )
    slots_ = tuple(replace(ticket, since_s=0.0, output_tokens=10**12, attempt=99) for ticket in full.slots)
    queue = tuple(
        replace(ticket, gate="", position=None, estimate_s=None, gate_opens_in_s=None, retry_in_s=None)
        for ticket in full.queue
    )
    lane = full.lanes[0]
    unlimited = tuple(replace(window, limit=0, remaining=infinite, resets_in_s=None) for window in lane.state.windows)
    state = replace(
        lane.state,
        level=infinite,
        ceiling=infinite,
        mean_ttft_s=None,
        circuit="open",
        circuit_reopens_in_s=None,
        circuit_results=0,
        circuit_errors=0,
        windows=unlimited,
        plan=(),
        knobs={},
    )
    curve_ = tuple(replace(point, level=infinite, ttft_s=None) for point in lane.curve)
    return replace(full, agents=agents, slots=slots_, queue=queue, lanes=(replace(lane, state=state, curve=curve_),))


WORLDS: dict[str, Callable[[], Snapshot]] = {
    "empty": empty_world,
    "trouble": bad_afternoon,
    "many": lambda: world(agents=60, lanes=3),
    "evil": lambda: hostile(EVIL),
    "wide": lambda: hostile(WIDE),
    "extreme": extreme,
}
EVERY: dict[str, Render] = {
    **PANELS,
    "lanes": lanes.render,
    "models": cost_table.render_models,
    "vitals": vitals.render,
}


@pytest.mark.parametrize("made", WORLDS)
@pytest.mark.parametrize("name", EVERY)
def test_panel_fills_its_place_exactly(name: str, made: str) -> None:
    """Whatever the size and the world, a panel answers as many rows as it has, each exactly as wide as it is, and
    nothing in them that a terminal would obey; on a poor console nothing but ASCII."""
    view = View(WORLDS[made](), marked=frozenset({EVIL, "alice"}))
    for turn, width in enumerate(WIDTHS):
        # Every sixth height for a width, from another one on for the next width: all of them are covered.
        for height in HEIGHTS[turn % 6 :: 6]:
            pen = replace(PLAIN, boxed=bool((turn + height) % 2), glyphs=ASCII if height % 2 else UNICODE)
            rows = EVERY[name](view, width, height, pen)
            assert [row.cell_length for row in rows] == [width] * height
            assert all(row.text.isprintable() for row in rows)
            assert made == "wide" or pen.glyphs is UNICODE or all(row.text.isascii() for row in rows)


@pytest.mark.parametrize("name", PANELS)
def test_panel_in_ascii(name: str, golden: Callable[[str, str], None]) -> None:
    """On a console without the font for it, no character outside ASCII is drawn."""
    rows = text(PANELS[name](View(bad_afternoon()), 120, 14, replace(PLAIN, glyphs=ASCII)))
    assert rows.isascii()
    golden(f"{name}_ascii", rows)


@pytest.mark.parametrize(("who", "told"), [("", True), ("ann", False)])
def test_a_death_that_was_acknowledged_leaves_the_header(who: str, told: bool) -> None:
    """Until then it is counted there."""
    full = world()
    first, *others = full.agents
    alert = Alert(1, "died", first.name, "it died", 0.0, acknowledged=who)
    dead = replace(full, agents=(replace(first, state="died", exit_code=3), *others), alerts=(alert,))
    assert ("1 agent died" in text(header.render(View(dead), 200, 2, Pen()))) is told
