"""A proxy that outlives whoever started it: by `hivemind up -d`, or by a run where none ran."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agents.running import Place, Ran, at, ended, providing
from agents.test_run import QUICK
from detached import detached_in, detached_with
from ports import unused_port
from waiting import until

from hivemind.host.start_lock import StartLock

WAITS = "touch up-$HIVEMIND_AGENT; while [ ! -e go ]; do sleep 0.02; done; exec python -Wignore asks.py"
"""A command that tells that it is up, waits, and then sends a request."""


@asynccontextmanager
async def nothing(folder: Path, **environ: str) -> AsyncIterator[tuple[Place, str]]:
    """Where no proxy runs, and the port for one."""
    (folder / "asks.py").write_text(QUICK)
    port = str(unused_port())
    async with (
        providing() as (_, upstream),
        at(folder, **{"HIVEMIND_UPSTREAM": upstream, "HIVEMIND_PORT": port} | environ) as place,
    ):
        yield place, port


async def logged(place: Place, word: str) -> Ran:
    """`hivemind logs`, once its log has that word: a thread writes it, so a run can end a little earlier."""
    while word not in (told := await place.called("logs")).out:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)
    return told


async def gone(folder: Path) -> None:
    """Wait until no detached proxy of that folder is left."""
    await until(lambda: not detached_in(folder))


async def test_up_and_down(tmp_path: Path) -> None:
    """It is brought up once, its log is there to read, and it ends when it is told to; all that can be repeated."""
    async with nothing(tmp_path) as (place, port):
        none = await place.called("logs")
        first, again = await place.called("up", "-d"), await place.called("up", "-d")
        empty = await place.called("logs")
        (pid,) = detached_in(tmp_path)
        ran = await place.called("run", "--", "true")
        read = await place.called("logs", "-n", "0")
        await place.called("run", "--", "false")
        told = await logged(place, "exit code 1")
        down, nobody = await place.called("down"), await place.called("down")
    url, log = f"http://127.0.0.1:{port}", tmp_path / "state" / f"proxy-{port}.log"
    assert (none.code, none.err) == (
        1,
        f"hivemind: {log}: no log of a detached proxy is there (No such file or directory)\n",
    )
    assert first.out == f"hivemind: ready on {url} -> local {place.environ['HIVEMIND_UPSTREAM']} (log: {log})\n"
    assert again == Ran(0, f"hivemind: a proxy runs already at {url}, with its own settings\n", "")
    assert "no proxy ran" not in ran.err
    assert read == Ran(0, "", "")
    assert empty == Ran(0, "", f"hivemind: nothing is in {log} so far\n")
    assert (told.code, told.err) == (0, "")
    assert down == Ran(0, f"hivemind: the proxy at {url} has ended\n", "")
    assert nobody == Ran(0, "", f"hivemind: no proxy of yours runs at {url}\n")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.e2e
async def test_not_under_agents(tmp_path: Path) -> None:
    """While an agent's process runs it is ended only by force, and never by an agent."""
    async with nothing(tmp_path) as (place, port):
        run = await place.run("--name", "alice", "--", "sh", "-c", "hivemind down --force; touch up; exec sleep 60")
        await until((tmp_path / "up").exists)
        refused, forced = await place.called("down"), await place.called("down", "--force")
        run.terminate()
        ran = await ended(run)
    assert refused == Ran(1, "", "hivemind: alice would lose it; with --force it ends all the same\n")
    assert forced == Ran(0, f"hivemind: the proxy at http://127.0.0.1:{port} has ended\n", "")
    assert "hivemind: the agent alice can't end the proxy that it uses" in ran.err


@pytest.mark.e2e
async def test_its_starter_is_killed(tmp_path: Path) -> None:
    """Whoever else uses the proxy doesn't notice, and what they used is told."""
    async with nothing(tmp_path) as (place, _):
        starter = await place.run("--name", "starter", "--", "sh", "-c", WAITS)
        await until((tmp_path / "up-starter").exists)
        guest = await place.run("--name", "guest", "--", "sh", "-c", WAITS)
        await until((tmp_path / "up-guest").exists)
        (pid,) = detached_in(tmp_path)
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])  # noqa: ASYNC240
        assert parent != starter.pid, "who ends a runner and its descendants would end it"
        starter.kill()
        (tmp_path / "go").touch()
        ran = await ended(guest)
    assert ran.code == 0, ran.err
    assert f" {int(ran.out):,} tokens, $0.0" in ran.err


@pytest.mark.e2e
@pytest.mark.parametrize("end", ["Ctrl-C", "closed"])
async def test_its_starters_terminal(tmp_path: Path, end: str) -> None:
    """Keys of the terminal and its end reach the starter and its command, and not the proxy."""
    async with nothing(tmp_path) as (place, _):
        ours, theirs = pty.openpty()
        run = await place.run_at(theirs, "--name", "alice", "--", "sh", "-c", "touch up; exec sleep 60")
        os.close(theirs)
        await until((tmp_path / "up").exists)
        (pid,) = detached_in(tmp_path)
        if end == "Ctrl-C":
            os.write(ours, b"\x03")
            assert await run.wait() == 130
        os.close(ours)
        await run.wait()
        again = await place.called("run", "--name", "bob", "--", "true")
        assert detached_in(tmp_path) == [pid]
    assert "no proxy ran" not in again.err


@pytest.mark.e2e
async def test_up_beside_one_that_ends_when_idle(tmp_path: Path) -> None:
    """Whoever wants a proxy that stays is told that the one which a run has started doesn't."""
    async with nothing(tmp_path) as (place, port):
        await place.called("run", "--", "true")
        up = await place.called("up", "-d")
    assert up.out == f"hivemind: a proxy runs already at http://127.0.0.1:{port}, with its own settings\n"
    idle = "it ends when nobody has used it for 5m00s; for one that stays, end it first: hivemind down"
    assert (up.code, up.err) == (0, f"hivemind: {idle}\n")


@pytest.mark.e2e
async def test_ends_when_idle(tmp_path: Path) -> None:
    """Not while a command runs, though it asks for nothing; then soon, with its note gone and a word in the log."""
    async with nothing(tmp_path, HIVEMIND_IDLE_EXIT_S="0.4") as (place, port):
        ran = await place.called("run", "--name", "alice", "--", "sh", "-c", "sleep 1.5; python -Wignore asks.py")
        await gone(tmp_path)
        said = await place.called("logs")
    assert (ran.code, "tokens" in ran.err) == (0, True), ran.err
    assert "nobody used the proxy for 0.4s, so it ends\n" in said.out
    assert " INFO hivemind: 1 agent: " in said.out
    assert "look again: hivemind-tui --replay " in said.out.splitlines()[-1]
    assert not (tmp_path / "state" / f"control-{port}.json").exists()


@pytest.mark.e2e
async def test_starters_against_the_idle_end(tmp_path: Path) -> None:
    """Whenever a run comes, just when the proxy ends or while it does, it finds one that stays."""
    async with nothing(tmp_path, HIVEMIND_IDLE_EXIT_S="0.05") as (place, _):
        runs = []
        for number in range(8):
            await asyncio.sleep(0.02 * number)
            runs.append(await place.called("run", "--name", f"a{number}", "--", "true"))
        await gone(tmp_path)
    assert [ran.code for ran in runs] == [0] * 8, runs


async def test_refused_settings(tmp_path: Path) -> None:
    """What only the proxy finds wrong comes to the starter, as one line with its exit code."""
    async with nothing(tmp_path, HIVEMIND_STATE_DIR=str(tmp_path)) as (place, port):
        (tmp_path / f"proxy-{port}.db").write_text("no database")
        ran = await place.called("up", "-d")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"hivemind: {tmp_path}/proxy-{port}.db ")
    assert ran.err.count("\n") == 1


@pytest.mark.e2e
async def test_pipes_in_place_of_its_files(tmp_path: Path) -> None:
    """It starts, is found and ends, and waits for nobody at the other end of one."""
    (tmp_path / "state").mkdir()
    async with nothing(tmp_path, HIVEMIND_IDLE_EXIT_S="20") as (place, port):
        for name in ("control-{}.json", "proxy-{}.key", "proxy-{}.runs", "proxy-{}.log", "proxy-{}.db"):
            os.mkfifo(tmp_path / "state" / name.format(port))
        done = [await place.called(*each.split()) for each in ("status", "logs", "up -d", "status", "down")]
    assert [each.code for each in done] == [1, 1, 0, 0, 0], done
    assert done[1].err.endswith("no log of a detached proxy is there (no regular file)\n")
    assert "(no log)" in done[2].out


@pytest.mark.e2e
async def test_without_a_state_directory(tmp_path: Path) -> None:
    """The starter can use it all the same; who wants to end it later is told that no command can."""
    none = {"HIVEMIND_STATE_DIR": "/dev/null/none", "HIVEMIND_IDLE_EXIT_S": "0.5", "OF_TEST": str(tmp_path)}
    async with nothing(tmp_path, **none) as (place, _):
        ran = await place.called("run", "--name", "alice", "--", "python", "-Wignore", "asks.py")
    assert (ran.code, "(no log)" in ran.err) == (0, True), ran.err
    assert "alice: exit code 0" in ran.err
    async with nothing(tmp_path, **none) as (place, _):
        up = await place.called("up", "-d")
        await until(lambda: not detached_with(f"OF_TEST={tmp_path}"))
    assert (up.code, "no other command finds it" in up.err) == (1, True), up.err


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_no_credential_is_seen(tmp_path: Path) -> None:
    """Neither a token of the settings nor a key of the starter's is on its command line or in its environment."""
    secrets = {"HIVEMIND_TOKEN": "agents-own-token", "ANTHROPIC_API_KEY": "sk-of-the-starter", "AWS_SECRET_KEY": "s3"}
    async with nothing(tmp_path, **secrets, HIVEMIND_CONTROL_TOKEN="operators-own-token") as (place, port):
        up = await place.called("up", "-d")
        (pid,) = detached_in(tmp_path)
        shown = b"".join(Path(f"/proc/{pid}/{each}").read_bytes() for each in ("cmdline", "environ"))  # noqa: ASYNC240
        ran = await place.called("run", "--name", "alice", "--", "python", "-Wignore", "asks.py")
        place.environ["HIVEMIND_TOKEN"] = "another-token-1"
        wrong = await place.called("run", "--name", "bob", "--", "python", "-Wignore", "asks.py")
    assert up.code == 0, up.err
    assert port.encode() in shown
    assert not [each for each in (*secrets.values(), "operators-own-token") if each.encode() in shown]
    assert ran.code == 0, ran.err
    assert wrong.code == 0, "runs have tokens of their own"


async def test_a_lock_is_one_starters(tmp_path: Path) -> None:
    """While one has it others wait, but not for ever; each port has its own, and a killed holder none."""
    first, second, other = StartLock(tmp_path, 1), StartLock(tmp_path, 1), StartLock(tmp_path, 2)
    assert (first.take(), second.take(), other.take()) == (True, False, True)
    await second.wait(within_s=0.1)
    first.release()
    await second.wait()
    assert not first.take()
    second.release()
    program = f"from hivemind.host.start_lock import StartLock; import time; from pathlib import Path; \
l = StartLock(Path({str(tmp_path)!r}), 1); print(l.take(), flush=True); time.sleep(60)"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"True\n"
    assert not first.take()
    holder.send_signal(signal.SIGKILL)
    await holder.wait()
    assert first.take()


async def test_notes_of_killed_ones(tmp_path: Path) -> None:
    """A note that a killed proxy left is no proxy: down says so, and ends nobody who has its process id by now."""
    async with nothing(tmp_path) as (place, port):
        (tmp_path / "state").mkdir()
        note = {"url": f"http://127.0.0.1:{port}", "token": "t", "pid": os.getpid(), "run": "r"}
        (tmp_path / "state" / f"control-{port}.json").write_text(json.dumps(note))
        down = await place.called("down")
    says = f"no proxy of yours runs at http://127.0.0.1:{port}; the one that did was killed"
    assert down == Ran(0, "", f"hivemind: {says}\n")
