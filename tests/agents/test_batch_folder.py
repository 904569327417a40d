"""What a batch keeps on disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hivemind.agents.batch_context import BatchFolder, Busy, RunnerNote, TaskOutcome

DONE = TaskOutcome("done", 0, 1.5, 100, 0.25, 0)
FAILED = TaskOutcome("failed", 1, 0.5, 10, 0.01, 5)


def folder(state: Path) -> BatchFolder:
    """A batch that was begun."""
    made = BatchFolder(state, "nightly")
    made.begin()
    return made


def test_outcomes(tmp_path: Path) -> None:
    """Each attempt's is there again for the next runner, in the order of the claims; one that has none yet is None."""
    first = folder(tmp_path)
    first.conclude("lint", "20260101T000000-7-000002", DONE)
    first.conclude("lint", "20260101T000000-7-000001", FAILED)
    later = BatchFolder(tmp_path, "nightly")
    assert (later.begun(), BatchFolder(tmp_path, "daily").begun()) == (True, False)
    assert not later.attempt("lint", "20260102T000000-9-000001").exists()
    assert later.outcomes("lint") == [FAILED, DONE, None]
    assert later.outcomes("test") == []


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """A machine that lost power may leave one; it counts as none."""
    made = folder(tmp_path)
    made.conclude("lint", "r-1", DONE)
    made.attempt("lint", "r-1").with_name("outcome.json").write_bytes(b'{"how":"do')
    assert made.outcomes("lint") == [None]


def test_runners(tmp_path: Path) -> None:
    """A claim tells who made it, as far as they worked on the batch from here."""
    made = folder(tmp_path)
    made.enlist("20260101T000000-7", RunnerNote("/plans/nightly.yaml", "r1"))
    assert made.runner("20260101T000000-7-000012") == RunnerNote("/plans/nightly.yaml", "r1")
    assert made.runner("20260101T000000-8-000001") is None
    assert [made.runner(claim) for claim in ("", "bob", "../runners/20260101T000000-7-1", "a-1-../1")] == [None] * 4
    assert made.plans() == {"/plans/nightly.yaml"}


def test_budgets(tmp_path: Path) -> None:
    """What was ordered for each agent is remembered."""
    made = folder(tmp_path)
    for budgets in ({"a": "one"}, {"a": "three", "b": "two"}):
        made.note("budgets", budgets)
    assert (made.noted("budgets"), made.noted("deadlines")) == ({"a": "three", "b": "two"}, {})


def test_begun_anew(tmp_path: Path) -> None:
    """Each time has a folder of its own, and only the latest few are kept."""
    for _ in range(8):
        folder(tmp_path)
    made = BatchFolder(tmp_path, "nightly")
    assert made.begun()
    assert (made.log("lint"), sorted(os.listdir(made.root))) == (
        tmp_path / "batches/nightly/8/logs/lint.log",
        ["4", "5", "6", "7", "8"],
    )


def test_one_at_a_time(tmp_path: Path) -> None:
    """Whoever holds it keeps others away, and no longer than that; other batches are free."""
    with BatchFolder(tmp_path, "nightly").held():
        with pytest.raises(Busy), BatchFolder(tmp_path, "nightly").held():
            pass
        with BatchFolder(tmp_path, "daily").held():
            pass
    with BatchFolder(tmp_path, "nightly").held():
        pass


def test_for_nobody_elses_eyes(tmp_path: Path) -> None:
    """Folders and files are the user's alone, whatever the umask."""
    before = os.umask(0)
    try:
        made = folder(tmp_path)
        made.conclude("lint", "r-1", DONE)
        made.enlist("r", RunnerNote("x", "r1"))
        with made.held():
            pass
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in made.root.rglob("*") if path.is_file()}
    assert modes == {0o600}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in [made.root, *made.root.rglob("*")] if path.is_dir()}
    assert folders == {0o700}
