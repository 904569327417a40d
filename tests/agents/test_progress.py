"""How a batch is shown: what is there, in the room there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hivemind.agents.progress import BatchProgress, Ink, TaskRow, as_json, clean, closing, live
from hivemind.records import replace

LOGS = Path("/state/batches/nightly/1/logs")
PLAIN = Ink(False)
ROWS = (
    TaskRow("lint", "nightly.lint", "done", 1, 0, "", 12.3, 45_123, 0.42, 0, LOGS / "lint.log"),
    TaskRow("test-api", "bob", "running", 2, None, "", 64, 120_000, 1.2, 100, LOGS / "test-api.log"),
    TaskRow("docs", "nightly.docs", "queued"),
    TaskRow("flaky", "nightly.flaky", "delayed", 3, None, "", 640, 12_000_000, 123.2),
    TaskRow("migrate", "x", "failed", 2, -9, "killed by signal 9", 903.2, 0, 0.0, 0, LOGS / "migrate.log"),
    TaskRow("deploy", "x", "blocked", note="migrate failed"),
    TaskRow("publish", "x", "waiting"),
)


def standing(
    rows: tuple[TaskRow, ...] = ROWS, notice: str = "", coming: tuple[str, ...] = ("publish",)
) -> BatchProgress:
    """The batch at one moment."""
    return BatchProgress("nightly", rows, 252, LOGS, notice, coming)


def test_live() -> None:
    """Counts, what was used, what runs and what comes next."""
    assert live(standing(notice="the proxy is away"), 72, 16, PLAIN) == [
        "nightly  ━━━━━━━━━━━━━━━━━───────────────────────  1 of 7 done  4m12s",
        "1 running, 1 queued, 1 delayed, 1 waiting, 1 failed, 1 blocked",
        *("12,165,123 tokens, $124.82 (and 100 tokens without a known price)", "the proxy is away"),
        *("  running            try   time tokens     cost", "  test-api             2  1m04s   120k   $1.20+"),
        *("  docs     queued             -      -        -", "  flaky    delayed     3 10m40s    12M  $123.20"),
        "  next: publish",
    ]


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 80, 120, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 7, 16])
def test_live_keeps_within_the_terminal(width: int, height: int) -> None:
    """No line is wider and there are no more of them, whatever there is to show."""
    rows = (*ROWS, *(TaskRow(f"{'long-' * 12}{number}", "x", "running", 1, None, "", 5.0) for number in range(40)))
    lines = live(standing(rows, "a notice " * 20, ("next-" * 20,)), width, height, PLAIN)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


def test_what_has_no_room_is_counted() -> None:
    """More running tasks than lines are said to be there."""
    rows = tuple(TaskRow(f"t{number}", "x", "running", 1) for number in range(40))
    assert live(standing(rows, coming=()), 80, 10, PLAIN)[-1] == "  and 34 more"


def test_closing() -> None:
    """A row a task within 80 columns, the sum, and where to read why something failed."""
    rows = tuple(row for row in ROWS if row.state in ("done", "failed", "blocked"))
    assert closing(standing(rows), 80, PLAIN) == [
        "task    state     try exit   time tokens     cost  why",
        "lint    done        1    0    12s    45k    $0.42",
        "migrate failed      2   -9 15m03s      -        -  killed by signal 9",
        *("deploy  blocked     -    -      -      -        -  migrate failed", ""),
        "nightly: 3 tasks, 1 done, 1 failed, 1 blocked; 4m12s, 45,123 tokens, $0.42",
        "failed: migrate (killed by signal 9), /state/batches/nightly/1/logs/migrate.log",
        "logs: /state/batches/nightly/1/logs/TASK.log",
    ]


def test_closing_without_usage() -> None:
    """Columns that would be empty aren't there; long names give way to reasons; many failures are counted."""
    rows = tuple(
        TaskRow(f"{'name-' * 15}{number}", "x", "failed", 1, 1, "exit code 1", 0.2, log=LOGS / "x")
        for number in range(10)
    )
    lines = closing(standing(rows), 80, PLAIN)
    assert lines[0].split() == ["task", "state", "try", "exit", "time", "why"]
    assert lines[1].endswith("… failed      1    1   0.2s  exit code 1")
    assert max(map(len, lines[:11])) <= 80
    assert "and 2 more that failed" in lines


def test_closing_with_short_reasons() -> None:
    """What reasons don't need is the names'."""
    row = TaskRow("a-rather-long-name-of-a-task-that-goes-on", "x", "failed", 1, 1, "timed out", 0.2, 900)
    lines = closing(standing((row,)), 96, PLAIN)
    assert lines[1].startswith(f"{row.task} failed ")
    assert lines[1].endswith("  timed out")


def test_colours_change_no_text() -> None:
    """Without them the lines are the same."""
    bare = closing(standing(), 100, PLAIN)
    coloured = "\n".join(closing(standing(), 100, Ink(True)))
    assert "\x1b[31mfailed" in coloured
    for sign in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"):
        coloured = coloured.replace(sign, "")
    assert coloured.splitlines() == bare


def test_report() -> None:
    """The same for programs, with exact numbers."""
    found = as_json(standing())
    assert (found["batch"], found["complete"], found["tokens"], found["unpriced_tokens"]) == (
        *("nightly", False, 12_165_123, 100),
    )
    assert found["counts"] == {
        state: 1 for state in ("done", "running", "queued", "delayed", "failed", "blocked", "waiting")
    }
    tasks = found["tasks"]
    assert isinstance(tasks, list)
    assert tasks[0] == {
        "task": "lint",
        "agent": "nightly.lint",
        "state": "done",
        "note": "",
        "attempts": 1,
        "exit_code": 0,
        "seconds": 12.3,
        "tokens": 45_123,
        "dollars": 0.42,
        "unpriced_tokens": 0,
        "estimated_tokens": 0,
        "log": str(LOGS / "lint.log"),
        "worktree": None,
        "checkpoint": None,
    }
    assert standing((ROWS[0],)).complete


def test_estimates_are_marked() -> None:
    """In the table by `~`, below it and for programs by their number."""
    row = replace(ROWS[0], estimated=1_204)
    table = closing(standing((row, ROWS[1])), 100, PLAIN)
    assert table[1].split()[5:7] == ["~45k", "$0.42"]
    assert "~" not in table[2]
    assert table[4].endswith("165,123 tokens, $1.62 (and 100 tokens without a known price; 1,204 tokens estimated)")
    found = as_json(standing((row, ROWS[1])))
    tasks = found["tasks"]
    assert isinstance(tasks, list)
    assert (found["estimated_tokens"], [task["estimated_tokens"] for task in tasks]) == (1_204, [1_204, 0])


def test_nothing_is_obeyed() -> None:
    """What comes from elsewhere can't move the cursor."""
    assert clean("a\x1b[2Jb\nc") == "a [2Jb c"
