"""The log: rows that are folded, hidden by severity or searched for, and what is shown beside a selected event."""

from __future__ import annotations

import pytest
from tui.kit import frame, press, room, said, screen, seen, settle
from tui.lanes import several_source
from tui.requests import requests_of
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.commands import navigation
from hivemind_tui.panels import log
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.log_rows import WITHIN_S, Same, found, next_found, number_of, place, rows_of, rows_once
from hivemind_tui.state.view import View


def line(at: float, text: str = "overloaded; attempt 2 in 1.5 s", **about: str) -> Line:
    """An attempt that failed with a 529."""
    return replace(Line(at, 1000.0 + at, "warn", "529", "ann", text), **about)  # type: ignore[arg-type]


OPEN = line(4.2, "open (too many errors), a probe in 5 s", tag="circuit", who="up", level="bad")


def shown(*lines: Line) -> list[str]:
    return [f"{row.name}: {row.text}" for row in rows_of(lines)]


def test_a_burst_is_one_row_with_what_it_led_to() -> None:
    """Although the attempts, the pauses after them and the agents differ."""
    burst = [line(n / 2, f"overloaded; attempt {n} in {n}.5 s", who=f"a{n % 3}") for n in range(9)]
    assert shown(*burst, OPEN) == ["3 agents: overloaded ×9 in 4 s -> circuit open (too many errors), a probe in 5 s"]
    assert shown(*burst) == ["3 agents: overloaded ×9 in 4 s"]


def test_lines_of_one_burst_may_alternate() -> None:
    """A level is told as the last of them has it."""
    cut = [line(n + 0.1, f"concurrency level {8 - n}.0 (overloaded)", tag="aimd", who="up") for n in range(3)]
    mixed = [each for pair in zip([line(float(n)) for n in range(3)], cut, strict=True) for each in pair]
    assert shown(*mixed) == ["ann: overloaded ×3 in 2 s", "up: concurrency level 6.0 (overloaded) ×3 in 2 s"]


def test_lines_about_lanes_and_tasks_count_those() -> None:
    """Two circuits that opened together were told as two agents."""
    opened = [line(n / 2, "open (by root)", tag="circuit", who=f"up{n}", level="bad") for n in range(2)]
    assert shown(*opened) == ["2 lanes: open (by root) ×2 in 1 s"]
    failed = [line(n / 2, "failed (exit code 1)", tag="task", who=f"t{n}", level="bad") for n in range(2)]
    assert shown(*failed) == ["2 tasks: failed (exit code 1) ×2 in 1 s"]


def test_nothing_is_told_twice_in_a_burst() -> None:
    """Whatever its level, and however many others stand between."""
    others = [line(0.1, f"other {chr(97 + n)}", who=f"a{n}", level="info") for n in range(9)]
    for level in ("info", "good", "warn", "bad"):
        rows = rows_of([line(0.0, "the same", level=level), *others, line(0.5, "the same", level=level)])
        assert [row.count for row in rows] == [2, *[1] * 9]


def test_an_alert_is_folded_with_itself_alone() -> None:
    """Of two agents whose names differ by a number each death stands for itself."""
    died = [line(n / 2, f"a{n} died (exit code 3)", tag="alert", who=f"a{n}", level="bad") for n in range(2)]
    assert shown(*died) == ["a0: a0 died (exit code 3)", "a1: a1 died (exit code 3)"]


def test_only_failures_lead_to_an_open_circuit() -> None:
    """An agent that is refused, or a level that falls at the same time, isn't its cause."""
    refused = [line(n / 10, "refused: budget", level="bad", tag="400") for n in range(3)]
    assert [row.ends for row in rows_of([*refused, OPEN])] == ["", ""]
    levels = [line(n / 10, f"concurrency level {n}.0", tag="aimd") for n in range(3)]
    assert [row.ends for row in rows_of([*levels, OPEN])] == ["", ""]


def test_what_differs_comes_later_or_was_done_on_purpose_stays_apart() -> None:
    assert len(rows_of([line(0.0), line(WITHIN_S)])) == 2
    assert len(rows_of([line(0.0), line(0.1, tag="503")])) == 2
    assert len(rows_of([line(0.0), line(0.1, level="bad")])) == 2
    assert len(rows_of([line(0.0), line(0.1, machine="ci")])) == 2
    held = [line(n / 10, "held", level="info", tag="you", by="you") for n in range(3)]
    assert len(rows_of(held)) == 3
    assert len(rows_of([line(0.0), OPEN])) == 2, "one failure alone is no burst"


def test_filters_and_severities_hide_lines_before_they_are_folded() -> None:
    lines = [line(0.0), line(0.5, who="bob"), line(1.0)]
    assert [row.count for row in rows_of(lines, "who:ann")] == [2]
    assert rows_of(lines, hidden=frozenset({"warn"})) == []


def test_a_search_goes_up_and_down() -> None:
    rows = rows_of([line(10.0 * n, who="ann" if n % 2 else "bob") for n in range(6)])
    assert found(rows, "ann 529") == [1, 3, 5]
    assert found(rows, " ") == []
    assert (next_found(rows, "ann", -1, 1), next_found(rows, "ann", 0, 1), next_found(rows, "ann", 4, 1)) == (
        0,
        2,
        None,
    )
    assert (next_found(rows, "ann", 4, -1), next_found(rows, "ann", 0, -1)) == (2, None)


def logged(*lines: Line) -> Snapshot:
    return replace(world(), lines=lines)


def test_the_page_says_what_is_cut_and_found() -> None:
    """And what to press where nothing is left."""
    view = View(logged(line(0.0), line(20.0)), trail=("log",), log_search="ann")
    assert "/ann: 2 found" in log.render(view, 100, 6, Pen())[0].text
    cut = replace(view, log_search="", log_severity=2)
    text = "\n".join(strip.text for strip in log.render(cut, 100, 6, Pen()))
    assert "failures" in text
    assert "Nothing of that severity; : severity shows more." in text


async def test_a_search_is_typed_on_the_page() -> None:
    """The log follows each letter; without a match it says so."""
    source = FakeSource(logged(line(0.0, who="dmitri"), line(20.0), line(40.0, who="erin")))
    async with screen(source, size=(120, 20)) as pilot:
        await press(pilot, "5 / d m i enter")
        await frame(pilot)
        assert "/dmi: 1 found" in seen(pilot, "log")
        await press(pilot, "n")
        assert said(pilot) == ["nothing further back has dmi"]
        await press(pilot, "escape n")
        assert "nothing is searched for" in str(said(pilot))


async def test_a_search_goes_on_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the newest lines don't have is looked for in older ones: so far back at once, and on with a key; what isn't
    there is said."""
    source = FakeSource(logged(*(line(1000.0 + 20.0 * n, f"now {n}") for n in range(30))))
    source.older = tuple(line(20.0 * n, "needle" if n == 3 else f"then {n}") for n in range(35))
    async with screen(source, size=(120, 20)) as pilot:
        await press(pilot, "5 slash n e e d enter")
        for _ in range(8):  # ten lines are read at once
            await frame(pilot)
        assert "needle" in seen(pilot, "log")
        assert "reading back" not in seen(pilot, "log")
        await press(pilot, "escape slash x y z enter n")
        for _ in range(8):
            await frame(pilot)
        assert "/xyz: 0 found · following" in seen(pilot, "log")
        assert "nothing further back has xyz" in said(pilot)
    monkeypatch.setattr(navigation, "SOUGHT_MOST", 10)
    async with screen(source, size=(120, 20)) as pilot:
        await press(pilot, "5 slash x y enter")
        for _ in range(4):
            await frame(pilot)
        (note,) = said(pilot)
        assert note.startswith("nothing since ")
        assert note.endswith("has xy; n goes on")
        before = len(room(pilot).view.log_older)
        await press(pilot, "n")
        await frame(pilot)
        assert len(room(pilot).view.log_older) > before


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
