"""Attaching to the real `hivemind proxy`, in a process of its own, and losing it."""

from __future__ import annotations

import asyncio
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from control.processes import program, state_of

from hivemind.scheduler import commands as cmd
from hivemind.store.token_file import note_path, read_note
from hivemind.world.snapshot import Snapshot
from hivemind_tui.sources.remote import AttachedSource, PollPace, attached

pytestmark = pytest.mark.e2e

QUICK = PollPace(looked_at_s=0.01, unseen_s=0.01, again_s=0.01, again_most_s=0.05)


async def until(true: Callable[[], object]) -> None:
    """Wait until it is so."""
    while not true():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.005)


def lines(snapshot: Snapshot) -> list[str]:
    return [line.text for line in snapshot.lines]


async def test_watch_and_steer(tmp_path: Path) -> None:
    """With nothing but the URL it is watched and steered, by two at once; their leaving doesn't end it."""
    async with program(tmp_path) as running:
        note = note_path(tmp_path / "state", running.port)
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (note, note.parent)]
        assert (modes, read_note(note).url, read_note(note).pid) == ([0o600, 0o700], running.url, running.process.pid)
        async with (
            attached(running.url, {**state_of(tmp_path), "USER": "ann"}, pace=QUICK) as one,
            attached(running.url, {**state_of(tmp_path), "USER": "bob"}, pace=QUICK) as other,
        ):
            assert one.link.lost_for_s is None
            assert one.snapshot().upstreams == (("lab", "http://127.0.0.1:9"),)
            await one.apply(cmd.PauseAdmissions(True))
            await until(lambda: lines(one.snapshot()) and lines(other.snapshot()))
            assert (one.snapshot().mode, other.snapshot().mode) == ("paused", "paused")
            assert lines(one.snapshot())[-1] == "everything paused"
            assert lines(other.snapshot())[-1].startswith("everything paused, by ann")
            with pytest.raises(cmd.Rejected, match="nobody"):
                await other.apply(cmd.PauseAgent("nobody", True))
            draft = await one.draft({"aimd.beta": 0.7})
            await one.write(draft)
            assert draft.path == tmp_path / "hivemind.toml"
            assert draft.path.read_text() == draft.after
        code, said = await running.ends()
        written = [line for line in said.splitlines() if "hivemind.toml" in line]
        assert (code, len(written), note.exists()) == (0, 1, False)


async def lost(source: AttachedSource) -> None:
    await until(lambda: source.link.lost_for_s is not None)


async def test_killed_and_started_again(tmp_path: Path) -> None:
    """Killed, it is shown as lost; started again on its port, with another token, it is back without a hand's turn."""
    async with program(tmp_path) as first:
        note = note_path(tmp_path / "state", first.port)
        left = read_note(note)
        async with attached(first.url, state_of(tmp_path), pace=QUICK) as source:
            await source.apply(cmd.PauseAdmissions(True))
            await until(lambda: source.snapshot().mode == "paused")
            assert (await first.ends(signal.SIGKILL))[0] == -signal.SIGKILL
            await lost(source)
            await until(lambda: source.link.why == "nothing listens there; start the proxy")
            assert source.snapshot().mode == "paused"
            assert read_note(note) == left
            async with program(tmp_path, port=first.port) as second:
                await until(lambda: source.link.lost_for_s is None)
                now = read_note(note)
                assert (now.pid, now.token == left.token, now.run == left.run) == (second.process.pid, False, False)
                await until(lambda: source.snapshot().mode == "serving")
                await source.apply(cmd.PauseAdmissions(True))
                assert (await second.ends())[0] == 0


async def test_chosen_token(tmp_path: Path) -> None:
    """With a token of one's own it is steered from anywhere; a wrong one is told, and nothing comes of it."""
    async with program(tmp_path, HIVEMIND_CONTROL_TOKEN="of-my-own") as running:
        async with attached(running.url, {"HIVEMIND_CONTROL_TOKEN": "of-my-own"}) as source:
            await source.apply(cmd.PauseAdmissions(True))
        async with attached(running.url, {"HIVEMIND_CONTROL_TOKEN": "wrong"}) as source:
            assert "doesn't know the token from HIVEMIND_CONTROL_TOKEN" in source.link.why
            with pytest.raises(cmd.Rejected, match="nothing was changed"):
                await source.apply(cmd.PauseAdmissions(False))
        code, said = await running.ends()
        assert (code, "of-my-own" in said) == (0, False)


async def test_a_control_room_s_own_proxy(tmp_path: Path) -> None:
    """The proxy inside `hivemind-tui` can be attached to as well."""
    async with program(tmp_path, command=("hivemind-tui",)) as running:
        async with attached(running.url, state_of(tmp_path)) as source:
            assert source.link.lost_for_s is None
            await source.apply(cmd.PauseAdmissions(True))
        assert (await running.ends())[0] == 0
        assert not note_path(tmp_path / "state", running.port).exists()
