"""What happens, on its way to a disk that may be slow, full or gone."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from journal.disks import Disk, granted, numbers, wide
from msgspec import structs
from waiting import until

from hivemind.journal.codec import line_of
from hivemind.journal.records import Gap, JournalBegan, JournalEnded
from hivemind.journal.write import recorder as recording
from hivemind.journal.write.recorder import CHUNK, Recorder, RecorderLimits
from hivemind.journal.write.writer import DeferredLines, Writer
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority
from hivemind.world.state import Carried
from hivemind.world.world import World

NAME = "20261121-182341-8765"
FIRST = Path("journals", f"{NAME}.jsonl")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for more to come waits no longer than the loop's next round."""
    for name in ("EVERY_S", "IDLE_S", "HANDED_S"):
        monkeypatch.setattr(recording, name, 0.0)


class Run:
    """A recorder on a disk."""

    def __init__(self, *, max_bytes: int = 1 << 30, max_age_s: float = 1e9, waiting: int = 1 << 20) -> None:
        self.disk = Disk()
        self.writer = Writer(self.disk.open(FIRST), tidy=lambda _: None, open_part=self.disk.open, retry_s=0.001)
        self.told: list[ev.RecordingChanged] = []
        self.world = World(at=0.0, wall=1000.0, address="", upstreams=())
        self.recorder = Recorder(
            self.writer,
            JournalBegan(0.0, 1000.0, NAME, 1, "hivemind 0"),
            RecorderLimits(max_bytes, max_age_s, waiting),
            take=self.world.take,
            publish=self.tell,
            wall=lambda: 2000.0,
        )

    def tell(self, event: ev.Event) -> None:
        """As the engine does: it is recorded, too."""
        assert isinstance(event, ev.RecordingChanged)
        self.told.append(event)
        self.recorder.record([event])

    def happen(self, *events: ev.Event) -> None:
        """As the engine does: recorded, and then folded."""
        for event in events:
            self.recorder.record([event])
            self.world.apply(event)

    async def end(self) -> list[ev.Event]:
        """In good order; everything that stands in the files."""
        await self.recorder.aclose(99.0)
        return self.disk.events()


async def test_everything_in_order() -> None:
    """The first line says what it is, the last that it is the last, and what happened is between them, once."""
    run = Run()
    for number in range(1000):
        run.happen(granted(number))
        if number % 100 == 0:
            await asyncio.sleep(0)
    events = await run.end()
    assert isinstance(events[0], JournalBegan)
    assert isinstance(events[-1], JournalEnded)
    assert numbers(events) == list(range(1000))
    assert (len(events), run.told) == (1002, [])


async def test_soon_on_disk() -> None:
    """What happened is written soon, whether or not more happens."""
    run = Run()
    run.happen(granted(7))
    await until(lambda: numbers(run.disk.events()) == [7])
    view = run.recorder.view()
    assert (view.path, view.bytes) == (str(FIRST), len(run.disk.sheets[FIRST.name]))
    assert (view.lost, view.failing) == (0, "")
    await run.end()


async def test_a_slow_disk(caplog: pytest.LogCaptureFixture) -> None:
    """Memory is bounded: what doesn't fit is counted, and a line says so exactly where it would stand. It is told once,
    and once that it is over."""
    run = Run(waiting=20_000)
    await until(lambda: run.disk.events())
    run.disk.gate.clear()
    number = 0
    while not run.recorder.view().lost or number < 2000:
        run.happen(granted(number))
        number += 1
        assert run.writer.waiting <= 20_000
        if number % 50 == 0:
            await asyncio.sleep(0.0001)
    assert [each.why for each in run.told] == ["the disk is too slow"]
    assert run.recorder.view().failing == "the disk is too slow"
    run.disk.gate.set()
    await until(lambda: len(run.told) == 2)
    run.happen(granted(number))
    events = await run.end()
    gaps = [event for event in events if isinstance(event, Gap)]
    written = numbers(events)
    missing = sorted(set(range(number + 1)) - set(written))
    told_lost = sum(1 for each in run.told if each not in events)
    assert len(gaps) == 1
    assert gaps[0].lost == run.recorder.view().lost == len(missing) + told_lost
    assert missing == list(range(missing[0], missing[-1] + 1))
    place = events.index(gaps[0])
    assert (max(numbers(events[:place])), min(numbers(events[place:]))) == (missing[0] - 1, missing[-1] + 1)
    assert (run.told[1].why, run.told[1].lost) == ("", gaps[0].lost)
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 2


async def test_a_disk_that_is_full_for_a_while() -> None:
    """Nothing is lost of what memory has room for."""
    run = Run()
    await until(lambda: run.disk.events())
    run.disk.room = 100
    run.happen(*(granted(number) for number in range(100)))
    await until(lambda: run.told)
    assert run.told[0].why == "No space left on device"
    run.disk.room = None
    await until(lambda: len(run.told) == 2)
    events = await run.end()
    assert numbers(events) == list(range(100))
    assert (run.told[1].why, run.told[1].lost, run.recorder.view().lost) == ("", 0, 0)


async def test_a_new_part_by_size() -> None:
    """It begins when the one before is large enough; each can be read by itself, and gives the same world."""
    run = Run(max_bytes=20_000)
    for number in range(1000):
        run.happen(granted(number))
        if number % 20 == 0:
            await asyncio.sleep(0)
    events = await run.end()
    names = [f"{NAME}.jsonl", *(f"{NAME}.{part}.jsonl" for part in range(2, len(run.disk.sheets) + 1))]
    assert list(run.disk.sheets) == names
    assert len(names) > 3
    assert numbers(events) == list(range(1000))
    began = [event for event in events if isinstance(event, JournalBegan)]
    assert [(event.journal, event.part, event.wall) for event in began[:2]] == [(NAME, 1, 1000.0), (NAME, 2, 2000.0)]
    carried = [event for event in events if isinstance(event, Carried)]
    assert len(carried) == len(began) - 1
    assert all(20_000 < len(text) < 60_000 for text in list(run.disk.sheets.values())[:-1])


async def test_what_a_part_carries() -> None:
    """The world as it stood after the last event of the part before."""
    run = Run(max_bytes=1)
    arrived = ev.Arrived(1.0, 1, "alice", "lane", "model", "model", Priority.NORMAL, False, 1, 1)
    run.happen(arrived, granted(1, 1.0))
    await until(lambda: any(isinstance(event, Carried) for event in run.disk.events()))
    carried = next(event for event in run.disk.events() if isinstance(event, Carried))
    fresh = World(at=0.0, wall=1000.0, address="", upstreams=())
    fresh.apply(carried)
    assert fresh.snapshot(5.0).slots == run.world.snapshot(5.0).slots != ()
    await run.end()


async def test_what_waits_stands_before_a_new_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has happened by then is in the world that it begins with, and so not told again after it."""
    for name, value in (("HANDED_S", 1000.0), ("AT_ONCE", 1), ("CHUNK", 1000)):
        monkeypatch.setattr(recording, name, value)
    run = Run(max_bytes=1)
    run.happen(wide(2000), granted(1))
    await until(lambda: len(run.disk.sheets) == 2)
    run.happen(granted(2))
    await run.end()
    first, second = run.disk.sheets.values()
    assert (b'"ticket":1' in first, b'"ticket":1' in second) == (True, False)
    assert (b'"ticket":2' in first, b'"ticket":2' in second) == (False, True)


async def test_a_new_part_by_age() -> None:
    """It begins when the one before is old enough, but not after one in which nothing happened."""
    run = Run(max_age_s=0.0)
    run.recorder.record([granted(1)])
    await until(lambda: len(run.disk.sheets) == 2)
    run.recorder.record([granted(2)])
    await until(lambda: len(run.disk.sheets) == 3)
    assert numbers(await run.end()) == [1, 2]
    assert len(run.disk.sheets) == 3


async def test_a_file_that_is_removed() -> None:
    """A new part goes on, with how the world stands, and with what is missing."""
    run = Run()
    run.happen(granted(1))
    await until(lambda: numbers(run.disk.events()) == [1])
    run.disk.gone = True
    run.happen(granted(2), granted(3))
    await until(lambda: len(run.disk.sheets) == 2 and not run.recorder.view().failing and run.told)
    run.happen(granted(4))
    events = await run.end()
    second = events[events.index(next(event for event in events if isinstance(event, Carried))) :]
    gap = next(event for event in second if isinstance(event, Gap))
    assert (gap.lost >= 2, gap.why) == (True, "the file was removed")
    assert numbers(second)[-1] == 4


async def test_a_file_that_is_removed_when_the_next_is_due() -> None:
    """The part that waits behind what can't be written any more goes on, with what is missing."""
    run = Run(max_age_s=0.0)
    run.recorder.record([granted(1)])
    await until(lambda: len(run.disk.sheets) == 2)
    run.disk.gate.clear()
    run.disk.gone = True
    for number in (2, 3):
        run.recorder.record([granted(number)])
        before = run.recorder._began.part
        await until(lambda before=before: run.recorder._began.part > before)  # type: ignore[misc]
    run.disk.gate.set()
    await until(lambda: len(run.disk.sheets) >= 3 and not run.recorder.view().failing and run.told)
    run.happen(granted(4))
    events = await run.end()
    assert next(event for event in events if isinstance(event, Gap)).why == "the file was removed"
    assert numbers(events)[-1] == 4


async def test_what_was_missed_is_made_good() -> None:
    """After a gap stands how everything is by then: a request whose end was lost doesn't go on for ever."""
    run = Run(waiting=2_000)
    run.happen(ev.Arrived(1.0, 7, "ann", "l", "m", "m", Priority.NORMAL, True, 10, 20))
    await until(lambda: len(run.disk.events()) == 2)
    run.disk.gate.clear()
    while not run.recorder.view().lost:
        run.happen(granted(0))
        await asyncio.sleep(0)
    run.happen(ev.Finished(2.0, 7, "ann", "l", "m", 200, 1, None, 1.0))
    await asyncio.sleep(0)
    run.disk.gate.set()
    await until(lambda: any(isinstance(event, Carried) for event in run.disk.events()))
    events = await run.end()
    assert not any(isinstance(event, ev.Finished) for event in events)
    read = World(at=0.0, wall=1000.0, address="", upstreams=())
    for event in events:
        read.apply(event)
    assert run.world.snapshot(99.0).totals.finished == 1
    assert replace(read.snapshot(99.0), lines=()) == replace(run.world.snapshot(99.0), lines=())


async def test_no_more_reports_than_one_needs() -> None:
    """Of a stream about one a second, of the gauges too; where nothing changes, none."""
    run = Run()
    for tenth in range(100):
        at = tenth / 10
        run.happen(ev.Progress(at, 1, "a", "l", tenth), ev.Progress(at, 2, "a", "l", tenth))
        run.happen(ev.Sampled(at, (), (budget(tenth),)))
    for second in range(10, 130):
        run.happen(ev.Sampled(float(second), (), (budget(99),)))
    events = await run.end()
    progress = [event for event in events if isinstance(event, ev.Progress)]
    sampled = [event.at for event in events if isinstance(event, ev.Sampled)]
    assert [event.ticket for event in progress] == [1, 2] * 10
    assert len([at for at in sampled if at < 10]) == 10
    assert [at for at in sampled if at >= 10] == [10.0]


def budget(used: int) -> ev.BudgetState:
    return ev.BudgetState(None, 1000, None, "ever", "all", used, 0.0, 0)


async def test_an_event_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """It is left out, counted and logged once; those around it are there."""
    run = Run()
    run.recorder.record([granted(1)])
    for _ in range(3):
        run.recorder.record([structs.replace(granted(2), agent="\ud800")])
    run.recorder.record([granted(3)])
    assert numbers(await run.end()) == [1, 3]
    assert run.recorder.view().lost == 3
    assert [each.levelno for each in caplog.records] == [logging.ERROR]


async def test_lines_that_are_made_later() -> None:
    """They stand among the others, in order, unless there is no room for what they hold."""
    run = Run(waiting=10_000)
    for number in range(5):
        run.recorder.record([granted(2 * number)])
        run.recorder.later(0.0, DeferredLines(line(2 * number + 1), 100))
    await until(lambda: not run.writer.waiting)
    assert not run.recorder.has_room(10_001)
    run.recorder.later(0.0, DeferredLines(line(-1), 10_001))
    assert numbers(await run.end()) == list(range(10))
    assert run.recorder.view().lost == 1


async def test_lines_among_events_that_cannot_be_written() -> None:
    """They are there, in order, whatever is wrong with the events around them, or with one of themselves."""
    run = Run()
    run.recorder.record([granted(1)])
    run.recorder.later(0.0, DeferredLines(line(2), 100))
    run.recorder.record([structs.replace(granted(3), agent="\ud800"), granted(4)])
    run.recorder.later(0.0, DeferredLines(lambda: bytes(1 // 0), 100))
    run.recorder.later(0.0, DeferredLines(line(5), 100))
    assert numbers(await run.end()) == [1, 2, 4, 5]
    assert run.recorder.has_room(run.recorder._limits.waiting)


def line(number: int) -> Callable[[], bytes]:
    return lambda: line_of(granted(number))


@settings(max_examples=examples(40), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4_000), max_size=60),
    troubles=st.lists(st.sampled_from(["full", "slow", "fine", "round"]), max_size=60),
)
async def test_whatever_a_disk_does(sizes: list[int], troubles: list[str]) -> None:
    """What is written and what is told to be missing is everything, and memory is bounded."""
    run = Run(waiting=8_000, max_bytes=10_000)
    for size, trouble in itertools.zip_longest(sizes, troubles, fillvalue="fine"):
        if trouble == "full":
            run.disk.room = 300
        elif trouble == "slow":
            run.disk.gate.clear()
        elif trouble == "round":
            await asyncio.sleep(0.001)
        else:
            run.disk.room = None
            run.disk.gate.set()
        run.recorder.record([wide(size if isinstance(size, int) else 0)])
        await asyncio.sleep(0)
        assert run.writer.waiting <= 8_000 + CHUNK
    run.disk.room = None
    run.disk.gate.set()
    events = await run.end()
    released = sum(isinstance(event, ev.LaneReleased) for event in events)
    told = sum(isinstance(event, ev.RecordingChanged) for event in events)
    lost = sum(event.lost for event in events if isinstance(event, Gap))
    assert released + told + lost == max(len(sizes), len(troubles)) + len(run.told)
    assert run.recorder.view().lost == lost
