"""What a proxy without a screen says when it ends: a table on a terminal, else lines of its log."""

from __future__ import annotations

import logging
from io import StringIO
from pathlib import Path

import pytest
from control.processes import program
from world.kit import arrived, finished, granted, told

from hivemind.console import Console
from hivemind.host.summary import print_at_end
from hivemind.world.snapshot import Snapshot


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def ended() -> Snapshot:
    """One request of one agent was answered."""
    return told(arrived(), granted(), finished()).snapshot(6.0)


def test_a_log_gets_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each is a sentence; a table would be none."""
    caplog.set_level(logging.INFO, "hivemind")
    written = StringIO()
    console = Console(written)
    print_at_end(console, ended())
    assert console.close()
    assert written.getvalue() == ""
    agents, requests, waits = (record.getMessage() for record in caplog.records)
    assert agents == "1 agent: none died"
    assert requests == "1 request: 1 answered, 0 failed, 0 retried OK; 0 agents recovered"
    assert waits.startswith("p95 wait before an attempt 1 s; 190 tokens used")


def test_a_terminal_gets_the_table(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hivemind")
    monkeypatch.setattr(Console, "room", 60)
    written = StringIO()
    console = Console(written)
    print_at_end(console, ended())
    assert console.close()
    rows = written.getvalue().splitlines()
    assert rows[1].split()[:2] == ["AGENT", "STATE"]
    assert rows[2].split()[:2] == ["ann", "idle"]
    assert max(map(len, rows)) <= 60
    assert not caplog.records


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_of_a_log_are_broken_between_words(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, so that it breaks none within a word; each word and colour is still there."""
    monkeypatch.setattr("os.get_terminal_size", lambda _descriptor: type("Size", (), {"columns": columns}))
    monkeypatch.setattr(Terminal, "fileno", lambda _self: 2)
    line = "12:00:00 WARNING hivemind: 529 ann: failed for good: the provider is overloaded, " + "and so on " * 9
    short = "\x1b[31m" + "x" * columns + "\x1b[0m"
    written = Terminal()
    console = Console(written)
    console.line(line)
    console.line(short)
    assert console.close()
    *rows, last = written.getvalue().splitlines()
    assert max(map(len, rows)) <= columns
    assert " ".join(row.strip() for row in rows) == line.strip()
    assert last == short


def test_a_pipe_gets_lines_as_they_are() -> None:
    written = StringIO()
    console = Console(written)
    console.line("word " * 99)
    assert console.close()
    assert written.getvalue() == "word " * 99 + "\n"


@pytest.mark.slow
async def test_a_proxy_says_how_its_session_was(tmp_path: Path) -> None:
    """The real program, told to end, with the journal's name and the commands that show it again."""
    state = str(tmp_path / "state")
    async with program(tmp_path, "--state-dir", state, HIVEMIND_STATE_DIR="") as running:
        code, errors = await running.ends()
    assert code == 0
    (part,) = (tmp_path / "state" / "journals").glob("*.jsonl")
    said, where = (line.split(" INFO hivemind: ")[1] for line in errors.splitlines())
    assert said == "no requests came"
    assert where.startswith(f"journal {part.stem}; to look again: hivemind-tui --replay {part}")
