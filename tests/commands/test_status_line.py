"""`hivemind status --line`: one line for bars, of the one proxy that runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from commands.kit import desk, run
from control.kit import RUN, TOKEN

from hivemind.scheduler.commands import PauseAdmissions, SetCircuit
from hivemind.store.token_file import Note, note_path, write_note


def noted(folder: Path, url: str, pid: int | None = None) -> None:
    """Write a proxy's note where commands look for it."""
    path = note_path(folder / "state", int(url.rpartition(":")[2]))
    write_note(path, Note(url, TOKEN, os.getpid() if pid is None else pid, RUN))


async def test_one_line(tmp_path: Path) -> None:
    """The state, in trouble its cause and its end, and what flows."""
    async with desk(tmp_path) as at:
        assert re.fullmatch(r"HEALTHY 0/\d+ in flight, 0 waiting(, \$[\d.]+/h)?\n", await at.does("status --line"))
        at.proxy.proxy.apply(PauseAdmissions(True), "test")
        assert (await at.does("status --line")).startswith("PAUSED nothing new is sent, until you resume; 0/")
        at.proxy.proxy.apply(PauseAdmissions(False), "test")
        at.proxy.proxy.apply(SetCircuit("open"), "test")
        text = await at.does("status --line")
        assert re.match(r"(DEGRADED|BLOCKED) .*circuit forced open", text)
        assert text.count("\n") == 1


async def test_the_only_proxy_is_found(tmp_path: Path) -> None:
    """By its note, whatever its port and whatever the command, unless something names another; of several all are
    listed."""
    async with desk(tmp_path) as at:
        noted(tmp_path, "http://127.0.0.1:1", pid=2**22 + 1)  # no process has that number
        assert (await run(tmp_path, "status", "--line")).code == 1
        noted(tmp_path, at.proxy.url)
        found = await run(tmp_path, "status", "--line")
        assert (found.code, found.err, found.out[:7]) == (0, "", "HEALTHY")
        for command in ("agents", "pause", "resume"):
            ended = await run(tmp_path, command)
            assert (ended.code, ended.err) == (0, ""), command
        assert (await run(tmp_path, "status", "--attach", "http://127.0.0.1:1")).code == 1
        assert (await run(tmp_path, "status", HIVEMIND_PORT="1")).code == 1
        noted(tmp_path, "http://127.0.0.1:2")
        assert (await run(tmp_path, "pause", HIVEMIND_PORT="1")).code == 1
        several = await run(tmp_path, "status")
        assert several.code == 2
        assert several.err.count("\n") == 1
        assert all(f"127.0.0.1:{port}" in several.err for port in (2, at.proxy.url.rpartition(":")[2]))
