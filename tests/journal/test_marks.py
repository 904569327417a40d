"""What is worth a look in a journal, and how much went on in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from world.kit import LANE, abandoned, arrived, budget, commanded, failed, finished, granted, refused, sampled, state

from hivemind.journal.index.activity import COUNTED, MARKED, ROWS_KEPT, ActivityColumn, Mark, Marker, Overview, Seconds
from hivemind.journal.index.builder import world_of
from hivemind.journal.records import Gap, JournalBegan
from hivemind.scheduler import events as ev

BEGAN = JournalBegan(0.0, 1000.0, "j", 1, "hivemind")


def marks(*events: ev.Event) -> list[Mark]:
    """What is found among them."""
    world = world_of(BEGAN, None)
    marker = Marker(world)
    for event in events:
        world.apply(event)
        if type(event) in MARKED:
            marker.note(event)
    return marker.take()


@pytest.mark.parametrize(
    ("event", "kind", "who", "said"),
    [
        (Gap(5.0, 3.0, 12, "the disk was full"), "gap", "", "12 events"),
        (failed(None), "failed", "ann", "passed on to the agent"),
        (refused(), "failed", "ann", "queue full"),
        (ev.CircuitChanged(2.0, LANE, "open", "errors", 30.0), "circuit", LANE, "open"),
        (ev.BudgetWarned(2.0, "ann", budget(used_tokens=5000), exhausted=True), "budget", "ann", "used up"),
        (commanded("PauseAgent", agent="ann", paused=True), "command", "ann", "held"),
        (ev.LaneRateLimited(2.0, LANE, 30.0, "429"), "rate_limited", LANE, "rate-limited for 30 s"),
        (ev.AgentEnded(2.0, "ann", 1), "ended", "ann", "exit code 1"),
        (ev.StartRefused(2.0, "ann", "the tree of lead is full"), "denied", "ann", "the tree of lead is full"),
        (ev.LevelChanged(2.0, LANE, 3.5, "overloaded"), "cut", LANE, "3.5"),
        (ev.InvariantBroken(2.0, "slots", LANE, "", "1 slot is taken."), "alarm", LANE, "slots: 1 slot is taken."),
        (ev.InvariantBroken(2.0, "loop", "", "", "It was held."), "alarm", "proxy", "loop: It was held."),
    ],
)
def test_there_is_a_mark_of(event: ev.Event, kind: str, who: str, said: str) -> None:
    """Its kind, whom it is about, and words for people."""
    (mark,) = marks(arrived(), granted(), event)
    assert (mark.at, mark.kind, mark.who, mark.count) == (event.at, kind, who, 1)
    assert said in mark.text


def test_a_cut_is_told_with_the_level_before_it() -> None:
    """Growth isn't marked, but is what a cut starts from; cuts of one lane within a second are one."""
    grown, cut = ev.LevelChanged(1.0, LANE, 1.375, "grow"), ev.LevelChanged(2.0, LANE, 1.0, "truncated")
    assert [mark.text for mark in marks(grown, cut)] == ["concurrency level 1.4 → 1.0 (truncated)"]
    (mark,) = marks(grown, cut, ev.LevelChanged(2.5, LANE, 0.5, "overloaded"))
    assert (mark.text, mark.count) == ("concurrency level 1.4 → 0.5 (overloaded)", 2)
    assert marks(cut)[0].text == "concurrency level 1.0 (truncated)"


@pytest.mark.parametrize(
    "event",
    [
        failed(2.0),
        refused(reason="agent_stopped"),
        finished(),
        abandoned(),
        ev.LevelChanged(2.0, LANE, 3.5, "grow"),
        ev.LevelChanged(2.0, LANE, 3.5, "operator"),
        commanded("ClaimTask", task="lint", runner="r"),
    ],
)
def test_there_is_none_of(event: ev.Event) -> None:
    """What no agent felt, what an operator wanted, and what is told otherwise."""
    assert marks(arrived(), granted(), event) == []


def test_what_comes_at_once_is_one_mark() -> None:
    """Of one kind, within a second; what an operator does is told one by one."""
    refusals = [refused(at=1.0 + number / 10) for number in range(5)]
    cut = ev.LevelChanged(1.2, LANE, 2.0, "timeout")
    paused = commanded("PauseAgent", agent="ann", paused=True, at=1.3)
    found = marks(*refusals[:2], cut, *refusals[2:], replace(refusals[0], at=2.5), paused, paused)
    assert [(mark.at, mark.kind, mark.count) for mark in found] == [
        (1.0, "failed", 5),
        (1.2, "cut", 1),
        (2.5, "failed", 1),
        (1.3, "command", 1),
        (1.3, "command", 1),
    ]


def test_a_command_is_told_with_what_there_was_before() -> None:
    """As the log does."""
    (mark,) = marks(arrived(), commanded("SetPriority", agent="ann", priority="high"))
    assert mark.text == "priority normal -> high"


def columns(
    events: Sequence[ev.Event], count: int, length_s: float, known_s: float = float("inf")
) -> list[ActivityColumn | None]:
    """Of these events."""
    world = world_of(BEGAN, None)
    seconds = Seconds(world, 0.0)
    overview = Overview()
    for number, event in enumerate(events):
        if event.at >= seconds.closes_at:
            seconds.close(event.at)
        world.apply(event)
        if type(event) in COUNTED:
            seconds.count(event)
        if number % 2:
            overview.add(seconds.take())
    overview.add(seconds.take())
    return overview.columns(count, length_s, known_s)


def test_columns_tell_how_much_went_on() -> None:
    """In flight, waiting, the level, errors and grants; where nothing happened it stands as it stood."""
    found = columns(
        [
            arrived(1),
            arrived(2, "ben"),
            sampled(0.1, state(4.0)),
            granted(1, at=1.0),
            failed(None, at=6.0),
            granted(2, "ben", at=6.5),
            finished(2, "ben", at=9.0),
        ],
        5,
        10.0,
    )
    assert found == [
        ActivityColumn(1, 2, 4.0, 0, 1),
        ActivityColumn(1, 1, 4.0, 0, 0),
        ActivityColumn(1, 1, 4.0, 0, 0),
        ActivityColumn(1, 0, 4.0, 1, 1),
        ActivityColumn(0, 0, 4.0, 0, 0),
    ]


def test_what_was_not_read_yet_has_no_columns() -> None:
    """From there on."""
    assert columns([arrived(1)], 4, 8.0, 4.0)[2:] == [None, None]
    assert columns([], 3, 0.0, 0.0) == [None, None, None]
    assert columns([], 0, 1.0) == []


def test_a_long_journal_takes_no_more_memory() -> None:
    """Its pieces get longer; nothing is lost of what was counted."""
    overview = Overview()
    for second in range(0, 5 * ROWS_KEPT, 10):
        overview.add([(second + number, number, 1, 2.0, 1, number) for number in range(10)])
    assert len(overview._rows) <= ROWS_KEPT
    found = [column for column in overview.columns(100, 5.0 * ROWS_KEPT, float("inf")) if column is not None]
    assert len(found) == 100
    assert sum(column.errors for column in found) == 5 * ROWS_KEPT
    assert sum(column.grants for column in found) == 45 * ROWS_KEPT // 2
    assert {column.active for column in found} == {9}
