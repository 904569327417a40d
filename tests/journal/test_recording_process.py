"""The real program and its journal: killed, ended, on a disk that is full for a while, beside another one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from control import processes
from journal.disks import mounted
from store.provider import Fleet, providing

from hivemind.journal.read.reader import Journal, open_journal
from hivemind.journal.records import Gap, JournalBegan, JournalEnded, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.store.locks import is_held
from hivemind.world.state import Carried
from hivemind.world.world import World

pytestmark = pytest.mark.e2e
NAMES = ("alice", "bob", "carol", "dave")


@dataclass
class Program(processes.Program):
    """A running `hivemind proxy`."""

    http: httpx.AsyncClient

    async def recording(self) -> dict[str, Any]:
        """What it says of its journal."""
        found: dict[str, Any] = (await self.http.get(f"{self.url}/_stats")).json()["recording"]
        return found

    async def says(self, text: str) -> None:
        """Wait for a warning about that."""
        assert self.process.stderr is not None
        while text not in (line := (await self.process.stderr.readline()).decode()):
            assert line


@contextlib.asynccontextmanager
async def program(upstream: str, state: Path, *flags: str) -> AsyncIterator[Program]:
    """Start it on a free port, and see to it that it is gone afterwards."""
    flags = ("--profile", "anthropic", "--rpm", "0", "--tpm", "0", *flags)
    async with (
        processes.program(state.parent, *flags, upstream=f"lab={upstream}") as started,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        yield Program(started.process, started.line, started.port, http)


def journals(state: Path) -> list[Path]:
    return sorted((state / "journals").iterdir())


def read(path: Path) -> tuple[Journal, list[ev.Event]]:
    journal = open_journal(path)
    return journal, list(journal.events())


async def test_kill(tmp_path: Path) -> None:
    """In the middle of its traffic: what happened a second before is there, and can be read; the next one has a journal
    of its own."""
    state = tmp_path / "state"
    async with providing() as (_, upstream):
        async with program(upstream, state) as running:
            fleet = Fleet(running.url, NAMES)
            async with fleet.at_work():
                await fleet.until(100)
                known = fleet.answers
                await asyncio.sleep(1.0)
                assert is_held(journals(state)[0])
                await running.kill()
        (path,) = journals(state)
        assert not is_held(path)
        journal, events = read(path)
        async with program(upstream, state) as running:
            await running.stop()
    finished = [event for event in events if isinstance(event, ev.Finished)]
    assert known <= len(finished)
    assert (journal.damage.ended, journal.damage.bad_lines, journal.damage.gaps) == (False, 0, 0)
    assert isinstance(events[0], JournalBegan)
    assert {event.agent for event in finished} == set(NAMES)
    assert len(journals(state)) == 2


async def test_parts(tmp_path: Path) -> None:
    """One after the other by age, each readable by itself; together they are everything."""
    state = tmp_path / "state"
    flags = ("--journal.max-hours", str(0.4 / 3600), "--record-bodies")
    async with providing() as (_, upstream), program(upstream, state, *flags) as running:
        fleet = Fleet(running.url, NAMES)
        async with fleet.at_work():
            while len(journals(state)) < 4:
                await fleet.until(fleet.answers + 5)
        await running.stop()
    first = min(journals(state), key=lambda path: len(path.name))
    journal, events = read(first)
    assert (len(journal.parts), journal.damage.messages()) == (len(journals(state)), [])
    asked = [event for event in events if isinstance(event, RequestBody)]
    assert len(asked) >= fleet.answers
    assert len([event for event in events if isinstance(event, ResponseBody)]) >= fleet.answers
    whole = World(at=0.0, wall=0.0, address="", upstreams=())
    for event in events:
        whole.apply(event)
    last = World(at=0.0, wall=0.0, address="", upstreams=())
    _, tail = read(journal.parts[-1])
    assert isinstance(tail[1], Carried)
    for event in tail:
        last.apply(event)
    assert last.snapshot(events[-1].at).totals == whole.snapshot(events[-1].at).totals


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    with mounted(tmp_path / "state" / "journals", "1m") as folder:
        yield folder


async def test_a_full_disk(tmp_path: Path, small: Path) -> None:
    """Traffic goes on, it is told once, nothing is lost that memory holds, and with room again the journal goes on."""
    async with providing() as (_, upstream), program(upstream, tmp_path / "state") as running:
        fleet = Fleet(running.url, NAMES)
        async with fleet.at_work():
            await fleet.until(10)
            with contextlib.suppress(OSError):
                (small / "ballast").write_bytes(b"x" * (2 << 20))
            await running.says("can't be written (No space left on device)")
            await fleet.until(fleet.answers + 40)
            told = await running.recording()
            assert told["failing"] == "No space left on device"
            (small / "ballast").unlink()
            await running.says("is written again")
            await fleet.until(fleet.answers + 10)
            assert (await running.recording())["failing"] == ""
        await running.stop()
    (path,) = journals(tmp_path / "state")
    journal, events = read(path)
    assert journal.damage.messages() == []
    assert len([event for event in events if isinstance(event, ev.Finished)]) >= fleet.answers
    assert [bool(event.why) for event in events if isinstance(event, ev.RecordingChanged)] == [True, False]
    assert not [event for event in events if isinstance(event, Gap)]


async def test_a_folder_that_is_removed(tmp_path: Path) -> None:
    """It is made again, and a part that can be read by itself goes on there."""
    state = tmp_path / "state"
    async with providing() as (_, upstream), program(upstream, state) as running:
        fleet = Fleet(running.url, NAMES)
        async with fleet.at_work():
            await fleet.until(10)
            (path,) = journals(state)
            path.parent.rename(tmp_path / "elsewhere")
            await running.says("is written again")
            await fleet.until(fleet.answers + 10)
        await running.stop()
    (path,) = journals(state)
    _, events = read(path)
    assert [type(event) for event in events[:3]] == [JournalBegan, Carried, Gap]
    assert isinstance(events[-1], JournalEnded)


async def test_two_at_once(tmp_path: Path) -> None:
    """Each has its own, and neither removes the other's, whatever the limits say."""
    state = tmp_path / "state"
    flags = ("--journal.keep-days", "0.0000001", "--journal.max-hours", str(0.3 / 3600))
    async with providing() as (_, upstream), program(upstream, state) as calm:
        async with program(upstream, state, *flags) as eager:
            fleets = [Fleet(each.url, NAMES[:2]) for each in (calm, eager)]
            async with fleets[0].at_work(), fleets[1].at_work():
                while ".3." not in (await eager.recording())["path"]:
                    await fleets[1].until(fleets[1].answers + 3)
                    await fleets[0].until(fleets[0].answers + 3)
            await eager.stop()
        told = await calm.recording()
        await calm.stop()
    journal, events = read(Path(told["path"]))
    assert journal.damage.messages() == []
    assert len([event for event in events if isinstance(event, ev.Finished)]) >= fleets[0].answers


async def test_switched_off(tmp_path: Path) -> None:
    """Then there is none, and no folder for it."""
    state = tmp_path / "state"
    async with providing() as (_, upstream), program(upstream, state, "--journal.enabled", "off") as running:
        assert await running.recording() is None
        await running.stop()
    assert not (state / "journals").exists()
