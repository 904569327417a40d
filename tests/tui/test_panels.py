"""Every panel, drawn as text: what stands where, at several sizes, and never an exception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.strip import Strip
from tui.worlds import empty_world, world

from hivemind.scheduler.types import WindowKind
from hivemind.snapshot import Snapshot
from hivemind_tui.glyphs import ASCII
from hivemind_tui.ink import Ink
from hivemind_tui.panels import agents, circuit, curve, events, header, slots, windows
from hivemind_tui.view import View
from hivemind_tui.widgets.panel import Render

PANELS: dict[str, Render] = {
    "agents": agents.render,
    "circuit": circuit.render,
    "curve": curve.render,
    "events": events.render,
    "header": header.render,
    "slots": slots.render,
    "windows": windows.render,
}
SIZES = {"wide": (94, 14, True), "table": (160, 14, True), "narrow": (80, 7, False), "tiny": (20, 3, False)}
PLAIN = Ink()


def text(rows: list[Strip]) -> str:
    return "\n".join(row.text for row in rows)


def with_lane(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """The snapshot with its first lane's gauges changed."""
    lane = snapshot.lanes[0]
    return replace(snapshot, lanes=(replace(lane, state=replace(lane.state, **changes)), *snapshot.lanes[1:]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PANELS)
def test_panel_looks_as_agreed(name: str, size: str, golden: Callable[[str, str], None]) -> None:
    """Each panel at each size is what was looked at and found good."""
    width, height, boxed = SIZES[size]
    golden(f"{name}_{size}", text(PANELS[name](View(world()), width, height, replace(PLAIN, boxed=boxed))))


@pytest.mark.parametrize("name", PANELS)
def test_panel_before_the_first_request(name: str, golden: Callable[[str, str], None]) -> None:
    """An empty panel says what will appear there, rather than nothing."""
    golden(f"{name}_empty", text(PANELS[name](View(empty_world()), 80, 6, PLAIN)))


@pytest.mark.parametrize("boxed", [True, False])
@pytest.mark.parametrize("name", PANELS)
def test_panel_fills_its_place_exactly(name: str, boxed: bool) -> None:
    """Whatever the size, a panel answers as many rows as it has, each exactly as wide as it is."""
    for snapshot in (world(), empty_world(), world(agents=40, lanes=3)):
        for width, height in ((0, 0), (1, 1), (2, 5), (5, 3), (16, 3), (20, 5), (33, 2), (79, 9), (200, 60)):
            rows = PANELS[name](View(snapshot), width, height, replace(PLAIN, boxed=boxed))
            assert [row.cell_length for row in rows] == [width] * height
            assert [len(row.text) for row in rows] == [width] * height


@pytest.mark.parametrize("name", PANELS)
def test_panel_in_ascii(name: str) -> None:
    """On a console without the font for it, no character outside ASCII is drawn."""
    rows = PANELS[name](View(world()), 120, 14, replace(PLAIN, glyphs=ASCII))
    assert text(rows).isascii()


@pytest.mark.parametrize("name", PANELS)
def test_names_from_outside_cannot_steer_the_terminal(name: str) -> None:
    """Escape sequences and direction marks in an agent's name, a model or an error are drawn as dots."""
    evil = "a\x1b[2J\x07\u202e\n"
    full = world()
    snapshot = replace(
        full,
        agents=tuple(replace(agent, name=evil, last_error=evil) for agent in full.agents),
        slots=tuple(replace(ticket, agent=evil, model=evil) for ticket in full.slots),
        queue=tuple(replace(ticket, agent=evil, last_error=evil) for ticket in full.queue),
        lines=tuple(replace(line, who=evil, text=evil, tag=evil) for line in full.lines),
        upstreams=((evil, evil),),
        address=evil,
    )
    snapshot = with_lane(snapshot, lane=evil, upstream=evil)
    assert all(row.text.isprintable() for row in PANELS[name](View(snapshot), 120, 12, PLAIN))


def test_no_limit_at_all() -> None:
    """A lane without any limit is drawn as such, not as a number."""
    infinite = float("inf")
    snapshot = with_lane(world(), level=infinite, ceiling=infinite)
    assert "no limit" in text(slots.render(View(snapshot), 90, 12, PLAIN))
    assert "∞" in text(curve.render(View(snapshot), 90, 12, PLAIN))


def test_many_families_share_the_windows_panel() -> None:
    """Windows of several model families stand in one row a family, each named."""
    lane = world().lanes[0]
    both = tuple(replace(w, family=family) for family in ("claude-opus", "claude-haiku") for w in lane.state.windows)
    rows = text(windows.render(View(with_lane(world(), windows=both, plan=())), 94, 7, PLAIN))
    assert rows.count("claude-opus") == rows.count("claude-haiku") == 1
    assert rows.count("req") == 2


def test_an_unknown_window_limit_is_no_division_by_zero() -> None:
    """A window whose limit is 0 is drawn."""
    window = replace(world().lanes[0].state.windows[0], limit=0, kind=WindowKind.TOKENS)
    assert "tokens" in text(windows.render(View(with_lane(world(), windows=(window,))), 60, 7, PLAIN))


def test_forced_open_circuit_says_so() -> None:
    """What the operator forced is told in words, with what it means."""
    rows = text(circuit.render(View(with_lane(world(), circuit="open", circuit_forced=True)), 64, 7, PLAIN))
    assert "✕ OPEN forced" in rows
    assert "nothing is sent upstream" in rows


def test_selected_agent_is_always_in_sight() -> None:
    """However far down it is, the selected agent is among the rows, and marked by more than a colour."""
    snapshot = world(agents=60)
    for agent in snapshot.agents:
        rows = text(agents.render(View(snapshot, selected=agent.name), 120, 8, PLAIN))
        assert f"▌ {agent.name[:8]}" in rows


def test_lane_panels_follow_the_lane() -> None:
    """With several lanes the panels name the one they show, and show its tickets only."""
    snapshot = world(lanes=2)
    first = text(slots.render(View(snapshot), 94, 12, PLAIN))
    second = text(slots.render(View(snapshot, lane_index=1), 94, 12, PLAIN))
    assert "anthropic (1 of 2" in first
    assert "alice" in first
    assert "openai-1 (2 of 2" in second
    assert "alice" not in second
