"""What one sync costs a real Redis, by the number of members: time inside the server, and the size of the state."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import redis

from hivemind.fleet.messages import PROTOCOL, SyncReply, SyncReport, WindowDemand

MEMBERS = (3, 20, 100)
WINDOWS = ("default|requests", "default|input", "default|output")
SYNCS = 2_000
_KEY = "hm:lane:00000000000000000000000000000000"
_START = 1_700_000_000.0


@dataclass(frozen=True, slots=True)
class SyncCost:
    """Of one sync, on average."""

    members: int
    server_ms: float
    """CPU time of Redis, which doesn't depend on what else the machine does."""
    round_trip_ms: float
    """With the way there and back over a unix socket, sent from Python."""
    state_kb: float


def sync_costs() -> list[SyncCost]:
    """Measure with a redis-server of our own. Raises: FileNotFoundError: there is none."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise FileNotFoundError("neither redis-server nor valkey-server is installed")
    with tempfile.TemporaryDirectory(prefix="hm-") as folder:
        path = Path(folder) / "redis.sock"
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            while not path.exists():
                time.sleep(0.01)
            with redis.Redis(unix_socket_path=str(path)) as client:
                return [_measure(client, members) for members in MEMBERS]
        finally:
            server.kill()
            server.wait()


def _measure(client: redis.Redis, members: int) -> SyncCost:
    """Sync every member four times a second; each wants more of three windows and of the slots than it gets."""
    script = client.register_script(resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8"))
    rng = random.Random(1)
    client.flushall()
    known: dict[int, SyncReply] = {}
    took_s = used_s = 0.0
    for number in range(SYNCS + 4 * members):
        if number == 4 * members:
            used_s, took_s = _cpu_s(client), 0.0
        member, now = number % members, _START + number * 0.25 / members
        windows = {}
        for name in WINDOWS:
            before = known[member].windows[name].give if member in known else 0.0
            windows[name] = WindowDemand(
                used=[(0.1, before)] if before else [],
                wanted=[0.0, 0.0, rng.uniform(2, 20), 0.0, 1.0],
                first=1.0,
                limit=600.0,
                rank=2,
            )
        report = SyncReport(
            PROTOCOL,
            f"{member:016x}",
            number,
            epoch=known[member].epoch if member in known else "",
            version=known[member].version if member in known else 0,
            windows=windows,
            in_flight=[0, 0, rng.randrange(4), 0],
            waiting=[0, 0, rng.randrange(9), 0],
            agents=[0.0, 0.0, 10.0, 0.0],
            ceiling=2.0 * members,
        )
        text = msgspec.json.encode(report)
        began = time.perf_counter()
        answer: Any = script(keys=[_KEY], args=[text, "00000000", repr(now)])
        took_s += time.perf_counter() - began
        known[member] = msgspec.json.decode(answer, type=SyncReply)
    used_s = _cpu_s(client) - used_s
    size: Any = client.strlen(_KEY)
    return SyncCost(members, used_s / SYNCS * 1e3, took_s / SYNCS * 1e3, size / 1e3)


def _cpu_s(client: redis.Redis) -> float:
    """Return the CPU time of the server so far."""
    stats: Any = client.info("cpu")
    return float(stats["used_cpu_user"]) + float(stats["used_cpu_sys"])
