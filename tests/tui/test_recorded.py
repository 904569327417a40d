"""`hivemind-tui --replay FILE`: its flags, its run without a screen, and the screen on a real journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from journal.test_recordings import SESSIONS
from textual.pilot import Pilot
from tui.decks import AT, write
from tui.kit import TERMINAL, piloted, press, seen, settle, wait_until

from hivemind.journal.importers.making import journal_of
from hivemind.journal.importers.tables import named_columns
from hivemind.journal.index.player import Player
from hivemind_tui.__main__ import main as program
from hivemind_tui.replay_app import ReplayRoom
from hivemind_tui.sources.replay import ReplaySource

pytestmark = pytest.mark.e2e


def test_without_a_screen_it_is_lines_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log as it was, then what became of each agent; nothing on standard error."""
    assert program(["--replay", str(write(tmp_path))]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert "anthropic        first request (anthropic)" in lines[0]
    assert any("bob" in line and "it broke; passed on to the agent" in line for line in lines)
    assert any(line.startswith("36 requests: 35 answered, 1 failed, 0 retried OK") for line in lines)
    assert lines[-1].startswith("requests waited 46 %")


def test_damage_is_reported_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be read is printed, and that something can't."""
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    assert program(["--replay", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "the last line isn't whole" in err
    assert "36 requests" in out


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x17 random" * 50])
def test_nothing_to_read_is_one_line(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what is wrong, and the exit code is that of a wrong command line."""
    path = tmp_path / "j.jsonl"
    path.write_bytes(data)
    assert program(["--replay", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "j.jsonl" in err


async def test_the_screen_on_a_real_journal(tmp_path: Path) -> None:
    """Marks and seeks are those of the file."""
    player = Player(write(tmp_path))
    try:
        app = ReplayRoom(ReplaySource(player, player.name), environment=TERMINAL)
        async with piloted(app, (160, 45)) as pilot:
            await settle(pilot)
            await wait_until(pilot, lambda: app.view.playback is not None and app.view.playback.mark_count == 6)
            await press(pilot, "n n n n", until=lambda: app.view.snapshot.at == pytest.approx(AT + 62.1))
            await wait_until(pilot, lambda: "bob: it broke; passed on to the agent" in seen(pilot, "timeline"))
            assert app.view.snapshot.totals.failed == 1
            await press(pilot, "left", until=lambda: app.view.snapshot.at == pytest.approx(AT + 61.1))
            assert app.view.snapshot.totals.failed == 0
            await press(pilot, "end", until=lambda: app.view.snapshot.totals.requests == 36)
            await wait_until(pilot, lambda: "the end" in seen(pilot, "timeline"))
    finally:
        player.close()


@asynccontextmanager
async def room_on(source: Path, folder: Path, columns: str = "") -> AsyncIterator[tuple[Pilot[str], ReplayRoom]]:
    """A room on another program's recording, whose marks are all found."""
    made = journal_of([str(source)], folder, named_columns(columns) if columns else None)
    with closing(Player(made.path)) as player:
        app = ReplayRoom(ReplaySource(player, player.name), environment=TERMINAL)
        async with piloted(app, (160, 45)) as pilot:
            await wait_until(pilot, lambda: app.view.playback is not None and app.view.playback.known_to == 1)
            yield pilot, app


@pytest.mark.slow
async def test_a_key_leads_to_a_clients_next_refusal(tmp_path: Path) -> None:
    """Refusals that were retried are marks of its log, which has no pauses and no cuts; the room goes there."""
    async with room_on(SESSIONS / "claude-code-2.1.332-a", tmp_path) as (pilot, app):
        await wait_until(pilot, lambda: app.recording.playback().mark_count == 5)
        assert len(app.recording.of_kind("rate_limited")) == 5
        first, second, *_ = app.recording.playback().marks
        await press(pilot, "n", until=lambda: app.view.snapshot.at == pytest.approx(first.at))
        await wait_until(pilot, lambda: "429" in seen(pilot, "timeline"))
        assert app.view.snapshot.totals.failed == 0
        await press(pilot, "n", until=lambda: app.view.snapshot.at == pytest.approx(second.at))


async def test_what_a_recording_does_not_hold_is_no_zero(tmp_path: Path) -> None:
    """Neither tokens and dollars, nor a limit that a reply might still tell."""
    path = tmp_path / "moments.csv"
    path.write_text("when\n1795941922\n1795941923\n")
    async with room_on(path, tmp_path / "state", "start=when") as (pilot, _):
        await press(pilot, "end", until=lambda: "2 requests" in seen(pilot, "header"))
        assert "tokens and cost not recorded" in seen(pilot, "header")
        assert "$" not in seen(pilot, "header") + seen(pilot, "vitals")
        assert "tokens" not in seen(pilot, "vitals").lower()
        await wait_until(pilot, lambda: "The recording doesn't hold rate limits." in seen(pilot, "windows"))
        await press(pilot, "2", until=lambda: "tokens not recorded" in " ".join(seen(pilot, "agent-card").split()))
        assert "waited" not in seen(pilot, "agent-card")
        assert not {"OUT", "COST", "TOKENS"} & {*seen(pilot, "agents").split()}
        await press(pilot, "3", until=lambda: "#" in seen(pilot, "request-card"))
        assert "answer 0s" not in " ".join(seen(pilot, "request-card").split())
        await press(pilot, "8", until=lambda: "The recording doesn't hold tokens." in seen(pilot, "costs"))


@pytest.mark.slow
async def test_refusals_that_are_not_recorded(tmp_path: Path) -> None:
    """Are no zero: Codex writes of none."""
    async with room_on(SESSIONS / "codex-0.171.0", tmp_path) as (pilot, _):
        await press(pilot, "end 2", until=lambda: "failed attempts" in seen(pilot, "agent-card"))
        assert not {"FAIL", "RETRIED"} & {*seen(pilot, "agents").split()}
        assert "failed" not in seen(pilot, "header")
        await press(pilot, "3", until=lambda: "TOTAL" in seen(pilot, "requests"))
        assert "WAITED" not in seen(pilot, "requests")


async def test_a_journal_that_vanishes(tmp_path: Path) -> None:
    """What is shown stays; that it can't be read any more is told in the header."""
    path = write(tmp_path)
    player = Player(path, indexed=False)
    try:
        app = ReplayRoom(ReplaySource(player, player.name), environment=TERMINAL)
        async with piloted(app, (160, 45)) as pilot:
            await settle(pilot)
            path.unlink()
            await press(pilot, "end home @turn_far_up", until=lambda: "can't be read any more" in seen(pilot, "header"))
    finally:
        player.close()
