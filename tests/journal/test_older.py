"""Lines of the log from before those in memory, read back from the journal's parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from world.kit import arrived, failed, finished

from hivemind.journal.codec import line_of as written
from hivemind.journal.read import older
from hivemind.journal.read.older import older_lines
from hivemind.journal.records import JournalBegan
from hivemind.scheduler.events import Event
from hivemind.world.lines import line_of
from hivemind.world.snapshot import Line

WALL = 1_000_000.0
NAME = "20261121-184341-8765"
FAILED = [failed(1.5, at=float(at), message=f"slow down {at}") for at in range(1, 700)]
TOLD = [line_of(event, event.at + WALL) for event in FAILED]


def part(path: Path, number: int, events: Iterable[Event]) -> Path:
    """Write a part of the journal, with requests between that no line tells of."""
    events = list(events)
    began = JournalBegan(events[0].at, events[0].at + WALL, NAME, number, "0", "http://127.0.0.1:1", ())
    lines: list[Event] = [began]
    for event in events:
        lines += [arrived(1, at=event.at), event, finished(1, at=event.at)]
    path.write_bytes(b"".join(map(written, lines)))
    return path


def read_back(path: Path, before: float) -> tuple[list[Line], int]:
    """Return all lines before a moment, and how often was read."""
    lines: list[Line] = []
    calls, reached = 0, before
    while True:
        found = older_lines(path, reached)
        lines[:0] = found.lines
        calls += 1
        if found.before is None:
            return lines, calls
        assert found.before < reached
        reached = found.before


@pytest.mark.parametrize("piece", [pytest.param(3000, marks=pytest.mark.slow), older.PIECE])
def test_every_line_is_read_once(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all parts, whatever the pieces cut through, in calls of a bounded length."""
    monkeypatch.setattr(older, "PIECE", piece)
    monkeypatch.setattr(older, "LINES_MOST", 50)
    first = part(tmp_path / f"{NAME}.jsonl", 1, FAILED[:300])
    last = part(tmp_path / f"{NAME}.2.jsonl", 2, FAILED[300:])
    for path in (first, last):
        lines, calls = read_back(path, 600.0)
        assert lines == TOLD[:599]
        assert calls >= 2
    assert read_back(last, math.inf)[0] == TOLD
    assert read_back(last, 0.5) == ([], 1)


def test_damage_is_left_out(tmp_path: Path) -> None:
    """A half-written line costs that line."""
    path = part(tmp_path / f"{NAME}.jsonl", 1, FAILED[:20])
    data = path.read_bytes().split(b"\n")
    data[5] = data[5][:40]
    path.write_bytes(b"\n".join(data) + b'{"v":1,"event":"AttemptFa')
    lines, _ = read_back(path, math.inf)
    assert [each for each in TOLD[:20] if each not in lines] == [TOLD[1]]
