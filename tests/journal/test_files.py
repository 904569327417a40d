"""Finding journals by what people type, names of new ones, and old ones that go."""

from __future__ import annotations

import logging
import os
import shutil
import stat
from pathlib import Path

import pytest

from hivemind.errors import UsageError
from hivemind.journal.files import demo_folder_in, find, folder_in, part_of, part_path, parts_from, parts_in
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.segment import JournalPart, Retention, begin, prune

OLDER, NEWER, IMPORTED = "20261121-182341-8765", "20261122-090000-8766", "monday"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with three journals, one of two parts."""
    folder = folder_in(tmp_path)
    folder.mkdir()
    for name, part in ((OLDER, 1), (OLDER, 2), (NEWER, 3), (NEWER, 4), (IMPORTED, 1)):
        part_path(folder, name, part).touch()
    (folder / "notes.txt").touch()
    (folder / "20270101-000000-1.jsonl").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "file"),
    [
        (OLDER, f"{OLDER}.jsonl"),
        ("20261121", f"{OLDER}.jsonl"),
        (f"{OLDER}.jsonl", f"{OLDER}.jsonl"),
        (f"{OLDER}.2.jsonl", f"{OLDER}.2.jsonl"),
        ("20261122", f"{NEWER}.3.jsonl"),
        ("latest", f"{NEWER}.3.jsonl"),
        ("mon", "monday.jsonl"),
    ],
)
def test_names_are_found(state: Path, typed: str, file: str) -> None:
    """A name, a beginning that only one has, a file's name and `latest` each give the first part that is there."""
    assert find(typed, state) == folder_in(state) / file


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("202611", f"202611: 2 journals begin so: {OLDER}, {NEWER}"),
        ("tuesday", f"tuesday: no such journal; there are {IMPORTED}, {NEWER}, {OLDER}"),
        ("", f"(nothing): no such journal; there are {IMPORTED}, {NEWER}, {OLDER}"),
        ("mnday", "mnday: no such journal; did you mean monday?"),
        ("a\x1b[2J\0b", f"a?[2J?b: no such journal; there are {IMPORTED}, {NEWER}, {OLDER}"),
    ],
)
def test_what_is_not_found_is_told(state: Path, typed: str, told: str) -> None:
    """One line names what was typed and what there is."""
    with pytest.raises(UsageError) as caught:
        find(typed, state)
    assert str(caught.value) == told


def test_a_demo_is_found_by_its_name(state: Path) -> None:
    """Where no other journal has it; `latest` is a demo only where there is nothing else."""
    demos = demo_folder_in(state)
    demos.mkdir()
    for name in ("20261122-100000-1", "20270101-000000-2"):
        part_path(demos, name, 1).touch()
    assert find("20270101", state) == part_path(demos, "20270101-000000-2", 1)
    assert find("20261122", state) == folder_in(state) / f"{NEWER}.3.jsonl"
    assert find("latest", state) == folder_in(state) / f"{NEWER}.3.jsonl"
    with pytest.raises(UsageError, match="2028: no such journal"):
        find("2028", state)
    shutil.rmtree(folder_in(state))
    assert find("latest", state) == part_path(demos, "20270101-000000-2", 1)


def test_nothing_there(tmp_path: Path) -> None:
    """Without a folder of journals the line says where one would be."""
    for typed in ("latest", "x"):
        with pytest.raises(UsageError, match=f"there are (none|no journals) in {folder_in(tmp_path)}"):
            find(typed, tmp_path)


def test_paths(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is taken as it is, also one without a folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "copy.jsonl").touch()
    (elsewhere / "copy").touch()
    monkeypatch.chdir(elsewhere)
    assert find("copy.jsonl", state) == Path("copy.jsonl")
    assert find("copy", state) == Path("copy")
    assert find("./copy", state) == Path("copy")


def test_names_of_parts() -> None:
    """What isn't a part's name isn't taken for one."""
    assert part_of("a-b_1.jsonl") == ("a-b_1", 1)
    assert part_of("a.12.jsonl") == ("a", 12)
    assert [part_of(name) for name in ("a.0.jsonl", "a.x.jsonl", ".jsonl", "a.json", "a b.jsonl")] == [None] * 5


def test_parts_that_follow(state: Path) -> None:
    """A journal goes on in its later parts, also where one between them is missing; a copy by another name is alone."""
    folder = folder_in(state)
    part_path(folder, OLDER, 4).touch()
    first = JournalBegan(0.0, 0.0, OLDER, 1, "")
    assert parts_from(part_path(folder, OLDER, 1), first) == tuple(part_path(folder, OLDER, n) for n in (1, 2, 4))
    second = JournalBegan(0.0, 0.0, OLDER, 2, "")
    assert parts_from(part_path(folder, OLDER, 2), second) == tuple(part_path(folder, OLDER, n) for n in (2, 4))
    assert parts_from(folder / "copy.jsonl", first) == (folder / "copy.jsonl",)
    assert list(parts_in(folder)) == [OLDER, NEWER, IMPORTED]


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
