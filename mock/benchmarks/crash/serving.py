"""Kills of a program that serves a proxy, `hivemind proxy` or the control room, under load."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
from ports import unused_port
from program import called
from store.provider import Fleet, Provider, providing

from benchmarks.crash.result import Kill, drafts_in, running_in
from hivemind.api_types import PREFIX
from hivemind.control.client import ControlClient, ControlError
from hivemind.control.discovery import Token
from hivemind.errors import UsageError
from hivemind.journal.index.player import Player
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.settings.load import from_text
from hivemind.store import checkpoints
from hivemind.store.token_file import note_path, read_note

NAMES = ("alice", "bob", "carol", "dave")
HANGS_S = 120
SLOW_S = 0.002
"""Between two looks at whether a moment has come."""
MOMENTS = (
    "at random",
    "starting",
    "at random",
    "draining",
    "a journal's part begins",
    "the database is written",
    "a checkpoint is written",
    "settings are saved",
    "a command was answered",
)
_QUIET = ("at random", "draining", "the database is written")
_CONTROL = "control-token-of-the-crashes"
_PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}
_SETTINGS = """\
control_token = "%s"
profile = "anthropic"
rpm = 0
tpm = 0
drain_s = 20

[aimd]
alpha = 1.0

[journal]
max_hours = 0.0003
max_mb = 1
keep_mb = 8
"""


class Served:
    """A program that serves, and what steers it. It keeps its state in `folder`, which outlives it."""

    def __init__(self, folder: Path, upstream: str, port: int) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.http = httpx.AsyncClient(trust_env=False, timeout=HANGS_S)
        self.client = ControlClient(self.url, Token(_CONTROL, "crash"), self.http)
        self.process: asyncio.subprocess.Process | None = None
        self.said = ""
        settings = folder / "hivemind.toml"
        settings.write_text(_SETTINGS % _CONTROL)
        place = ("--port", str(port), "--state-dir", str(self.state), "--config", str(settings))
        self._flags = ("--upstream", f"lab={upstream}", *place)
        self._terminal: int | None = None

    async def start(self, victim: str) -> None:
        """Start it, without waiting until it is ready."""
        name, *words = {"proxy": ("hivemind", "proxy"), "room": ("hivemind-tui",)}[victim]
        environ = {**_PLAIN, "TERM": "xterm-256color"}
        with (self.folder / "errors").open("wb") as errors:
            if victim == "room":
                self._terminal, theirs = pty.openpty()
                asyncio.get_running_loop().add_reader(self._terminal, self._drain)
            else:
                theirs = os.open(os.devnull, os.O_RDWR)
            self.process = await asyncio.create_subprocess_exec(
                Path(sys.executable).with_name(name),
                *(*words, *self._flags),
                stdin=theirs,
                stdout=theirs,
                stderr=errors,
                cwd=self.folder,
                env=environ,
            )
            os.close(theirs)

    def _drain(self) -> None:
        assert self._terminal is not None
        with contextlib.suppress(OSError):
            if os.read(self._terminal, 1 << 16):
                return
        self._close_terminal()

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            asyncio.get_running_loop().remove_reader(self._terminal)
            os.close(self._terminal)
            self._terminal = None

    @property
    def errors(self) -> str:
        """What it said on standard error since it was started."""
        return (self.folder / "errors").read_text("utf-8", "replace")

    async def ready(self) -> bool:
        """Wait until it serves. Return False if it ended instead."""
        assert self.process is not None
        async with asyncio.timeout(HANGS_S):
            while self.process.returncode is None:
                with contextlib.suppress(httpx.HTTPError):
                    if (await self.http.get(f"{self.url}/_health")).status_code == 200:
                        return True
                await asyncio.sleep(0.02)
        return False

    async def kill(self) -> None:
        """End it without a word of warning."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        self._close_terminal()

    async def stop(self) -> int | None:
        """End it in good order."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(HANGS_S):
            code = await self.process.wait()
        self._close_terminal()
        return code

    async def books(self) -> dict[str | None, dict[str, Any]]:
        """Return what each agent (None: all together) used and may use."""
        head = {"authorization": f"Bearer {_CONTROL}"}
        found: dict[str | None, dict[str, Any]] = {}
        for agent in (None, *NAMES):
            query = {} if agent is None else {"agent": agent}
            answer = await self.http.get(f"{self.url}{PREFIX}/budgets", params=query, headers=head)
            if answer.status_code == 200:
                body = answer.json()
                found[agent] = body["pool"] if agent is None else body["agents"][0]
        return found


class Serving:
    """Kills one after the other of programs with one state directory, which therefore holds what all of them left."""

    def __init__(self, served: Served, provider: Provider, rng: random.Random) -> None:
        self.served = served
        self._provider = provider
        self.rng = rng
        self._known: dict[str | None, dict[str, Any]] = {}
        """Budgets that were set and acknowledged, by agent."""
        self._priorities: dict[str, str] = {}
        self._tasks: set[str] = set()
        self._floor: Counter[str] = Counter()
        """What was known of each agent's usage after the last kill."""
        self._number = 0

    async def kill(self, victim: str, moment: str) -> Kill:
        """Kill that program at that moment, start it again, and look."""
        kill, served = Kill(victim, moment), self.served
        self._number += 1
        if moment == "starting":
            await served.start(victim)
            await asyncio.sleep(self.rng.uniform(0, 1.2))
            await served.kill()
            history, killed_at = [(0.0, self._floor.copy())], time.monotonic()
        else:
            history, killed_at = await self._killed_under_load(kill, victim, moment)
        journals = sorted((served.state / "journals").glob("*.jsonl"))
        await served.start(victim)
        if not await served.ready():
            kill.broken.append(f"it doesn't start again: {served.errors.strip()}")
            return kill
        await self._check_books(kill, history, killed_at)
        self._check_files(kill, journals)
        kill.holds("Traceback" not in served.errors, f"a traceback: {served.errors[-500:]}")
        code = await served.stop()
        kill.holds(code == 0, f"exit code {code} after the restart: {served.errors.strip()[-300:]}")
        kill.holds(not (note_path(served.state, served.port)).exists(), "the token file outlives its proxy")
        left = running_in(served.folder)
        for _ in range(200):
            if not left:
                break
            await asyncio.sleep(0.05)
            left = running_in(served.folder)
        kill.holds(not left, f"processes go on: {left}")
        return kill

    async def _killed_under_load(
        self, kill: Kill, victim: str, moment: str
    ) -> tuple[list[tuple[float, Counter[str]]], float]:
        served = self.served
        await served.start(victim)
        if not await served.ready():
            kill.broken.append(f"it doesn't start: {served.errors.strip()}")
            return [(0.0, self._floor.copy())], time.monotonic()
        fleet = Fleet(served.url, NAMES)
        history = [(time.monotonic(), self._floor.copy())]

        async def watch() -> None:
            while True:
                history.append((time.monotonic(), self._floor + fleet.answered))
                await asyncio.sleep(0.02)

        async with fleet.at_work(), _background(watch()):
            await fleet.until(8)
            await self._decide()
            # Each command has all that is known written, which would hide what a kill loses.
            also = contextlib.nullcontext() if moment in _QUIET else _background(self._decide_on())
            async with self._until(moment) as come, also:
                async with asyncio.timeout(HANGS_S):
                    while not come():  # noqa: ASYNC110 - another process
                        await asyncio.sleep(SLOW_S)
            killed_at = time.monotonic()
            await served.kill()
        return history, killed_at

    async def _decide_on(self) -> None:
        """Decide again and again; what was acknowledged must survive."""
        with contextlib.suppress(ControlError, httpx.HTTPError):
            while True:
                await self._decide()
                await asyncio.sleep(self.rng.uniform(0.02, 0.1))

    async def _decide(self) -> None:
        rng, do = self.rng, self.served.client.command
        agent, tokens = rng.choice(NAMES), rng.randrange(10**8, 10**9)
        self._known.pop(agent, None)  # unknown until it is acknowledged
        await do(cmd.SetBudget(agent, tokens, per="ever"), "crash")
        self._known[agent] = {"tokens": tokens}
        other = rng.choice(NAMES)
        self._priorities.pop(other, None)
        priority = rng.choice((Priority.LOW, Priority.NORMAL, Priority.HIGH))
        await do(cmd.SetPriority(other, priority), "crash")
        self._priorities[other] = priority.name.lower()
        task = f"t{self._number}-{len(self._tasks)}"
        await do(cmd.SubmitTasks((TaskSpec(task, batch="crash"),)), "crash")
        self._tasks.add(task)

    @contextlib.asynccontextmanager
    async def _until(self, moment: str) -> AsyncIterator[Callable[[], bool]]:
        """What tells that the moment has come, and what brings it about."""
        served, rng = self.served, self.rng
        until = time.monotonic() + rng.uniform(0, 1.5)
        if moment == "draining":
            assert served.process is not None
            served.process.send_signal(signal.SIGTERM)
            until = time.monotonic() + rng.uniform(0, 0.5)
        elif moment == "a journal's part begins":
            before = set(served.state.glob("journals/*"))
            yield lambda: bool(set(served.state.glob("journals/*")) - before)
            return
        elif moment == "the database is written":
            log = served.state / f"proxy-{served.port}.db-wal"
            size = log.stat().st_mtime_ns
            yield lambda: log.stat().st_mtime_ns != size
            return
        elif moment == "a command was answered":
            await self._decide()
            until = 0.0
        elif moment == "a checkpoint is written":
            async with _background(self._stop_again_and_again()):
                yield lambda: any(served.state.glob("checkpoints/.*"))
            return
        elif moment == "settings are saved":
            async with _background(self._save_again_and_again()):
                yield lambda: any(served.folder.glob(".hivemind*"))
            return
        yield lambda: time.monotonic() >= until

    async def _stop_again_and_again(self) -> None:
        """Have checkpoints with a long conversation written."""
        name, do = "erin", self.served.client.command
        body = {"model": name, "stream": False, "messages": [{"role": "user", "content": "word " * 400_000}]}
        with contextlib.suppress(ControlError, httpx.HTTPError):
            while True:
                await self.served.http.post(f"{self.served.url}/agent/{name}/v1/messages", json=body)
                await do(cmd.StopAgent(name, True), "crash")
                await asyncio.sleep(0.2)
                await do(cmd.StopAgent(name, False), "crash")

    async def _save_again_and_again(self) -> None:
        with contextlib.suppress(ControlError, httpx.HTTPError, cmd.Rejected):
            while True:
                alpha = round(self.rng.uniform(0.5, 2), 6)
                await self.served.client.write(await self.served.client.draft({"aimd.alpha": alpha}), "crash")

    # --- Afterwards -----------------------------------------------------------------------------------------------

    async def _check_books(self, kill: Kill, history: list[tuple[float, Counter[str]]], killed_at: float) -> None:
        served = self.served
        books = await served.books()
        used = {name: books[name]["ever"]["tokens"] for name in NAMES if name in books}
        for name in NAMES:
            most, found = self._provider.used[name], used.get(name, 0)
            kill.holds(found <= most, f"{name} used {most} tokens and is charged {found}")
            kill.holds(
                found >= self._floor[name], f"{name} is charged {found}, less than the {self._floor[name]} before"
            )
        whole = [at for at, known in history if all(used.get(name, 0) >= known[name] for name in NAMES)]
        kill.lost_s = round(max(0.0, killed_at - max(whole)), 3) if whole and whole[-1] > 0 else 0.0
        self._floor = Counter(used)
        for agent, budget in self._known.items():
            found = (books.get(agent, {}).get("budget") or {}).get("tokens")
            kill.holds(found == budget["tokens"], f"the budget of {agent} is {found}, not {budget['tokens']}")
        agents = {agent.name: agent for agent in (await served.client.world()).snapshot.agents}
        for name, priority in self._priorities.items():
            now = agents[name].priority.name.lower() if name in agents else "unknown"
            kill.holds(now == priority, f"the priority of {name} is {now}, not {priority}")
        tasks = {task.spec.id for task in (await served.client.tasks("crash")).tasks}
        kill.holds(self._tasks <= tasks, f"tasks are gone: {sorted(self._tasks - tasks)[:5]}")
        answer = await served.http.post(
            f"{served.url}/agent/alice/v1/messages",
            json={"model": "alice", "stream": False, "messages": [{"role": "user", "content": ""}]},
        )
        kill.holds(answer.status_code == 200, f"a request after the restart: {answer.status_code} {answer.text[:200]}")
        assert served.process is not None
        note = read_note(note_path(served.state, served.port))
        kill.holds((note.url, note.pid) == (served.url, served.process.pid), "the token file is an earlier proxy's")
        with contextlib.closing(sqlite3.connect(served.state / f"proxy-{served.port}.db", timeout=HANGS_S)) as database:
            (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
        kill.holds(verdict == "ok", f"the database: {verdict}")
        others = [path.name for path in served.state.glob("proxy-*-*.db")]
        kill.holds(not others, f"the database wasn't taken over: {others}")

    def _check_files(self, kill: Kill, journals: list[Path]) -> None:
        served = self.served
        firsts = [path for path in journals if path.exists() and path.name.count(".") == 1][-2:]
        for path in firsts:
            self._check_journal(kill, path)
        folder = served.state / "checkpoints"
        _, wrong = checkpoints.listed(folder) if folder.is_dir() else ([], [])
        kill.holds(not wrong, f"checkpoints: {wrong}")
        try:
            from_text((served.folder / "hivemind.toml").read_text(), "hivemind.toml")
            whole = (served.folder / "hivemind.toml").read_text().endswith("keep_mb = 8\n")
        except UsageError as error:
            kill.broken.append(f"the settings file: {error}")
        else:
            kill.holds(whole, "the settings file isn't whole")
        drafts = drafts_in(served.folder)
        kill.drafts = len(drafts)
        for path in drafts:  # an hour later
            os.utime(path, (time.time() - 7200,) * 2)

    def _check_journal(self, kill: Kill, path: Path) -> None:
        name = path.name
        try:
            journal = open_journal(path)
            events = list(journal.events())
            damage = journal.damage
            kill.torn_lines += damage.torn
            kill.holds(damage.bad_lines == 0, f"{name}: {damage.bad_lines} damaged lines, {damage.first_bad}")
            kill.holds(not damage.missing, f"{name}: parts are missing: {damage.missing}")
            with contextlib.closing(Player(path, indexed=False)) as player:
                player.seek(max((event.at for event in events), default=player.begins_at))
                player.world.snapshot(player.at)
        except Exception as error:  # whatever it is, it is a broken promise
            kill.broken.append(f"{name} can't be read: {error!r}")
            return
        for words in (("stats",), ("show", "--event", "Commanded"), ("export", "--csv")):
            said = called(path.parent, ("journal", words[0], str(path), *words[1:]), {"HOME": str(self.served.folder)})
            kill.holds(said.code == 0, f"journal {words[0]} {name}: exit code {said.code}: {said.err.strip()}")
            kill.holds("Traceback" not in said.err, f"journal {words[0]} {name}: a traceback")


@contextlib.asynccontextmanager
async def _background(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def serving_in(folder: Path, rng: random.Random) -> AsyncIterator[Serving]:
    """A provider that counts, and a folder for programs to be killed in."""
    folder.mkdir(parents=True)  # noqa: ASYNC240 - nothing else runs meanwhile
    async with providing() as (provider, upstream):
        served = Served(folder, upstream, unused_port())
        try:
            yield Serving(served, provider, rng)
        finally:
            if served.process is not None and served.process.returncode is None:
                await served.kill()
            await served.http.aclose()
