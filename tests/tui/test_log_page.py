"""The log beside the event that was selected in it."""

from __future__ import annotations

from tui.kit import frame, press, room, screen, seen, settle
from tui.lanes import several_source
from tui.requests import requests_of
from tui.worlds import world

from hivemind.records import replace
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.panels import log
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.log_rows import Same, number_of, place, rows_of, rows_once
from hivemind_tui.state.view import View


def burst() -> Snapshot:
    """A world in which one error came from two agents within a second, after another line."""
    full = world()
    at, wall = full.at - 20, full.wall - 20
    lines = [Line(at - 5, wall - 5, "info", "you", "you", "ceiling 12 on anthropic")]
    lines += [
        Line(at + n / 4, wall + n / 4, "warn", "529", who, "overloaded") for n, who in enumerate(("bob", "alice"))
    ]
    return replace(full, lines=tuple(lines))


def event(view: View) -> str:
    """The text of the selected event's panel."""
    return "\n".join(row.text for row in log.render_event(view, 90, 16, Pen()))


def test_the_selected_event_is_told_in_full() -> None:
    """With all whom a folded row is about; of one agent also how it is doing, and of a lane."""
    folded = event(View(burst(), trail=("log",)))
    assert "▲ warning  529" in folded
    assert "overloaded ×2 in 1 s" in folded
    assert "alice, bob" in folded
    assert "20s ago" in folded
    full = world()
    about = {line.who: event(View(replace(full, lines=(line,)), trail=("log",))) for line in full.lines}
    assert "priority" in about["erin"]
    assert "circuit" in about["anthropic"]
    assert "The selected event is shown here." in event(View(replace(full, lines=())))


async def test_a_click_selects_an_event_and_the_rest_follows() -> None:
    """The list stays where it is as long as the row is in sight."""
    source = several_source()
    lines = source.snapshot().lines
    async with screen(source, size=(160, 45)) as pilot:
        await press(pilot, "5")
        await frame(pilot)
        before = seen(pilot, "log")
        await pilot.click("#log", offset=(30, 4))
        await settle(pilot)
        view = room(pilot).view
        assert view.event is not None
        assert view.event.line == lines[3]
        assert lines[3].text in seen(pilot, "log-event")
        assert seen(pilot, "log").splitlines()[1:] == before.splitlines()[1:]
        await press(pilot, "end")
        assert room(pilot).view.log_back == 0


def test_what_happened_around_a_request_is_told_with_it() -> None:
    """While it was open, and before and after as far as there is room; of an older one that the log is later."""
    full = world()
    requests = requests_of(full, 60)
    one = next(each for each in requests if each.over and full.lines[5].at < each.arrived_at < full.lines[-5].at)
    inside = [line for line in full.lines if one.arrived_at <= line.at <= (one.ended_at or full.at)]
    view = View(full, trail=("requests", "request"), ticket=one.ticket, requests=requests)
    rows = [row.text for row in log.render_around(view, 100, 12, Pen())]
    assert f"{len(inside)} while it was open" in rows[0]
    assert all(any(line.text in row for row in rows) for line in inside)
    old = replace(one, arrived_at=full.lines[0].at - 50, ended_at=full.lines[0].at - 40)
    told = log.render_around(replace(view, requests=(old,)), 100, 12, Pen())
    assert "are all later" in told[1].text


def test_a_row_is_found_again_after_new_lines() -> None:
    """By its moment, and by its place among the rows of that moment."""
    full = world()
    lines = [replace(line, at=float(n // 2), level="info") for n, line in enumerate(full.lines)]
    rows = rows_of(lines)
    for number in range(len(rows)):
        assert number_of(rows, *place(rows, number)) == number
    assert number_of(rows, 0.0, 2) is None


def test_rows_are_made_once_for_the_same_lines() -> None:
    """Several panels of one frame show them."""
    lines = world().lines
    assert rows_once(Same(()), Same(lines), "", frozenset()) is rows_once(Same(()), Same(lines), "", frozenset())
    other = tuple(list(lines))
    assert other is not lines
    assert rows_once(Same(()), Same(other), "", frozenset()) is not rows_once(Same(()), Same(lines), "", frozenset())
