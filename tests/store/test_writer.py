"""The thread that writes, before a disk that refuses."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from store.records import agent, batch, run, task
from waiting import until

from hivemind.store import schema
from hivemind.store.schema import SavedBatch
from hivemind.store.store import Store


class Disk:
    """Takes batches, or doesn't."""

    def __init__(self) -> None:
        self.written: list[SavedBatch] = []
        self.tries = 0
        self.full = False
        self.gate = threading.Event()
        self.gate.set()

    def write(self, _connection: sqlite3.Connection, wanted: SavedBatch) -> None:
        self.gate.wait()
        self.tries += 1
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        self.written.append(wanted)


On = Callable[..., Store]


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> On:
    """Make a store that writes to a disk."""

    def made(disk: Disk, retry_s: float = 1.0) -> Store:
        monkeypatch.setattr(schema, "write", disk.write)
        store = Store(tmp_path / "proxy-1.db", 0.0, retry_s=retry_s)
        store.start()
        return store

    return made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_settled(on: On) -> None:
    """What was put before is written when it returns, and asking again costs no write."""
    disk = Disk()
    writer = on(disk)
    writer.put(batch(agent(tokens=1)))
    await writer.settled()
    assert [each.agents["a"] for each in disk.written] == [agent(tokens=1)]
    await asyncio.gather(writer.settled(), writer.settled())
    assert disk.tries == 1
    writer.close(clean=False)
    assert disk.tries == 1


async def test_what_waits_is_merged(on: On) -> None:
    """However much comes while the disk is busy, it is one batch, with the last record of each."""
    disk = Disk()
    disk.gate.clear()
    writer = on(disk)
    writer.put(batch(agent("first")))
    for tokens in range(100):
        writer.put(
            SavedBatch({"a": agent(tokens=tokens)}, {"a": 1.0 * tokens}, {"t": task("t")}, runs={tokens: run(tokens)})
        )
    writer.put(SavedBatch(tasks={"t": None}, day="d", wall=7.0))
    disk.gate.set()
    await writer.settled()
    merged = disk.written[-1]
    for each in reversed(disk.written[:-1]):
        merged = merged.over(each)
    assert len(disk.written) <= 2
    assert (merged.agents["a"], merged.seen["a"], merged.tasks) == (agent(tokens=99), 99.0, {"t": None})
    assert (len(merged.runs), merged.day, merged.wall) == (100, "d", 7.0)
    writer.close(clean=False)


async def test_a_full_disk(on: On, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, tried again and again, and nothing is lost: what failed goes with what came since. The good end
    is told too."""
    disk = Disk()
    disk.full = True
    writer = on(disk, retry_s=0.001)
    writer.put(batch(agent("a", 1), agent("b", 2)))
    await writer.settled()
    writer.put(batch(agent("a", 3)))
    await writer.settled()
    await until(lambda: disk.tries >= 5)
    assert len(told(caplog)) == 1
    assert f"can't be written to {writer.path} (database or disk is full)" in told(caplog)[0]
    disk.full = False
    await until(lambda: disk.written)
    await writer.settled()
    assert {name: each.own.ever.tokens for name, each in disk.written[0].agents.items()} == {"a": 3, "b": 2}
    assert len(disk.written) == 1
    assert told(caplog)[1:] == [f"usage and tasks are written to {writer.path} again"]
    writer.close(clean=True)
    assert disk.written[1].clean


async def test_the_end(on: On, caplog: pytest.LogCaptureFixture) -> None:
    """What is left is written with the word that the run has ended; a disk that refuses to the last is told of."""
    disk = Disk()
    writer = on(disk)
    writer.put(batch(agent()))
    writer.close(clean=True)
    assert disk.written[-1].clean
    disk.full = True
    writer = on(disk)
    writer.put(batch(agent()))
    writer.close(clean=True)
    assert told(caplog)[-1] == f"the last changes couldn't be written to {writer.path}"
    writer._connection.close()


def test_whoever_waited_on_a_loop_that_is_gone(on: On) -> None:
    """It doesn't matter to the thread."""
    disk = Disk()
    disk.gate.clear()
    writer = on(disk)

    async def ask() -> None:
        writer.put(batch(agent()))
        asyncio.create_task(writer.settled())  # noqa: RUF006 - it is never heard of again
        await asyncio.sleep(0)

    asyncio.run(ask())
    disk.gate.set()
    writer.close(clean=False)
    assert len(disk.written) == 1
