"""Batches for the tests: plans of little shell scripts that write down themselves what they do, and what runs them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from agents.running import Ran, before
from detached import detached_in, end_all
from ports import unused_port
from program import called
from proxy.kit import Running
from waiting import until

HANGS_S = 120
HIVEMIND = Path(sys.executable).with_name("hivemind")
_PLAIN = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HIVEMIND", "HTTP"))}

WORKER = """\
# NAME, what it does on its first start and what on later ones (an exit code, or `crash`), and how long it works (or
# `gate`: until a file of that name is there)
echo "begin $1" >> journal
starts=$(grep -c "^begin $1\\$" journal)
if [ "$starts" = 1 ]; then does=$2; else does=$3; fi
case "$4" in
    0) ;;
    gate) while [ ! -e gate ]; do sleep 0.05; done ;;
    *) sleep "$4" ;;
esac
[ "$does" = crash ] && kill -9 $$
[ "$does" = 0 ] && echo "ok $1" >> journal
exit "$does"
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A task as a test makes it up."""

    name: str
    after: tuple[str, ...] = ()
    first: str = "0"
    """What comes of its first start: an exit code, or `crash`."""
    later: str = "0"
    """And of later ones."""
    works_s: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    gated: bool = False
    """It works until the bench's gate is open."""

    def planned(self) -> dict[str, Any]:
        """As it stands in a plan."""
        works = "gate" if self.gated else f"{self.works_s:g}"
        command = ["sh", "worker.sh", self.name, self.first, self.later, works]
        return {"command": command, "after": list(self.after), **self.more}


def made_up(seed: int, count: int) -> list[Kind]:
    """Tasks with dependencies, failures, restarts and priorities, all at random."""
    rng = random.Random(seed)
    kinds: list[Kind] = []
    for number in range(count):
        name = f"t{number:03}"
        near = [each.name for each in kinds[-60:]]
        after = tuple(rng.sample(near, min(len(near), rng.choice((0, 0, 0, 1, 1, 2)))))
        first = rng.choices(("0", "1", "crash"), (0.9, 0.07, 0.03))[0]
        later = rng.choices(("0", "3"), (0.7, 0.3))[0]
        works_s = rng.choices((0.0, 0.1, 0.8), (0.7, 0.2, 0.1))[0]
        more = {
            "priority": rng.choice(("critical", "high", "normal", "low")),
            "on_failure": rng.choice(("block", "skip")),
            "restarts": rng.choice((0, 1, 1)),
            "estimate": rng.choice(("1k", "50k", "200k")),
        }
        kinds.append(Kind(name, after, first, later, works_s, more))
    return kinds


@dataclass
class Bench:
    """A folder with a plan in it, a port for the proxy, and what happens there."""

    folder: Path
    port: int
    plan: str = "work.yaml"
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, kinds: list[Kind], **top: Any) -> None:
        """Write the plan and what its tasks run."""
        (self.folder / "worker.sh").write_text(WORKER)
        tasks = {each.name: each.planned() for each in kinds}
        (self.folder / self.plan).write_text(json.dumps({**top, "tasks": tasks}))

    @property
    def journal(self) -> list[str]:
        """What the tasks wrote down, in the order in which it happened."""
        path = self.folder / "journal"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def report(self) -> dict[str, dict[str, Any]]:
        """The tasks of the runner's report, by name."""
        found = json.loads((self.folder / "report.json").read_text())
        return {task["task"]: task for task in found["tasks"]}

    def kill_proxy(self) -> None:
        """End the proxy that a runner started as a crash would."""
        pids = detached_in(self.folder)
        assert pids, "no runner started one"
        end_all(pids)

    def open_gate(self) -> None:
        """Let gated tasks end."""
        (self.folder / "gate").touch()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is so."""
        await until(true, HANGS_S)

    async def journal_of(self, lines: int) -> None:
        """Wait until the tasks have written so much."""
        await self.until(lambda: len(self.journal) >= lines)

    @contextlib.asynccontextmanager
    async def program(
        self, *words: str, terminal: int | None = None, **environ: str
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A command of `hivemind`, gone afterwards."""
        output = asyncio.subprocess.PIPE if terminal is None else terminal
        process = await asyncio.create_subprocess_exec(
            HIVEMIND,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self.folder,
            env=self._environ(environ),
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    @contextlib.asynccontextmanager
    async def proxy(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """A proxy of its own on the port, ready."""
        async with self.program("proxy") as process:
            assert process.stdout is not None
            assert b"ready" in await process.stdout.readline()
            yield process

    def batch(self, *flags: str, **environ: str) -> contextlib.AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """The runner of the plan."""
        return self.program("batch", self.plan, "--json", "report.json", *flags, terminal=None, **environ)

    async def run(self, *flags: str, **environ: str) -> Ran:
        """Run it to its end, in a thread of this process, because starting Python and importing it all takes a second.

        There no signal can be handled.
        """
        words = ("batch", self.plan, "--json", "report.json", *flags)
        with mock.patch("signal.getsignal", return_value=signal.SIG_IGN):
            async with asyncio.timeout(HANGS_S):
                done = await asyncio.to_thread(called, self.folder, words, self._environ(environ))
        return Ran(done.code, done.out, done.err)

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            **_PLAIN,
            "HIVEMIND_STATE_DIR": str(self.folder / "state"),
            "HIVEMIND_PORT": str(self.port),
            "HIVEMIND_UPSTREAM": "lab=http://127.0.0.1:9",
            **self.environ,
            **more,
        }


async def killed(process: asyncio.subprocess.Process) -> None:
    """End a program as a crash would."""
    process.send_signal(signal.SIGKILL)
    await process.communicate()


def bench(folder: Path) -> Bench:
    """On a port that is free now."""
    return Bench(folder, unused_port())


@contextlib.asynccontextmanager
async def served(folder: Path, **settings: Any) -> AsyncIterator[tuple[Running, Bench]]:
    """On a proxy in this process, before a mock provider: starting one of its own takes a second."""
    async with before(folder, **settings) as (running, place):
        yield running, Bench(folder, running.port, environ=place.environ)


def check(kinds: list[Kind], bench: Bench) -> Counter[str]:
    """Hold the tasks' own journal against the report: each ran to success once or is reported, in a legal order.

    Returns the tasks by state.
    """
    done: list[str] = []
    after = {each.name: each.after for each in kinds}
    for line in bench.journal:
        what, name = line.split()
        if what == "begin":
            assert set(after[name]) <= set(done), f"{name} began before what it waits for was done"
            assert name not in done, f"{name} began again after it was done"
        else:
            done.append(name)
    report = bench.report
    assert set(report) == set(after)
    assert sorted(done) == sorted(name for name, task in report.items() if task["state"] == "done")
    begun = {line.split()[1] for line in bench.journal if line.startswith("begin")}
    for name, task in report.items():
        before = {report[other]["state"] for other in after[name]}
        if task["state"] in ("blocked", "skipped"):
            assert name not in begun
            assert before & {"failed", "blocked", "skipped"}
        else:
            assert task["state"] in ("done", "failed")
            assert before <= {"done"}
    return Counter(task["state"] for task in report.values())
