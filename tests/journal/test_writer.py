"""The thread that writes a journal, before disks that refuse."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from journal.disks import Disk, until

from hivemind.journal.write.writer import DeferredLines, NewPart, Writer

PATH = Path("a.jsonl")


def writing(disk: Disk, tidied: list[Path] | None = None) -> Writer:
    seen: list[Path] = [] if tidied is None else tidied
    return Writer(disk.open(PATH), tidy=seen.append, open_part=disk.open, retry_s=0.001)


def test_everything_in_order() -> None:
    """Lines, lines that are still to be made and new parts come out as they went in; none is left at the end."""
    disk, tidied = Disk(), list[Path]()
    writer = writing(disk, tidied)
    writer.put(b"1\n2\n")
    writer.put(DeferredLines(lambda: b"3\n", 1000))
    writer.put(NewPart(Path("b.jsonl"), b"head\n"))
    writer.put(b"4\n")
    assert writer.close() == 0
    assert disk.sheets == {"a.jsonl": b"1\n2\n3\n", "b.jsonl": b"head\n4\n"}
    assert tidied == [Path("a.jsonl"), Path("b.jsonl")]
    assert (writer.waiting, writer.written, writer.path) == (0, 13, Path("b.jsonl"))


async def test_a_full_disk() -> None:
    """What was refused is tried again, from the first line that isn't there, and what came meanwhile follows it."""
    disk = Disk()
    disk.room = 5
    writer = writing(disk)
    writer.put(b"one\ntwo\n")
    await until(lambda: writer.error)
    writer.put(DeferredLines(lambda: b"three\n", 6))
    assert (writer.waiting, disk.sheets["a.jsonl"]) == (10, b"one\n")
    disk.room = 8
    await until(lambda: disk.sheets["a.jsonl"] == b"one\ntwo\n" and writer.error)
    disk.room = None
    await until(lambda: writer.error is None)
    assert writer.close() == 0
    assert disk.sheets["a.jsonl"] == b"one\ntwo\nthree\n"


async def test_a_new_part_that_cannot_be_made() -> None:
    """It is tried again, and nothing goes to the old one; if only its first line didn't fit, it isn't made twice."""
    disk = Disk()
    writer = writing(disk)
    disk.opens = False
    writer.put(NewPart(Path("b.jsonl"), b"head\nmore\n"))
    writer.put(b"1\n")
    await until(lambda: disk.tries > 2)
    disk.room, disk.opens = 5, True
    await until(lambda: disk.room == 0 and writer.error)
    disk.room = None
    assert writer.close() == 0
    assert disk.sheets == {"a.jsonl": b"", "b.jsonl": b"head\nmore\n1\n"}


async def test_a_file_that_was_removed() -> None:
    """What waits is given up and counted; a new part is begun at once, and goes on."""
    disk = Disk()
    writer = Writer(disk.open(PATH), tidy=lambda _: None, open_part=disk.open, retry_s=1000)
    disk.gone = True
    writer.put(b"1\n2\n")
    writer.put(DeferredLines(lambda: b"3\n", 10))
    await until(lambda: writer.closed)
    assert writer.give_up() == 3
    assert writer.waiting == 0
    writer.put(NewPart(Path("b.jsonl"), b"head\n"))
    await until(lambda: disk.sheets.get("b.jsonl") == b"head\n" and writer.error is None)
    assert writer.close() == 0


async def test_a_file_that_was_removed_before_the_next_began() -> None:
    """What stands before the part that waits is given up and counted, and that part is begun at once."""
    disk = Disk()
    writer = Writer(disk.open(PATH), tidy=lambda _: None, open_part=disk.open, retry_s=1000)
    disk.gate.clear()
    disk.gone = True
    for item in (b"1\n2\n", DeferredLines(lambda: b"3\n", 10), NewPart(Path("b.jsonl"), b"head\n"), b"4\n"):
        writer.put(item)
    disk.gate.set()
    await until(lambda: writer.closed)
    assert writer.skip_to_part() == 3
    await until(lambda: disk.sheets.get("b.jsonl") == b"head\n4\n" and writer.error is None)
    assert (writer.waiting, writer.skip_to_part(), writer.close()) == (0, None, 0)


def test_the_end_on_a_full_disk() -> None:
    """It is tried once more, and told how many lines are lost."""
    disk = Disk()
    disk.room = 0
    writer = writing(disk)
    writer.put(b"1\n2\n")
    assert writer.close() == 2


def test_a_line_that_cannot_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and those after it are written."""
    disk = Disk()
    writer = writing(disk)
    writer.put(DeferredLines(lambda: bytes(1 // 0), 1))
    writer.put(b"1\n")
    assert writer.close() == 0
    assert disk.sheets["a.jsonl"] == b"1\n"
    assert [each.levelno for each in caplog.records] == [logging.ERROR]


def test_tidying_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and writing goes on."""
    disk = Disk()

    def fail(path: Path) -> None:
        raise ValueError(path)

    writer = Writer(disk.open(PATH), tidy=fail, open_part=disk.open)
    writer.put(b"1\n")
    assert writer.close() == 0
    assert disk.sheets["a.jsonl"] == b"1\n"
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
