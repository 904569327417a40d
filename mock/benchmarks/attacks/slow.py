"""A thousand slow clients, by slowhttptest (https://github.com/shekyan/slowhttptest), beside eight ordinary ones."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from benchmarks.perf import servers
from benchmarks.perf.load import Load, put_load
from benchmarks.perf.target import PerfError, Target
from hivemind.records import replace

PROGRAM = "slowhttptest"
CONNECTIONS = 1_000
CLIENTS = 8
GOAL = 2.0
"""How many times the 99th percentile of the ordinary clients may be what it is without the attack."""
_PER_S = 500
_WARM_S = 1.0
_MEASURE_S = 6.0
_CONNECT_S = 10.0
"""Longest wait until all are connected; on a busy machine slowhttptest takes longer than it means to."""
_SETTLE_S = 6.0
"""More than slowhttptest takes to count its connections again."""
_LASTS_S = 25
"""Less than a head may take, so that all are there until the end."""
_HOSTILE = "slow"
"""Name of the upstream with the answer that slow readers ask for."""
_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_CONNECTED = re.compile(rb"connected: *([0-9]+)")

MODES: dict[str, tuple[str, ...]] = {
    "slow heads": ("-H", "-i", "5", "-x", "24", "-u", "/v1/messages"),
    "slow bodies": ("-B", "-i", "5", "-s", "8192", "-x", "10", "-u", "/v1/messages"),
    "slow readers": (
        "-X",
        "-n",
        "5",
        "-w",
        "1",
        "-y",
        "1",
        "-z",
        "1",
        "-u",
        f"/to/{_HOSTILE}/answer/deltas/v1/messages",
    ),
}


@dataclass(frozen=True, slots=True)
class SlowResult:
    """What ordinary clients notice of slow ones."""

    attack: str
    connections: int
    """Slow ones that were open at once."""
    alone_p50_ms: float
    alone_p99_ms: float
    """The mean of before and after."""
    connecting_p99_ms: float
    """While the slow ones connect and take what fits into buffers."""
    p50_ms: float
    p99_ms: float
    """Once they only hold their connections."""
    verdict: str

    @property
    def times(self) -> float:
        """By how much the 99th percentile grew."""
        return self.p99_ms / self.alone_p99_ms


async def measure_slow(mode: str, measure_s: float = _MEASURE_S) -> SlowResult:
    """Put one kind of slow clients on a proxy of its own, and measure what ordinary clients see before, while the slow
    ones connect, while they only hold their connections, and after.

    Raises: PerfError: slowhttptest isn't installed, or didn't connect.
    """
    async with (
        servers.upstream() as behind,
        servers.module("benchmarks.attacks.upstream") as hostile,
        servers.hivemind(behind, "hivemind", "--upstream", f"{_HOSTILE}={hostile}") as served,
    ):
        proxy = replace(served, prefix="/to/generic/agent/perf-{}")  # of two upstreams none is guessed
        before = await _load(proxy, measure_s)
        with tempfile.TemporaryFile() as output:
            async with _slow_clients(proxy, MODES[mode], output):
                connecting = await _load(proxy, measure_s)
                await _all_connected(proxy)
                await asyncio.sleep(_SETTLE_S)
                meanwhile = await _load(proxy, measure_s)
            output.seek(0)
            said = _COLOUR.sub(b"", output.read())
        after = await _load(proxy, measure_s)
    connected = max((int(found) for found in _CONNECTED.findall(said)), default=0)
    if not connected:
        raise PerfError(f"{PROGRAM} didn't connect")
    p50 = (before.p50_ms + after.p50_ms) / 2
    p99 = (before.p99_ms + after.p99_ms) / 2
    verdict = "ok" if meanwhile.p99_ms <= GOAL * p99 else "slow"
    return SlowResult(mode, connected, p50, p99, connecting.p99_ms, meanwhile.p50_ms, meanwhile.p99_ms, verdict)


def is_installed() -> bool:
    """Return whether there is a slowhttptest (Debian's package of that name)."""
    return shutil.which(PROGRAM) is not None


async def _load(proxy: Target, measure_s: float) -> Load:
    return await put_load(proxy, CLIENTS, warm_s=_WARM_S, measure_s=measure_s)


async def _all_connected(proxy: Target) -> None:
    """Wait until the slow clients are connected, but no longer than :data:`_CONNECT_S` (Linux)."""
    port = f":{urlsplit(proxy.url).port:04X} "
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            while sum(port in row[:20] and row[34:36] == "01" for row in _sockets()) < CONNECTIONS:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


def _sockets() -> list[str]:
    """Return the system's table of TCP sockets over IPv4: number, own address, the other's, state ..., in columns."""
    return Path("/proc/net/tcp").read_text("ascii").splitlines()


@asynccontextmanager
async def _slow_clients(proxy: Target, flags: tuple[str, ...], output: IO[bytes]) -> AsyncIterator[None]:
    """The slow clients, which connect at once; what slowhttptest prints is in `output` afterwards."""
    *mode, path = flags
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, *mode, proxy.url + path, "-c", str(CONNECTIONS), "-r", str(_PER_S), "-l", str(_LASTS_S)),
        stdout=output,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # on which it prints what it has counted
        await process.wait()
