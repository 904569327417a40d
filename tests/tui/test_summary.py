"""What is printed at a session's end: agents, totals, and commands that work as printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from program import called
from tui.decks import write
from tui.worlds import empty_world, world

from hivemind.host.listening import print_ready
from hivemind.host.summary import AGENTS_SHOWN, journal_of, summary, wait_causes_of
from hivemind.journal.files import demo_folder_in, folder_in
from hivemind.journal.wait_causes import WaitCauses, shares_text
from hivemind.records import replace
from hivemind.world.health import Histogram, Vitals
from hivemind.world.snapshot import RecordingView, Snapshot
from hivemind.world.verdict import judged
from hivemind_tui.__main__ import main as program

ROOMS = (60, 80, 200)


def ended(*exit_codes: int | None, agents: int = 11) -> Snapshot:
    """A world whose agents have ended so, the first ones first."""
    full = world(agents=agents)
    ends = [*exit_codes, *[None] * (agents - len(exit_codes))]
    crew = [
        replace(agent, exit_code=code, state=agent.state if code is None else "died" if code else "ended")
        for agent, code in zip(full.agents, ends, strict=True)
    ]
    bins = [0] * 18
    bins[9] = 20  # from 2.5 to 5 s
    return judged(replace(full, agents=tuple(crew), vitals=Vitals(waits=Histogram(tuple(bins), 80.0))))


def test_agents_that_died_are_named_with_their_exit_codes() -> None:
    """A crash isn't an agent without errors."""
    text = "\n".join(summary(ended(3, -9, 0, 0, 0, 0), None, None))
    assert "11 agents: 4 finished, 2 died (alice, exit code 3; bob, killed by SIGKILL)" in text
    assert "died (exit code 3)" in text
    assert "in the end: DEGRADED" in text


def test_the_totals_are_those_of_the_snapshot() -> None:
    """Requests by how they ended, the p95 wait since the start, tokens and dollars."""
    text = "\n".join(summary(ended(), None, None))
    assert (
        "214 requests: 196 answered, 0 failed, 2 left by clients, 16 open at the end, 27 retried OK; 9 agents recovered"
        in text
    )
    assert "p95 wait before an attempt 4.88 s; 9.94M tokens used, 0 wasted; $18.42" in text
    assert "none died" in text


@pytest.mark.parametrize("room", ROOMS)
def test_no_word_is_broken(room: int) -> None:
    """Every line fits, and what the narrow one says is what the wide one says."""
    crashed = ended(*range(1, 9))
    rows = summary(crashed, None, room, goes_on=True)
    assert max(map(len, rows)) <= room
    start = next(n for n, row in enumerate(rows) if row.startswith("11 agents"))
    whole = summary(crashed, None, None, goes_on=True)
    assert " ".join(rows[start:]).split() == " ".join(whole[-(len(whole) - whole.index("", 1) - 1) :]).split()


@pytest.mark.parametrize("room", ROOMS)
def test_the_ready_line_is_broken_between_words(
    room: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal alone: a program reads one line."""
    line = f"hivemind: ready on http://127.0.0.1:8765 -> {', '.join(['anthropic https://api.anthropic.com/v1'] * 4)}"
    monkeypatch.setenv("COLUMNS", str(room))
    print_ready(line)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_ready(line)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= room
    assert out.split() == line.split()


def test_many_agents_are_counted() -> None:
    """The table has a screenful of rows at most, those that died among them."""
    rows = summary(ended(*[0] * 99, 7, agents=100), None, None)
    assert any("exit code 7" in row for row in rows[:3])
    assert f"and {100 - AGENTS_SHOWN + 1} more agents" in rows


def test_without_requests_there_is_one_line() -> None:
    """There is nothing to count."""
    assert summary(empty_world(), None, 80) == ["no requests came"]


def recorded(folder: Path) -> Snapshot:
    """A world whose journal is in that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return replace(world(), recording=RecordingView(str(write(folder)), 1, 0, ""))


def test_it_says_why_requests_waited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the journal; of one that can't be read it says nothing, and the rest all the same."""
    snapshot = recorded(tmp_path)
    journal = journal_of(snapshot)
    assert journal is not None
    causes = wait_causes_of(journal)
    expected = f"requests waited {shares_text(causes)}"
    assert causes.seconds
    assert expected in summary(snapshot, journal, None, causes=causes)
    assert program(["--replay", str(journal.path)]) == 0
    assert "requests waited " in capsys.readouterr().out
    journal.path.write_bytes(b"no journal")
    assert wait_causes_of(journal) == wait_causes_of(None) == WaitCauses()
    assert not any("requests waited" in row for row in summary(snapshot, journal, None, causes=WaitCauses()))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("place", ["journals", "demo", "elsewhere"])
def test_the_commands_work_as_printed(
    place: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the journal's name where that suffices, on a line of their own."""
    monkeypatch.setenv("HIVEMIND_STATE_DIR", str(tmp_path))
    folder = {"journals": folder_in(tmp_path), "demo": demo_folder_in(tmp_path)}.get(place, tmp_path / "a b")
    snapshot = recorded(folder)
    rows = summary(snapshot, journal_of(snapshot), room)
    assert ("the first demo after" in " ".join(rows)) is (place == "demo")
    show, report = (shlex.split(row) for row in rows[-2:])
    assert ("20261121-140000-8765" in show) is (place != "elsewhere")
    assert show[:2] == ["hivemind-tui", "--replay"]
    assert program(show[1:]) == 0
    assert "36 requests" in capsys.readouterr().out
    if room == 80:
        assert report[:2] == ["hivemind", "report"]
        assert called(tmp_path, report[1:], {"HIVEMIND_STATE_DIR": str(tmp_path)}).code == 0


def test_without_the_reports_libraries_it_is_what_if(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that can't work isn't offered."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    snapshot = recorded(tmp_path / "journals")
    assert shlex.split(summary(snapshot, journal_of(snapshot), 80)[-1])[:2] == ["hivemind", "what-if"]


def test_a_journal_elsewhere_is_not_offered(tmp_path: Path) -> None:
    """Of a proxy on another machine there is no file here."""
    assert journal_of(replace(world(), recording=RecordingView(str(tmp_path / "x.jsonl"), 1, 0, ""))) is None
