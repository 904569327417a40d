"""A journal that is looked at at any moment."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from random import Random

import pytest
from journal.played import BEGAN, NAME, folded, indexed, journal, moments, opened, snapshots, some
from msgspec.structs import replace
from world.histories import price

from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.files import part_path
from hivemind.journal.index import builder as indexing
from hivemind.journal.index import index_state as starts
from hivemind.journal.index import player as player_module
from hivemind.journal.index.player import Player
from hivemind.journal.records import Gap, RequestBody
from hivemind.scheduler import events as ev

pytestmark = pytest.mark.e2e
Play = Callable[..., Player]


@pytest.fixture
def play() -> Iterator[Play]:
    """Opens a journal with the index that there is, and closes it when the test is over."""
    with ExitStack() as stack:
        yield lambda path, *, priced=False: stack.enter_context(closing(opened(path, priced=priced)))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for large journals is done for small ones."""
    monkeypatch.setattr(indexing, "EVENTS_APART", 150)
    monkeypatch.setattr(indexing, "_LOOKED_EVERY", 10)
    monkeypatch.setattr(indexing, "_SHARE", 0)
    monkeypatch.setattr(starts, "TAIL", 60_000)
    monkeypatch.setattr(starts, "WARM_EVENTS", 200)


@pytest.mark.parametrize(
    ("parts", "priced"), [(3, True), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, False), (1, True)))]
)
def test_every_moment_is_as_if_all_had_been_folded_from_the_start(
    tmp_path: Path, parts: int, priced: bool, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There and back, with an index, in one part or several, with prices and without."""
    for module in (indexing, player_module):
        monkeypatch.setattr(module, "prices_at", lambda _: price)
    path = indexed(journal(tmp_path, some(), parts), priced=priced)
    player = play(path, priced=priced)
    assert player.known_to == 1
    order = [*moments(some()), *Random(1).choices(list(moments(some())), k=8)]
    expected = snapshots(path, order, price if priced else None)
    for at in order:
        player.seek(at)
        assert player.at == at
        assert not player.approximate
        assert player.world.snapshot(at) == expected[at]


def test_without_an_index_the_beginning_is_exact(tmp_path: Path, play: Play) -> None:
    """As is whatever is quickly folded."""
    path = journal(tmp_path, some(count=60))
    player = play(path)
    for at in moments(some(count=60)):
        player.seek(at)
        assert not player.approximate
        assert player.world.snapshot(at) == folded(path, at).snapshot(at)


@pytest.mark.parametrize("parts", [1, 3])
def test_without_an_index_a_late_moment_is_made_of_what_was_shortly_before(
    tmp_path: Path, parts: int, play: Play
) -> None:
    """It says so; gauges, log and requests are there all the same, and nothing that is over seems to go on."""
    path = journal(tmp_path, some(), parts)
    player = play(path)
    at = some()[-1].at - 20.0
    player.seek(at)
    assert player.approximate
    shown, whole = player.world.snapshot(at), folded(path, at).snapshot(at)
    assert shown.lanes[0].state == whole.lanes[0].state
    assert shown.lines[-3:] == whole.lines[-3:]
    known = {ticket.ticket for ticket in (*whole.slots, *whole.queue)}
    assert {ticket.ticket for ticket in (*shown.slots, *shown.queue)} <= known
    assert shown.agents


def test_what_was_approximate_becomes_exact_once_it_is_read_through(tmp_path: Path, play: Play) -> None:
    """Without anybody's seeking anew."""
    path = journal(tmp_path, some())
    player = play(path)
    at = some()[-1].at - 20.0
    player.seek(at)
    assert (player.approximate, player.known_to, player.overview(4)) == (True, 0.0, [None] * 4)
    indexed(path)
    assert player.look()
    assert (player.approximate, player.known_to, player.at) == (False, 1.0, at)
    assert player.world.snapshot(at) == folded(path, at).snapshot(at)
    assert None not in player.overview(4)
    assert not player.look()


def test_going_on_in_pieces_comes_to_the_same(tmp_path: Path) -> None:
    """No piece takes longer than it may by more than a few events, and time never goes back."""
    path = journal(tmp_path, some(count=400))
    ticks = count()
    end, reached, pieces = some(count=400)[-1].at, 0.0, 0
    with closing(Player(path, indexed=False, clock=lambda: float(next(ticks)))) as player:
        while reached < end:
            before, reached = reached, player.advance(end, 1.0)
            assert before <= reached <= end
            pieces += 1
        assert player.world.snapshot(end) == folded(path, end).snapshot(end)
    assert pieces > 2


def test_the_requests_of_lately_are_known_after_a_seek(tmp_path: Path, play: Play) -> None:
    """Those that something happened to within the last events, whichever way one came."""
    path = indexed(journal(tmp_path, some()))
    player = play(path)
    at = some()[-1].at
    lately = [event for event in some() if event.at <= at][-100:]
    player.seek(at)
    page = player.world.requests(0, at)
    seen = {each.ticket for each in page.changed}
    while page.changed:
        page = player.world.requests(page.revision, at)
        seen |= {each.ticket for each in page.changed}
    assert {event.ticket for event in lately if isinstance(event, ev.Finished | ev.Granted)} <= seen


def test_marks_are_in_order(tmp_path: Path, play: Play) -> None:
    """The marks of all blocks follow each other by time."""
    marks = list(play(indexed(journal(tmp_path, some()))).marks)
    assert marks
    assert [mark.at for mark in marks] == sorted(mark.at for mark in marks)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A journal of which half is written, by somebody who holds it, and the lines of the other half."""
    events = some(count=600)
    half = len(events) // 2
    path = journal(tmp_path, events[:half], ended=False)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield path, [line_of(event) for event in events[half:]]


def test_one_that_is_being_written_is_followed(live: tuple[Path, list[bytes]], play: Play) -> None:
    """Its end moves on; half a line is no error, and is taken when it is whole."""
    path, lines = live
    events = some(count=600)
    half = len(events) // 2
    player = play(path)
    assert (player.growing, player.ends_at) == (True, events[half - 1].at)
    player.seek(player.ends_at)
    with path.open("ab") as file:
        file.write(lines[0] + lines[1][:20])
    assert player.look()
    assert player.advance(player.ends_at, 9.0) == player.ends_at
    assert player.damage == ()
    with path.open("ab") as file:
        file.write(lines[1][20:] + b"".join(lines[2:]))
    assert player.look()
    end = events[-1].at
    assert player.ends_at == end
    assert player.advance(end, 9.0) == end
    assert player.world.snapshot(end) == folded(path, end).snapshot(end)


def test_a_new_part_is_come_upon(tmp_path: Path, play: Play) -> None:
    """While one plays towards it."""
    events = some(count=600)
    path = journal(tmp_path, events, 2)
    second = part_path(tmp_path, NAME, 2)
    hidden = second.rename(tmp_path / "elsewhere")
    player = play(path)
    player.seek(player.ends_at)
    hidden.rename(second)
    assert player.look()
    assert player.ends_at == events[-1].at
    player.advance(player.ends_at, 9.0)
    assert player.world.snapshot(player.at) == folded(path, player.at).snapshot(player.at)


def test_what_is_wrong_is_told(tmp_path: Path, play: Play) -> None:
    """Gaps, lines that can't be read and a torn end, once it is read through; it plays all the same."""
    events = list(some(count=200))
    path = journal(tmp_path, [*events, Gap(events[-1].at, 3.0, 12, "the disk was full")], ended=False)
    with path.open("ab") as file:
        file.write(b"rubbish\n" + line_of(events[-1])[:30])
    player = play(indexed(path))
    told = " ".join(player.damage)
    assert "12 events are missing" in told
    assert "1 line can't be read" in told
    assert "last line isn't whole" in told
    assert "gap" in {mark.kind for mark in player.marks}
    player.seek(events[-1].at)
    assert player.world.snapshot(events[-1].at).totals.requests


def test_an_event_that_makes_no_sense_is_left_out(tmp_path: Path, play: Play) -> None:
    """As a newer program might tell it, or somebody's editor."""
    nonsense = ev.Commanded(1.0, "you", "SetPriority", {"agent": "ann", "priority": "purple"})
    path = journal(tmp_path, ())
    with path.open("ab") as file:
        file.write(line_of(nonsense) + line_of(replace(some()[0], at=2.0)))
    player = play(indexed(path))
    player.seek(3.0)
    assert player.at == 3.0


def test_bodies_are_passed_over(tmp_path: Path, play: Play) -> None:
    """However long they are, and wherever a search by time happens to look."""
    body = RequestBody(4.0, 1, "POST", "/v1/messages", (), "x" * 400_000)
    events = [event for event in some(count=300) if event.at < 4] + [body]
    later = [event for event in some(count=300) if event.at >= 4]
    path = journal(tmp_path, ())
    path.write_bytes(line_of(BEGAN) + b"".join(line_of(event) for event in (*events, *later)))
    player = play(path)
    player.seek(later[-1].at)
    assert player.world.snapshot(player.at).lanes
    assert player.ends_at == later[-1].at
    indexed(path)
    player.look()
    assert player.world.snapshot(player.at) == folded(path, player.at).snapshot(player.at)


def test_one_part_plays_without_those_before(tmp_path: Path, play: Play) -> None:
    """It begins as it was carried over."""
    path = journal(tmp_path, some(), 3)
    whole = folded(path, some()[-1].at).snapshot(some()[-1].at)
    path.unlink()
    second = part_path(tmp_path, NAME, 2)
    player = play(indexed(second))
    assert player.began.part == 2
    player.seek(some()[-1].at)
    assert player.world.snapshot(player.at).agents == whole.agents
    assert "begins with part 2" in player.damage[0]


def test_what_is_no_journal_is_one_line(tmp_path: Path) -> None:
    """Before anything else is begun."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"hello\n")
    with pytest.raises(UsageError, match="isn't a journal"):
        Player(path)


def test_an_empty_run_has_one_moment(tmp_path: Path, play: Play) -> None:
    """Nothing happened, and nothing breaks."""
    player = play(indexed(journal(tmp_path, (), ended=False)))
    assert (player.begins_at, player.ends_at, player.at) == (0.0, 0.0, 0.0)
    player.seek(5.0)
    assert (player.world.snapshot(5.0).agents, player.marks, player.known_to) == ((), [], 1.0)
