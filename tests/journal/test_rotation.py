"""Which journals there are: names of new ones, and old ones that go."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from hivemind.journal.write.segment import JournalPart, Retention, begin, prune

WALL = 1_795_286_621.0
NAME = "20261121-184341-8765"
DAY_S = 86_400.0
PLENTY = Retention(14 * DAY_S, 1 << 30)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def file(folder: Path, name: str, days: float, size: int = 10) -> Path:
    """A part that was last written so many days ago."""
    path = folder / name
    path.write_bytes(b"x" * size)
    os.utime(path, (WALL - days * DAY_S,) * 2)
    return path


def test_names(tmp_path: Path) -> None:
    """By the moment (UTC) and the port; two that begin at once have two."""
    journals = [begin(tmp_path / "j", WALL, 8765) for _ in range(3)]
    assert [name for name, _ in journals] == [NAME, f"{NAME}-2", f"{NAME}-3"]
    assert left(tmp_path / "j") == [f"{NAME}-2.jsonl", f"{NAME}-3.jsonl", f"{NAME}.jsonl"]
    for name, part in journals:
        assert part.path.name == f"{name}.jsonl"
        assert stat.S_IMODE(part.path.stat().st_mode) == 0o600
        part.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """It is an error of the system's, which names the place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        begin(tmp_path / "file" / "journals", WALL, 1)


def test_a_file_where_the_folder_would_be(tmp_path: Path) -> None:
    """It is told as what it is."""
    (tmp_path / "journals").write_text("")
    with pytest.raises(NotADirectoryError, match="isn't a folder"):
        begin(tmp_path / "journals", WALL, 1)


def test_old_ones_go(tmp_path: Path) -> None:
    """With what was made of them, and empty ones that nobody has just made; other files aren't touched."""
    part = JournalPart(tmp_path / "new.jsonl")
    for name, days, size in (("empty.jsonl", 0.5, 0), ("made.jsonl", 0, 0), ("young.jsonl", 13, 10)):
        file(tmp_path, name, days, size)
    for name in ("old.jsonl", "old.2.jsonl", "old.jsonl.index", "notes.txt", "proxy-1.db"):
        file(tmp_path, name, 15)
    prune(part.path, PLENTY, lambda: WALL)
    assert left(tmp_path) == ["made.jsonl", "new.jsonl", "notes.txt", "proxy-1.db", "young.jsonl"]
    part.close()


def test_a_clock_that_is_years_ahead(tmp_path: Path) -> None:
    """It makes everything old, so the newest stay whatever their age, though no more of them than there is room for."""
    part = JournalPart(tmp_path / "new.jsonl")
    for days in (4, 3, 2, 1):
        file(tmp_path, f"d{days}.jsonl", days, 300)
    for room, kept in ((1 << 30, ["d1.jsonl", "d2.jsonl", "d3.jsonl"]), (600, ["d1.jsonl", "d2.jsonl"])):
        prune(part.path, Retention(14 * DAY_S, room, newest=3), lambda: WALL + 1_000 * DAY_S)
        assert left(tmp_path) == [*kept, "new.jsonl"]
    part.close()


def test_too_much_goes_oldest_first(tmp_path: Path) -> None:
    """Until the rest, with the one that is being written, is no more than may be."""
    part = JournalPart(tmp_path / "new.jsonl")
    part.append(b"x" * 299 + b"\n")
    for days in (4, 3, 2, 1):
        file(tmp_path, f"d{days}.jsonl", days, 300)
    prune(part.path, Retention(14 * DAY_S, 1000), lambda: WALL)
    assert left(tmp_path) == ["d1.jsonl", "d2.jsonl", "new.jsonl"]
    part.close()


def test_what_is_written_stays(tmp_path: Path) -> None:
    """Neither the part that is being written goes, nor anything of a journal that another proxy writes; earlier parts
    of one's own do."""
    other = JournalPart(tmp_path / "other.2.jsonl")
    mine = JournalPart(tmp_path / "mine.3.jsonl")
    for path in (mine.path, other.path):
        os.utime(path, (0, 0))
    for name in ("other.jsonl", "mine.jsonl", "mine.2.jsonl", "dead.2.jsonl"):
        file(tmp_path, name, 20)
    prune(mine.path, Retention(14 * DAY_S, 0), lambda: WALL)
    assert left(tmp_path) == ["mine.3.jsonl", "other.2.jsonl", "other.jsonl"]
    other.close()
    prune(mine.path, Retention(14 * DAY_S, 0), lambda: WALL)
    assert left(tmp_path) == ["mine.3.jsonl"]
    mine.close()


def test_one_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told, and the others go."""
    part = JournalPart(tmp_path / "new.jsonl")
    stuck = file(tmp_path, "a.jsonl", 20)
    file(tmp_path, "b.jsonl", 19)
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == stuck:
            raise PermissionError(13, "Permission denied")
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    prune(part.path, PLENTY, lambda: WALL)
    assert left(tmp_path) == ["a.jsonl", "new.jsonl"]
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    part.close()
