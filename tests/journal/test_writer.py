"""The thread that writes a journal, before disks that refuse."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from journal.disks import Disk

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
