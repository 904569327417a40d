"""Attaching to the real `hivemind proxy`, in a process of its own, and losing it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from control.processes import program, state_of
from waiting import until

from hivemind.scheduler import commands as cmd
from hivemind.store.token_file import note_path, read_note
from hivemind.world.snapshot import Snapshot
from hivemind_tui.sources.remote import PollPace, attached

pytestmark = pytest.mark.e2e

QUICK = PollPace(looked_at_s=0.01, unseen_s=0.01, again_s=0.01, again_most_s=0.05)


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


async def test_a_control_room_s_own_proxy(tmp_path: Path) -> None:
    """The proxy inside `hivemind-tui` can be attached to as well."""
    async with program(tmp_path, command=("hivemind-tui",)) as running:
        async with attached(running.url, state_of(tmp_path)) as source:
            assert source.link.lost_for_s is None
            await source.apply(cmd.PauseAdmissions(True))
        assert (await running.ends())[0] == 0
        assert not note_path(tmp_path / "state", running.port).exists()
