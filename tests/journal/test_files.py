"""Finding journals by what people type, and the parts of one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hivemind.errors import UsageError
from hivemind.journal.files import demo_folder_in, find, folder_in, part_of, part_path, parts_from, parts_in
from hivemind.journal.records import JournalBegan

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
