"""`hivemind run --tmux`: a window for each agent in a real tmux, and what is said where that can't be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from agents.running import Place, Ran, at, before, until

NAME = "panes"
SERVER = ("tmux", "-L", f"hivemind-{NAME}")
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux isn't installed")


def tmux(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A call of the tmux of these agents, whose socket is in the folder."""
    return subprocess.run((*SERVER, *args), env=sockets_in(folder), capture_output=True, text=True, check=False)


def sockets_in(folder: Path) -> dict[str, str]:
    return {"TMUX_TMPDIR": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin"}


def ended_in(folder: Path, name: str) -> bool:
    return "exit code 3" in tmux(folder, "capture-pane", "-p", "-t", f":{name}").stdout


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[None]:
    """End the windows afterwards."""
    yield
    tmux(tmp_path, "kill-server")


async def run(place: Place, *args: str) -> Ran:
    return await place.called("run", "--tmux", "--name", NAME, *args)


@needs_tmux
@pytest.mark.usefixtures("closed")
async def test_each_agent_has_a_window(tmp_path: Path) -> None:
    """They keep their output, read keys, and get arguments as they were, also those that tmux could misread."""
    script = "echo $HIVEMIND_AGENT:$0; read -r line; echo $line > $HIVEMIND_AGENT; exit 3"
    async with before(tmp_path) as (running, place):
        place.environ |= sockets_in(tmp_path) | {"SECRET": "in-no-command-line"}
        ran = await run(place, "--count", "2", "--budget", "5k", "--", "sh", "-c", script, "a;")
        assert ran.code == 0, ran.err
        assert f"{NAME}: 2 agents in tmux; to see: tmux -L hivemind-{NAME} attach-session" in ran.err
        again = await run(place, "--", "true")
        await until(lambda: tmux(tmp_path, "capture-pane", "-p", "-t", f":{NAME}-2").stdout.startswith(f"{NAME}-2:a;"))
        for name in (f"{NAME}-1", f"{NAME}-2"):
            tmux(tmp_path, "send-keys", "-t", f":{name}", f"hello {name}", "Enter")
            await until(partial(ended_in, tmp_path, name))
        windows = tmux(tmp_path, "list-windows", "-F", "#W").stdout.split()
        agents = {agent.name: agent for agent in running.snapshot().agents}
        given = tmux(tmp_path, "list-panes", "-s", "-F", "#{pane_start_command}").stdout
    assert windows == [f"{NAME}-1", f"{NAME}-2"]
    assert again.code == 2
    assert f"the windows of {NAME} are open already" in again.err
    assert [(tmp_path / name).read_text() for name in windows] == [f"hello {name}\n" for name in windows]
    assert [agents[name].exit_code for name in windows] == [3, 3]
    assert all((budget := agents[name].budget) is not None and budget.tokens == 5000 for name in windows)
    assert "in-no-command-line" not in given


async def test_there_may_be_no_tmux(tmp_path: Path) -> None:
    async with at(tmp_path, PATH=str(tmp_path)) as place:
        ran = await run(place, "--", sys.executable)
    assert (ran.code, ran.err) == (2, "hivemind: --tmux: there is no tmux in PATH; install it, or leave the flag out\n")


async def test_a_report_is_of_one_that_was_waited_for(tmp_path: Path) -> None:
    async with at(tmp_path) as place:
        ran = await run(place, "--report", "report.json", "--", "true")
    assert ran.code == 2
    assert "--report: is written when a command has ended" in ran.err
