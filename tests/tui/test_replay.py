"""A recording as a source: the world at the moment shown, moved on in pieces, sought and never steered."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from msgspec import structs
from tui.decks import AT, LANE, LENGTH_S, Deck, recording
from tui.worlds import world

from hivemind.journal.index.player import Player
from hivemind.journal.records import JournalBegan
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import PauseAdmissions, Rejected
from hivemind.settings.write import Draft
from hivemind_tui.sources.replay import ReplaySource, recounted
from hivemind_tui.state.view import View, ViewBuilder


class Clock:
    """Time that a test moves on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def source(deck: Deck | None = None) -> tuple[ReplaySource, Deck, Clock]:
    deck, clock = deck or Deck(recording()), Clock()
    return ReplaySource(cast(Player, deck), "journal", clock), deck, clock


def settled(recorded: ReplaySource) -> None:
    """All that is to be done is done."""
    for _ in range(1000):
        if not recorded.turn():
            return
    raise AssertionError("it never settles")


def played(recorded: ReplaySource, clock: Clock, seconds: float, frame_s: float = 0.05) -> None:
    for _ in range(round(seconds / frame_s)):
        clock.now_s += frame_s
        settled(recorded)


def test_played_it_is_what_happened() -> None:
    """After twelve seconds of playing the second round of requests has come; at four times the speed, the fifth."""
    recorded, _, clock = source()
    recorded.play()
    played(recorded, clock, 12)
    assert recorded.snapshot().totals.requests == 6
    recorded.transport.change_speed(2)
    played(recorded, clock, 8)
    assert recorded.snapshot().totals.requests == 15
    assert recorded.snapshot().at == recorded.playback().at


def test_between_two_gauges_the_counts_are_those_of_the_requests() -> None:
    """What was last measured is up to a second old; what flies and waits is known at every moment."""
    recorded, _, _ = source()
    moments = [event for event in recording() if isinstance(event, ev.Arrived | ev.Granted) and event.at > AT + 5]
    assert len(moments) > 20
    for event in moments:
        recorded.go(event.at)
        settled(recorded)
        snapshot = recorded.snapshot()
        assert snapshot.lanes
        assert sum(lane.state.active for lane in snapshot.lanes) == len(snapshot.slots)
        assert sum(lane.state.waiting + lane.state.retrying for lane in snapshot.lanes) == snapshot.queued
    whole = world()
    assert recounted(replace(whole, queued=len(whole.queue) + 5)).lanes[0].state.waiting == whole.lanes[0].state.waiting


def test_events_are_never_skipped() -> None:
    """At 64 times the speed, with frames half a second apart, each is folded all the same."""
    recorded, deck, clock = source()
    recorded.transport.change_speed(99)
    recorded.play()
    played(recorded, clock, 5, frame_s=0.5)
    snapshot = recorded.snapshot()
    assert (snapshot.totals.requests, snapshot.totals.failed) == (36, 1)
    assert recorded.playback().at_end
    assert not recorded.playback().playing
    assert deck.seeks == [AT, AT]


class Slow(Deck):
    """One that folds a second of the recording at a time, and no more."""

    def advance(self, to_at: float, budget_s: float) -> float:
        """As the real one, where much happened."""
        if budget_s == 0.0:
            return super().advance(to_at, budget_s)
        self.reached = min(to_at, getattr(self, "reached", AT) + 1.0)
        super().advance(self.reached, budget_s)
        return self.reached


def test_time_waits_for_what_must_be_folded() -> None:
    """Where there is more than can be folded in time, the clock goes slower, and what is shown belongs to it."""
    recorded, deck, clock = source(Slow(recording()))
    recorded.transport.change_speed(99)
    recorded.play()
    clock.now_s = 0.05
    recorded.turn()
    clock.now_s = 0.1
    assert recorded.turn()
    assert recorded.playback().at == AT + 1.0
    assert recorded.snapshot().at == AT + 1.0
    assert deck.seeks == [AT, AT]


def test_a_seek_shows_that_moment() -> None:
    """Forward and back; of several wishes in a row only the last is met."""
    recorded, deck, _ = source()
    for at in (AT + 30, AT + 60, AT + 90.5):
        recorded.go(at)
    settled(recorded)
    assert deck.seeks[-2:] == [AT, AT + 90.5]
    assert recorded.snapshot().totals.requests == 27
    recorded.go(AT + 12)
    assert recorded.playback().at == AT + 12
    settled(recorded)
    assert recorded.snapshot().totals.requests == 6


def test_a_loop_seeks_back() -> None:
    """What is played over and over is the same each time."""
    recorded, deck, clock = source()
    recorded.go(AT + 20)
    settled(recorded)
    recorded.transport.set_loop(0)
    recorded.go(AT + 22)
    settled(recorded)
    recorded.transport.set_loop(1)
    recorded.go(AT + 20)
    recorded.play()
    played(recorded, clock, 5)
    assert AT + 20 <= recorded.playback().at <= AT + 22
    assert deck.seeks.count(AT + 20) == 4
    assert recorded.snapshot().totals.requests in (6, 9)


def test_marks_are_gone_to_by_their_kinds() -> None:
    """The next one, or the one before of a kind."""
    recorded, _, _ = source()
    found = []
    while (mark := recorded.mark(1)) is not None:
        found.append(mark.kind)
        recorded.go(mark.at)
    assert found == ["cut", "command", "command", "failed", "rate_limited", "cut"]
    before = recorded.mark(-1, "failed")
    assert before is not None
    assert before.kind == "failed"
    assert recorded.playback().mark_count == 6


def test_many_marks_are_few_to_draw() -> None:
    """However many there are, a screen gets no more than it can tell apart."""
    events = recording()
    events[-1:-1] = [ev.LevelChanged(AT + 100 + n / 1e4, LANE, 1.0, "server_error") for n in range(5000)]
    recorded, _, _ = source(Deck(events))
    assert recorded.playback().mark_count == 5006
    assert len(recorded.playback().marks) < 20


def test_one_that_is_being_written_is_followed() -> None:
    """By whoever plays up to its end: what comes is shown from then on, until space stops that, or the proxy has
    ended."""
    recorded, deck, clock = source(Deck(recording(), growing=True))
    recorded.go(AT + LENGTH_S - 1)
    settled(recorded)
    assert recorded.play()
    played(recorded, clock, 2)
    assert recorded.playback().following
    assert not recorded.playback().playing
    deck.grow(ev.Commanded(AT + LENGTH_S + 7, "you", "PauseAdmissions", {"paused": True}))
    played(recorded, clock, 1)
    assert recorded.playback().at == AT + LENGTH_S + 7
    assert recorded.snapshot().mode == "paused"
    assert not recorded.play()
    deck.grow(ev.Commanded(AT + LENGTH_S + 9, "you", "PauseAdmissions", {"paused": False}))
    played(recorded, clock, 1)
    assert (recorded.playback().at, recorded.playback().following) == (AT + LENGTH_S + 7, False)
    assert recorded.playback().ends_at == AT + LENGTH_S + 9
    recorded.follow()
    assert recorded.playback().following
    deck.growing = False
    assert not recorded.playback().following


def test_it_plays_to_the_next_mark_and_stops() -> None:
    """What it came upon is told; there it can be done again, and behind the last mark it can't."""
    recorded, _, clock = source()
    marks = list(recorded.playback().marks)
    recorded.transport.change_speed(99)
    for mark in marks[:2]:
        recorded.play_to_mark(mark.kind)
        assert recorded.transport.playing
        played(recorded, clock, 3)
        playback = recorded.playback()
        assert (playback.at, playback.playing, playback.note_kind) == (mark.at, False, mark.kind)
        assert mark.text in playback.note
        assert recorded.snapshot().at == mark.at
    recorded.go(AT + LENGTH_S)
    settled(recorded)
    recorded.play_to_mark("cut")
    assert not recorded.transport.playing


def test_another_wish_ends_playing_to_a_mark() -> None:
    """Whoever goes elsewhere, or stops and plays on, isn't stopped by it."""
    recorded, _, clock = source()
    mark = recorded.playback().marks[0]
    recorded.play_to_mark(mark.kind)
    recorded.play()
    recorded.play()
    played(recorded, clock, mark.at - AT + 1)
    assert recorded.playback().playing
    assert recorded.playback().at > mark.at


def test_requests_follow_the_moment() -> None:
    """After a seek whoever collects requests begins anew; going on, only what changed is told."""
    recorded, _, clock = source()
    recorded.go(AT + 35)
    settled(recorded)
    gatherer, view = ViewBuilder(), View(recorded.snapshot(), trail=("requests",))
    view = gatherer.look(view, recorded)
    assert len(view.requests) == 12
    recorded.go(AT + 5)
    settled(recorded)
    view = gatherer.look(view, recorded)
    assert [request.ticket for request in view.requests] == [3, 2, 1]
    recorded.play()
    played(recorded, clock, 10)
    assert len(gatherer.look(view, recorded).requests) == 6


async def test_a_recording_is_not_steered() -> None:
    """Commands, drafts and writing are refused in one line, and the details of a request are there."""
    recorded, _, _ = source()
    recorded.go(AT + 20)
    settled(recorded)
    detail = await recorded.detail(1)
    assert detail is not None
    assert detail.view.agent == "alice"
    with pytest.raises(Rejected, match="can't be steered"):
        await recorded.apply(PauseAdmissions(True))
    with pytest.raises(Rejected, match="can't be steered"):
        await recorded.draft({})
    with pytest.raises(Rejected, match="can't be steered"):
        await recorded.write(Draft(Path("hivemind.toml"), "", ""))


async def test_headers_are_those_of_the_moment() -> None:
    """With bodies recorded, a request shows what was sent, and what was answered once it was."""
    events = recording()
    assert isinstance(events[0], JournalBegan)
    events[0] = structs.replace(events[0], bodies=True)
    recorded, _, _ = source(Deck(events))
    first = next(event for event in events if isinstance(event, ev.Arrived))
    recorded.go(first.at)
    settled(recorded)
    detail = await recorded.detail(first.ticket)
    assert detail is not None
    assert (detail.method, detail.path, detail.response_headers) == ("POST", "/v1/messages", ())
    recorded.go(AT + LENGTH_S)
    settled(recorded)
    detail = await recorded.detail(first.ticket)
    assert detail is not None
    assert detail.response_headers == (("x-answers", "1"),)
    assert detail.view.over
