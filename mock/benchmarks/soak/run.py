"""One soak: a proxy and a provider in processes of their own, agents and an operator in this one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from benchmarks.paths import environment
from benchmarks.perf.upstream import READY
from benchmarks.soak.client import Agents, Pace
from benchmarks.soak.messages import UPSTREAMS
from benchmarks.soak.result import Result, settle
from benchmarks.soak.steering import Steering
from benchmarks.soak.watching import Sample, Watching
from hivemind import __version__
from hivemind.control.client import ControlClient, open_http
from hivemind.control.discovery import Token, parse_address
from hivemind.errors import HiveMindError
from hivemind.world.snapshot import Snapshot
from hivemind_mock.bench.main import show_progress

_START_S = 60.0
_STOP_S = 60.0
_PATIENCE_S = 30.0
"""For an answer of the control API, beside a load on a machine that others use too."""
_REST_S = 60.0
"""Longest until nothing is in flight, waiting or reserved after the last answer."""
_PROXY = "import sys; from hivemind.cli.main import main; sys.exit(main())"
_PROXY_READY = "hivemind: ready on "
SETTINGS = """\
control_token = "%s"
profile = "anthropic"
max_concurrency = 64
rpm = 0
tpm = 0
headers_timeout_s = 4
idle_timeout_s = 4
keepalive_after_s = 2
keepalive_every_s = 1

[aimd]
alpha = 2.0
beta = 0.7
floor = 16

[circuit]
cooldown_s = 1

[retry]
base_s = 0.05
max_s = 2
budget_ratio = 1

[budget]
tokens = 1000000000000

[journal]
max_mb = 8
keep_mb = 48
"""
"""What a fast provider with many faults asks for, and a journal of which a few parts are kept."""


class SoakError(HiveMindError):
    """A process didn't start; nothing was measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done."""

    seed: int
    minutes: float = 60.0
    rate: float = 0.0
    """Requests a second; 0: as fast as it goes."""
    requests: int = 0
    """In all, however long that takes; 0: as many as there is time for."""
    agents: int = 200
    """Requests that may be out at once."""
    visitors: int = 200
    """Names under which a tenth of the requests comes, one after the other."""
    steer_every_s: float = 1.0
    look_every_s: float = 5.0


async def soak(plan: Plan, folder: Path) -> Result:
    """Do it in that folder. An interrupt ends the load early. Raises: SoakError."""
    result, token = Result(plan.seed, __version__), secrets.token_hex(16)
    (folder / "hivemind.toml").write_text(SETTINGS % token)
    provider = (sys.executable, "-m", "benchmarks.soak.upstream", str(plan.seed))
    async with started(provider, READY, folder, "provider-errors") as (upstream, serving):
        state = ("--config", "hivemind.toml", "--port", "0", "--state-dir", "state", "--log-level", "error")
        upstreams = [word for name in UPSTREAMS for word in ("--upstream", f"{name}={upstream}")]
        argv = (sys.executable, "-X", "faulthandler", "-c", _PROXY, "proxy", *upstreams, *state)
        async with started(argv, _PROXY_READY, folder) as (url, process), open_http(parse_address(url)) as http:
            http.timeout = httpx.Timeout(_PATIENCE_S)
            watching = Watching(url, process.pid, http)
            agents = await _loaded(plan, result, ControlClient(url, Token(token, "soak"), http), token, watching)
            book = [(await http.get(f"{upstream}/_soak/{page}")).content for page in ("attempts", "answers", "counts")]
            await _ended(serving)  # with it the connections that are kept open to it
            result.after = await _emptied(watching, result.idle)
            code = await _ended(process)
            result.holds(code == 0, f"exit code {code}")
    settle(result, bytes(agents.outcomes), *book[:2], torn=agents.torn, excused=agents.excused)
    result.upstream = msgspec.json.decode(book[2])
    errors = (folder / "errors").read_text("utf-8", "replace")
    result.holds("Traceback" not in errors and "Thread 0x" not in errors, f"a traceback: {errors[-5000:]}")
    result.judge()
    return result


async def _ended(process: asyncio.subprocess.Process) -> int:
    """End a program, and return its exit code; one that doesn't end writes down where its threads are."""
    process.terminate()
    try:
        return await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.send_signal(signal.SIGABRT)
        return await process.wait()


async def _emptied(watching: Watching, before: Sample | None) -> Sample:
    """Look until no more files are open than before the load, or as long as that may take."""
    samples = len(watching.samples)
    until = time.monotonic() + _REST_S
    while True:
        sample = await watching.look()
        if before is None or sample.files <= before.files or time.monotonic() > until:
            del watching.samples[samples:]
            return sample
        await asyncio.sleep(0.5)


async def _loaded(plan: Plan, result: Result, client: ControlClient, token: str, watching: Watching) -> Agents:
    """Put the load on a proxy, wait until it rests, and return the agents."""
    pace = Pace(plan.rate, plan.requests)
    agents = Agents(_address(client.url), pace, seed=plan.seed, agents=plan.agents, visitors=plan.visitors)
    steering = Steering(client, token, agents.names, random.Random(plan.seed))
    agents.is_excused = steering.is_stopped
    watching.issued = lambda: pace.issued
    result.idle = await watching.look()
    watching.samples.clear()
    begun = time.monotonic()
    with _interruptible(pace, None if plan.requests else plan.minutes * 60):
        async with _beside(watching.work(plan.look_every_s), steering.work(plan.steer_every_s), _progress(pace)):
            await agents.work()
            result.load_s = round(time.monotonic() - begun, 1)
    result.restless_s = await _rest(result, client)
    result.samples = list(watching.samples)
    result.requests, result.alarms = pace.issued, sorted(watching.alarms)
    result.statuses = dict(sorted(agents.statuses.items()))
    result.commands, result.refused = dict(sorted(steering.done.items())), steering.refused
    result.broken += agents.broken
    result.holds(not agents.broken_count, f"{agents.broken_count} requests weren't answered as promised")
    result.broken += [f"the proxy didn't answer {each}" for each in watching.silent]
    return agents


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def _rest(result: Result, client: ControlClient) -> float:
    """Wait until nothing is in flight, waiting or reserved, and return how long that took."""
    begun = time.monotonic()
    while True:
        snapshot = (await client.world()).snapshot
        busy = _busy(snapshot)
        took_s = time.monotonic() - begun
        if not busy or took_s > _REST_S:
            result.holds(not busy, f"{_REST_S:g} s after the last answer: {busy}")
            if snapshot.recording is not None:
                result.journal_mb = round(snapshot.recording.bytes / 2**20, 1)
                result.holds(
                    not snapshot.recording.lost, f"{snapshot.recording.lost} events are missing in the journal"
                )
            return round(took_s, 2)
        await asyncio.sleep(0.2)


def _busy(snapshot: Snapshot) -> str:
    """Return what isn't over; empty: all is."""
    found = [f"{len(snapshot.slots)} in flight"] if snapshot.slots else []
    found += [f"{snapshot.queued} waiting"] if snapshot.queued else []
    for view in snapshot.lanes:
        lane = view.state
        if lane.active or lane.waiting or lane.retrying:
            found.append(f"{lane.lane}: {lane.active} in flight, {lane.waiting} waiting, {lane.retrying} to be retried")
    budgets = [each.budget for each in snapshot.agents if each.budget is not None]
    found += [f"{each.owner}: {each.reserved_tokens} tokens reserved" for each in budgets if each.reserved_tokens]
    return "; ".join(found[:5])


@contextlib.contextmanager
def _interruptible(pace: Pace, after_s: float | None) -> Iterator[None]:
    """Issue no more requests after an interrupt, or so many seconds."""
    loop = asyncio.get_running_loop()
    timer = None if after_s is None else loop.call_later(after_s, pace.stop)
    loop.add_signal_handler(signal.SIGINT, pace.stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if timer is not None:
            timer.cancel()


@contextlib.asynccontextmanager
async def _beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do these too, until the context ends. One that fails is no more than reported, at the end."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for each in ended:
        if isinstance(each, Exception):
            raise each


async def _progress(pace: Pace) -> None:
    begun = time.monotonic()
    while True:
        await asyncio.sleep(1.0)
        passed_s = time.monotonic() - begun
        show_progress(f"{passed_s / 60:.1f} minutes, {pace.issued:,} requests, {pace.issued / passed_s:.0f}/s")


@contextlib.asynccontextmanager
async def started(
    argv: Sequence[str], ready: str, folder: Path, errors_in: str = "errors"
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A program that says on a line where it serves, without the user's settings. Raises: SoakError."""
    environ = {name: value for name, value in environment().items() if not name.startswith("HIVEMIND_")}
    with (folder / errors_in).open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environ,
            start_new_session=True,  # an interrupt at the terminal ends the load, not the proxy
        )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), _START_S)).decode()
        if not line.startswith(ready):
            raise SoakError(f"{argv[-1]} didn't start: {(folder / 'errors').read_text('utf-8', 'replace')[-500:]}")
        yield line.removeprefix(ready).split()[0], process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
