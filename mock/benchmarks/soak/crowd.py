"""`python -m benchmarks.soak.crowd`: 20,000 requests that wait at once, and 5,000 connections that say nothing.

Each crowd meets a real proxy; meanwhile `/_health` is asked, and so are ordinary requests. Then it goes, and comes
again, because memory that is used again isn't lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
from starlette.types import Receive, Scope, Send

from benchmarks.perf.load import percentile
from benchmarks.perf.metering import cpu_s
from benchmarks.soak.client import Connection
from benchmarks.soak.report import crowd_rows
from benchmarks.soak.run import started
from benchmarks.soak.watching import rss_mb
from hivemind import __version__
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind.proxy.asgi import read_body
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress
from hivemind_mock.provider.serve import serving

WAITING, IDLE = 20_000, 5_000
FILES = 1024
"""The soft limit of open files that a shell gives by default."""
IN_FLIGHT = 50
SPARE = 200
"""Files that aren't those of waiting clients."""
LATE_S = 120.0
BUSY = 0.2
"""Share of a processor above which a proxy that has nothing to do is busy with itself."""
_SOURCES = 8
"""Addresses of the loopback from which clients come, since each has a limited number of ports."""
_AT_ONCE = 100
_READY = "hivemind: ready on "
_PROXY = (
    "import resource, sys; from hivemind.cli.main import main;"
    " resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); sys.exit(main())"
)
_SETTINGS = f"""\
max_concurrency = {IN_FLIGHT}
rpm = 0
tpm = 0
retry = {{ max_attempts = 2 }}
queue = {{ max_wait_s = 3600 }}
aimd = {{ floor = {IN_FLIGHT}, latency_target_s = 3600 }}
"""
_ANSWER = b'{"type":"message","content":[],"usage":{"input_tokens":1,"output_tokens":1}}'


@dataclass(slots=True)
class Crowd:
    """What one crowd did."""

    what: str
    asked: int
    """Connections, or requests, that were to come."""
    limit: str
    """Of open files: soft and hard, as the proxy was started."""
    held: int = 0
    """Of these waited, or stayed connected, at once."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """What became of them."""
    served: int = 0
    """Ordinary requests meanwhile that were answered."""
    refused: int = 0
    """Ordinary requests meanwhile that were refused or cut."""
    health_p50_ms: float = 0.0
    health_p99_ms: float = 0.0
    rss_before_mb: float = 0.0
    rss_peak_mb: float = 0.0
    rss_after_mb: float = 0.0
    files_before: int = 0
    files_peak: int = 0
    files_after: int = 0
    cpu_idle_share: float = 0.0
    """Processor time for each second while the crowd did nothing."""
    alarms: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def holds(self, true: object, promise: str) -> None:
        """Note that a promise is broken unless it is true."""
        if not true:
            self.broken.append(promise)


class Gate:
    """A provider that answers what costs something once it is opened, and the rest at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await read_body(receive) is None:
            return
        if scope["method"] == "POST":
            await self.open.wait()
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": _ANSWER})


class Met:
    """A proxy that meets crowds, its provider, and the crowd's connections."""

    def __init__(self, url: str, pid: int, http: httpx.AsyncClient, gate: Gate) -> None:
        self.gate = gate
        self.open: set[Connection] = set()
        self.pid = pid
        self._url = url
        self._http = http
        self._address = ("127.0.0.1", int(url.rpartition(":")[2]))

    def request(self, number: int, path: str = "/v1/messages") -> bytes:
        """Return one of an agent's requests; there are two hundred agents."""
        body = msgspec.json.encode(
            {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": str(number)}]}
        )
        return (
            f"POST /agent/crowd-{number % 200}{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body

    async def connect(self, number: int) -> Connection | None:
        """Return a connection; None: it is refused."""
        loop, source = asyncio.get_running_loop(), f"127.0.0.{1 + number % _SOURCES}"
        try:
            _, made = await loop.create_connection(
                lambda: Connection(self.open), *self._address, local_addr=(source, 0)
            )
        except ConnectionError:
            return None
        return made

    async def gauge(self, name: str) -> int:
        """Return a metric without labels."""
        text = (await self._http.get(f"{self._url}/metrics")).text
        return next(int(float(line.split()[1])) for line in text.splitlines() if line.startswith(f"hivemind_{name} "))

    async def until(self, true: Callable[[], object]) -> bool:
        """Wait until it is true, and return whether it is in time."""
        until = time.monotonic() + LATE_S
        while not true():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.05)
        return True

    async def until_gauge(self, name: str, most: int, least: int = 0) -> bool:
        """Wait until a metric is in that range, and return whether it is in time."""
        until = time.monotonic() + LATE_S
        while not least <= await self.gauge(name) <= most:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.5)
        return True

    async def look(self, crowd: Crowd, times: int = 100) -> None:
        """Ask for `/_health` again and again, and send requests that cost nothing."""
        taken = []
        for number in range(times):
            begun = time.monotonic()
            answer = await self._http.get(f"{self._url}/_health")
            taken.append((time.monotonic() - begun) * 1e3)
            crowd.alarms = sorted({*crowd.alarms, *(each["text"] for each in answer.json()["alarms"])})
            if number % 5 == 0:
                await self.ask(crowd, "GET", "/v1/models")
            await asyncio.sleep(0.02)
        taken.sort()
        crowd.health_p50_ms, crowd.health_p99_ms = (round(percentile(taken, share), 1) for share in (0.5, 0.99))

    async def ask(self, crowd: Crowd, method: str, path: str) -> None:
        """Send an ordinary request on a connection of its own."""
        content = b"" if method == "GET" else self.request(0).partition(b"\r\n\r\n")[2]
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=LATE_S) as client:
                status = (await client.request(method, f"{self._url}{path}", content=content)).status_code
        except httpx.HTTPError:
            status = 0
        if status == 200:
            crowd.served += 1
        else:
            crowd.refused += 1

    def files(self) -> int:
        """Return how many files the proxy has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def leave(self, connections: Iterator[Connection]) -> None:
        """Go away without a word."""
        for connection in list(connections):
            connection.transport.abort()


@contextlib.asynccontextmanager
async def met(folder: Path, soft: int, hard: int, most: int = 0) -> AsyncIterator[Met]:
    """A proxy started with these limits of open files, and `most` connections; 0: as it derives them."""
    gate = Gate()
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    (folder / "hivemind.toml").write_text(_SETTINGS)
    async with serving(gate) as upstream:
        words = (
            "proxy",
            "--upstream",
            f"lab={upstream}",
            "--port",
            "0",
            "--state-dir",
            "state",
            "--log-level",
            "error",
        )
        argv = (sys.executable, "-c", _PROXY.format(soft=soft, hard=hard), *words, "--max-connections", str(most))
        async with (
            started(argv, _READY, folder) as (url, process),
            httpx.AsyncClient(trust_env=False, timeout=LATE_S) as http,
        ):
            try:
                yield Met(url, process.pid, http, gate)
            finally:
                gate.open.set()


async def waiting(count: int, folder: Path, turns: int = 2) -> list[Crowd]:
    """So many requests wait at once, once or twice. Half of them go away, the others are answered."""
    crowds: list[Crowd] = []
    hard = count + SPARE
    async with met(folder, FILES, hard, count + 20) as proxy:
        for turn in ("first", "again")[:turns]:
            crowd = Crowd(f"requests that wait, {turn}", count, f"{FILES:,} / {hard:,}")
            await _wait(proxy, crowd)
            crowds.append(crowd)
    first, last = crowds[0].rss_peak_mb, crowds[-1].rss_peak_mb
    crowds[-1].holds(last <= first * 1.05, f"the second crowd took {last} MiB, the first {first}")
    return crowds


async def _wait(proxy: Met, crowd: Crowd) -> None:
    proxy.gate.open.clear()
    crowd.rss_before_mb, crowd.files_before = round(rss_mb(proxy.pid), 1), proxy.files()
    outcomes: Counter[str] = Counter()
    asked: list[asyncio.Task[None]] = []
    connections: list[Connection] = []

    async def ask(connection: Connection, number: int) -> None:
        reply = await connection.ask(proxy.request(number))
        outcomes[str(reply.status) if reply.complete else "left" if not reply.status else "cut"] += 1

    for begin in range(0, crowd.asked, _AT_ONCE):
        numbers = range(begin, min(crowd.asked, begin + _AT_ONCE))
        for number, made in zip(numbers, await asyncio.gather(*map(proxy.connect, numbers)), strict=True):
            if made is None:
                outcomes["no connection"] += 1
            else:
                connections.append(made)
                asked.append(asyncio.create_task(ask(made, number)))
    come = await proxy.until_gauge("queue_length", crowd.asked, crowd.asked - IN_FLIGHT)
    crowd.held = await proxy.gauge("queue_length") + await proxy.gauge("in_flight")
    crowd.holds(come, f"only {crowd.held:,} of {crowd.asked:,} requests wait")
    await proxy.look(crowd)
    crowd.rss_peak_mb, crowd.files_peak = round(rss_mb(proxy.pid), 1), proxy.files()
    proxy.leave(iter(connections[::2]))
    left = (len(connections) + 1) // 2
    crowd.holds(await proxy.until_gauge("queue_length", crowd.asked - left), "requests whose clients left wait on")
    proxy.gate.open.set()
    await asyncio.wait(asked, timeout=LATE_S)
    crowd.outcomes = dict(outcomes)
    expected = {"left": left, "200": len(connections) - left}
    crowd.holds(outcomes == expected, f"outcomes {dict(outcomes)} in place of {expected}")
    proxy.leave(iter(proxy.open))
    await _gone(proxy, crowd)


async def _gone(proxy: Met, crowd: Crowd) -> None:
    """Look at what is left when the crowd has gone."""
    crowd.holds(await proxy.until_gauge("queue_length", 0), "requests still wait")
    crowd.holds(await proxy.until_gauge("in_flight", 0), "requests are still in flight")
    # Connections to the upstream are kept open, for the next requests.
    files = crowd.files_before + IN_FLIGHT + 8
    crowd.holds(await proxy.until(lambda: proxy.files() <= files), f"{proxy.files()} files are still open")
    await proxy.look(crowd, 10)
    crowd.rss_after_mb, crowd.files_after = round(rss_mb(proxy.pid), 1), proxy.files()
    crowd.holds(not crowd.refused, f"{crowd.refused} ordinary requests were refused")
    crowd.broken += [f"an alarm: {each}" for each in crowd.alarms if not each.startswith("The event loop")]


async def idle(count: int, hard: int, folder: Path) -> Crowd:
    """So many connections say nothing, or nothing more after an answer; ordinary requests come beside them."""
    soft = min(FILES, hard)
    crowd = Crowd("idle connections", count, f"{soft:,} / {hard:,}")
    async with met(folder, soft, hard) as proxy:
        proxy.gate.open.set()
        crowd.rss_before_mb, crowd.files_before = round(rss_mb(proxy.pid), 1), proxy.files()
        for begin in range(0, count, _AT_ONCE):
            numbers = range(begin, min(count, begin + _AT_ONCE))
            made = await asyncio.gather(*map(proxy.connect, numbers))
            talking = [each for each in made[::2] if each is not None and each.usable]
            asked = b"GET /_health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            asking = [asyncio.wait_for(each.ask(asked), LATE_S) for each in talking]
            await asyncio.gather(*asking, return_exceptions=True)
            await proxy.ask(crowd, "POST", "/v1/messages")
        used_s, begun = cpu_s(proxy.pid), time.monotonic()
        await asyncio.sleep(3.0)
        crowd.cpu_idle_share = round((cpu_s(proxy.pid) - used_s) / (time.monotonic() - begun), 3)
        await proxy.look(crowd)
        crowd.held = len(proxy.open)
        crowd.rss_peak_mb, crowd.files_peak = round(rss_mb(proxy.pid), 1), proxy.files()
        crowd.outcomes = {"held": crowd.held, "closed": count - crowd.held}
        crowd.holds(crowd.served, "no ordinary request was answered")
        crowd.holds(crowd.cpu_idle_share < BUSY, f"{crowd.cpu_idle_share:.0%} of a processor while nothing happens")
        proxy.leave(iter(proxy.open))
        await _gone(proxy, crowd)
    return crowd


def allow_files(wanted: int) -> int:
    """Raise this process's limits of open files to what is wanted, or as far as it may; return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (max(hard, wanted), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, most)), most))
        except (OSError, ValueError):
            continue  # only the superuser may have more than the hard limit
        break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def possible(count: int) -> int:
    """Return how many requests can wait at once with the files that may be open, at most `count`: each is a connection
    of its own, here and at the proxy."""
    return min(count, allow_files(count + SPARE) - SPARE)


def broken(crowds: Sequence[Crowd]) -> list[str]:
    """Return the promises that weren't kept, a line each."""
    return [f"{crowd.what} ({crowd.limit}): {line}" for crowd in crowds for line in crowd.broken]


async def measure(count: int, connections: int, folder: Path) -> list[Crowd]:
    """Let all crowds come."""
    show_progress(f"{count:,} requests that wait")
    crowds = await waiting(possible(count), folder / "waiting")
    for hard in (4 * FILES, 8 * FILES, FILES):
        show_progress(f"{connections:,} idle connections, {hard:,} files")
        crowds.append(await idle(connections, hard, folder / f"{hard}"))
    return crowds


def main() -> int:
    """Measure and print. The exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak.crowd", description=__doc__)
    parser.add_argument("--waiting", type=int, default=WAITING, metavar="N", help="requests at once [%(default)s]")
    parser.add_argument("--idle", type=int, default=IDLE, metavar="N", help="idle connections [%(default)s]")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file; - for standard output")
    given = parser.parse_args()
    try:
        target = JsonOutput(given.json)
        with tempfile.TemporaryDirectory(prefix="hivemind-crowd-", ignore_cleanup_errors=True) as folder:
            crowds = run_loop(measure(given.waiting, given.idle, Path(folder)))
    except HiveMindError as error:
        print(f"benchmarks.soak.crowd: {error}", file=sys.stderr)
        return 2
    show_progress("")
    wrong = broken(crowds)
    found: dict[str, Any] = {"version": __version__, "crowds": [asdict(each) for each in crowds], "broken": wrong}
    target.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    if not target.replaces_tables:
        print(format_table(crowd_rows(found["crowds"]), left=2))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
