"""Looking back: spans of curves, and costs by agent, model and tree, from the journal of a proxy or of a replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from journal.lines import LANE, began, opened, written
from journal.test_past import day, prices
from textual.pilot import Pilot
from tui.decks import AT, Deck, recording, write
from tui.kit import TERMINAL, piloted, press, room, said, screen, seen, wait_until, whole_screen
from tui.worlds import FakeSource, world

from hivemind.journal.index.player import Player
from hivemind.journal.past import SPANS, Past
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.world.lines import line_of
from hivemind.world.snapshot import RecordingView
from hivemind_tui.past.process import PastProcess
from hivemind_tui.past.protocol import Message, PastFailed, PastProgress, ReadPast
from hivemind_tui.past.worker import Worker
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.replay import ReplaySource

pytestmark = pytest.mark.e2e
HOUR_S = 3600.0
WIDE, SMALL = (160, 45), (80, 24)


class Here(PastProcess):
    """Reads in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ReadPast] = []
        self._worker = Worker(lambda message: self._on_message(message), prices)

    async def ask(self, question: ReadPast, on_message: Callable[[Message], None]) -> None:
        self.asked.append(question)
        self._on_message = on_message
        self._worker.answer(question)


def proxy(path: Path, at: float) -> FakeSource:
    """One that writes this journal, as of a moment of it."""
    full = world()
    lane = replace(full.lanes[0], state=replace(full.lanes[0].state, lane=LANE))
    return FakeSource(replace(full, at=at, lanes=(lane,), recording=RecordingView(str(path), 1, 0, "")))


@asynccontextmanager
async def on_day(tmp_path: Path, size: tuple[int, int] = SMALL) -> AsyncIterator[tuple[Pilot[str], Here]]:
    """A room on a proxy that has run for 30 hours, with a request of another agent in each."""
    past = Here()
    async with screen(proxy(day(tmp_path), 29.9 * HOUR_S), size) as pilot:
        room(pilot).past = past
        yield pilot, past


@pytest.mark.parametrize(
    ("size", "keys"),
    [(WIDE, "8"), (SMALL, ": c o s t enter"), (SMALL, ": s p e n d enter"), (SMALL, ": l a s t space h o u r enter 8")],
)
async def test_the_cost_of_the_last_hour_is_some_keys_away(tmp_path: Path, size: tuple[int, int], keys: str) -> None:
    """By agent, sorted, with what it is the cost of; of what was used before nothing is shown."""
    async with on_day(tmp_path, size) as (pilot, _):
        await press(pilot, keys, until=lambda: "agent-29" in seen(pilot, "costs"))
        shown = seen(pilot, "costs")
        assert "Cost by agent" in shown
        assert "last 1 h" in shown
        assert "agent-28" not in shown
        assert "no price" in shown  # of that model none is known


SENTENCES: dict[str, tuple[str, str, str]] = {
    "last hour's cost by agent": ("cost", "1 h", "agent"),
    "cost by model today": ("cost", "today", "model"),
    "cost by tree since start": ("cost", "since start", "tree"),
    "spend by task family, 24 h": ("cost", "24 h", "tree"),
    "8 h": ("overview", "8 h", "agent"),
    "24h": ("overview", "24 h", "agent"),
    "last hour": ("overview", "1 h", "agent"),
    "today": ("cost", "today", "agent"),
}


async def test_sentences_lead_there(tmp_path: Path) -> None:
    """What the palette offers first shows the span, or the costs that are asked for."""
    async with on_day(tmp_path) as (pilot, _):
        fresh = room(pilot).view
        for sentence, expected in SENTENCES.items():
            room(pilot).go(fresh)
            keys = " ".join({" ": "space", "'": "apostrophe", ",": "comma"}.get(c, c) for c in sentence)
            await press(pilot, f": {keys} enter")
            view = room(pilot).view
            assert (view.page, view.back.span(view.page), view.back.by) == expected, sentence


@pytest.mark.slow
async def test_one_key_cycles_the_span_of_curves_and_another_the_groups(tmp_path: Path) -> None:
    """Curves and charts are of the span, which a small screen says before the vitals, and go back to what is in memory;
    the page of costs has a span of its own."""
    async with on_day(tmp_path, WIDE) as (pilot, past):
        before = seen(pilot, "curve")
        for span in ("1 h", "8 h", "24 h"):
            await press(pilot, "H", until=lambda span=span: f"last {span} ·" in seen(pilot, "curve"))  # type: ignore[misc]
            assert room(pilot).view.snapshot.vitals.step_s == cast(Past, room(pilot).view.back.answer).step_s
        await press(pilot, "H")
        assert seen(pilot, "curve") == before
        await pilot.resize_terminal(*SMALL)
        assert "last" not in seen(pilot, "vitals")
        await press(pilot, "H", until=lambda: " last 1 h  req" in seen(pilot, "vitals"))
        await press(pilot, "H H H")
        await pilot.resize_terminal(*WIDE)
        await press(pilot, "8 8 8", until=lambda: "Cost by tree" in seen(pilot, "costs"))
        for _ in SPANS:
            await press(pilot, "H")
        assert [question.span for question in past.asked[:3]] == ["1 h", "8 h", "24 h"]
        assert {question.span for question in past.asked} == {*SPANS}
        await press(pilot, "8 H", until=lambda: "agent-22" in seen(pilot, "costs"))  # 8 h
        await press(pilot, "j enter")
        assert room(pilot).view.page == "cost"  # the world has no such agent any more
        await press(pilot, "s s y")
        assert pilot.app.clipboard.split("\n")[0].startswith("agent,requests,input_tokens")
        assert len(pilot.app.clipboard.strip().split("\n")) == 9
        assert said(pilot)[-1].startswith("copied 9 lines")


async def test_changes_and_alerts_of_a_day_stay_in_the_log(tmp_path: Path) -> None:
    """However much has happened since; those of the last moments are there before the journal is read, and once."""
    hours = [
        ev.Commanded(4 * HOUR_S, "you", "AddNote", {"text": "long ago"}),
        ev.Commanded(10 * HOUR_S, "you", "AddNote", {"text": "this morning"}),
        ev.AlertRaised(20 * HOUR_S, 1, "died", "bob", "bob died"),
        ev.Commanded(29 * HOUR_S, "ann", "AddNote", {"text": "just now"}),
    ]
    source = proxy(written(tmp_path / "day.jsonl", [began(0.0), opened(0.0), *hours]), 29.9 * HOUR_S)
    memory = line_of(hours[3], 0.0)
    assert memory is not None
    source.become(replace(source.snapshot(), lines=(memory,)))
    async with screen(source, WIDE) as pilot:
        room(pilot).past = Here()
        await press(pilot, ": m y space c h a n g e s enter", until=lambda: "bob died" in seen(pilot, "log"))
        shown = seen(pilot, "log")
        assert "changes and alerts · last 24 h" in shown
        assert "this morning" in shown
        assert shown.count("just now") == 1
        assert "long ago" not in shown
        await press(pilot, "@severity")
        assert "bob died" not in seen(pilot, "log")


async def test_without_a_journal_one_line_says_how_to_have_one() -> None:
    """Where a span is asked for, and on the page of costs; what is in memory is shown as before."""
    async with screen(FakeSource(world()), SMALL) as pilot:
        await press(pilot, "H")
        (told,) = said(pilot)
        assert "journal.enabled" in told
        assert room(pilot).view.back.curves == "10 min"
        await press(pilot, "8", until=lambda: "journal.enabled" in seen(pilot, "costs"))


async def test_of_another_machines_journal_a_line_says_what_reads_it_there(tmp_path: Path) -> None:
    """By a command that there is."""
    source = proxy(tmp_path / "20261121-140000-8765.jsonl", HOUR_S)
    source.link = Link("attached", "http://there:8765")
    async with screen(source, SMALL) as pilot:
        await press(pilot, "H")
        assert said(pilot)[0].endswith("over there: hivemind-tui --replay 20261121-140000-8765")


async def test_progress_is_shown_and_another_span_ends_it(tmp_path: Path) -> None:
    """Reading goes on beside the screen; one that is of no use any more is cancelled."""
    ended = []

    class Slow(Here):
        async def ask(self, question: ReadPast, on_message: Callable[[Message], None]) -> None:
            if question.span != "1 h":
                await super().ask(question, on_message)
                return
            on_message(PastProgress(0.37))
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(question.span)

    async with screen(proxy(day(tmp_path), 29.9 * HOUR_S), SMALL) as pilot:
        room(pilot).past = Slow()
        await press(pilot, "8", until=lambda: "reading the journal, 37%" in seen(pilot, "costs"))
        await press(pilot, "H", until=lambda: "last 8 h" in seen(pilot, "costs"))
        assert ended == ["1 h"]


async def test_a_replay_has_costs_as_of_the_mark(tmp_path: Path) -> None:
    """They follow it, forward and back, and say nothing of what came later."""
    source = ReplaySource(cast(Player, Deck(recording())), "20261121-140000-8765", lambda: 0.0)
    source.journal = write(tmp_path)
    app = ReplayRoom(source, environment=TERMINAL)
    app.past = Here()
    async with piloted(app, WIDE) as pilot:
        await press(pilot, "8")
        for second, requests in ((115, 36), (25, 9), (95, 30)):
            app.recording.go(AT + second)
            app._moved()
            await wait_until(
                pilot,
                lambda n=requests: sum(cost.requests for cost in app.view.costs) == n,  # type: ignore[misc]
            )
            assert "Cost by agent" in whole_screen(pilot)


async def test_a_process_reads_and_says_why_it_cannot(tmp_path: Path) -> None:
    """A process of its own answers, also of a file that is no journal."""
    told: list[Message] = []
    process = PastProcess()
    try:
        await process.ask(ReadPast(str(day(tmp_path, 2)), "since start", 2 * HOUR_S), told.append)
        assert isinstance(told[-1], Past)
        assert len(told[-1].costs["agent"]) == 2
        (tmp_path / "rubbish.jsonl").write_bytes(b"rubbish")
        await process.ask(ReadPast(str(tmp_path / "rubbish.jsonl"), "1 h", 9.0), told.append)
        assert isinstance(told[-1], PastFailed)
        assert "isn't a journal" in told[-1].why
    finally:
        await process.aclose()
