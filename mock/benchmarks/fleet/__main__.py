"""`python -m benchmarks.fleet`: a fleet of proxies that share one key, measured with a real Redis and a provider that
counts.

Each proxy has a network namespace of its own where that is permitted (Linux, root, `ip`, `iptables`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fleet import crowd, faults, runs
from benchmarks.fleet.network import Network, network, why_not
from benchmarks.fleet.programs import REDIS
from hivemind import __version__
from hivemind.errors import HiveMindError
from hivemind_mock.bench.main import JsonOutput, show_progress

Run = Callable[[Network, Path], Awaitable[dict[str, Any]]]


def chosen(minutes: float, short: float, fault: str = "") -> dict[str, Run]:
    """Return every run by its name. `minutes`: of the steady ones; `short`: of the others; `fault`: only the faults
    whose name contains this."""
    return {
        "fleet": lambda net, folder: runs.steady(net, folder, minutes, fleet=True),
        "apart": lambda net, folder: runs.steady(
            net, folder, minutes, fleet=False, work=round((minutes + 0.9) * runs.RPM)
        ),
        "apart, nothing stated": lambda net, folder: runs.steady(
            *(net, folder, minutes), fleet=False, work=round((minutes + 0.9) * runs.RPM), stated=False
        ),
        "fleet, nothing stated": lambda net, folder: runs.steady(net, folder, short, fleet=True, stated=False),
        "tokens": lambda net, folder: runs.tokens(net, folder, short),
        "critical, slots": lambda net, folder: runs.critical(net, folder, short, slots=10),
        "critical, requests": lambda net, folder: runs.critical(net, folder, short),
        "faults": lambda net, folder: faults.faults(net, folder, fault),
        "crowd": lambda net, folder: crowd.crowd(net, folder, min(short, 2.0)),
        "overhead": lambda net, folder: crowd.overhead(folder, rounds=15),
    }


async def measure(names: dict[str, Run], folder: Path, keep: Callable[[str, dict[str, Any]], None]) -> None:
    """Carry out these runs, one after the other. Raises: PerfError."""
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    isolated = not why_not()
    for number, (name, run) in enumerate(names.items()):
        print(f"{name} ...", file=sys.stderr)
        with network(3, isolated=isolated) as net:
            found = await run(net, folder / f"{number}")
        show_progress("")
        print(f"{name}: {msgspec.json.encode(found).decode()}", file=sys.stderr)
        keep(name, found)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="of the steady runs [%(default)g]")
    parser.add_argument("--short", type=float, default=4.0, metavar="N", help="minutes of the others [%(default)g]")
    parser.add_argument("--only", default="", metavar="NAMES", help="of the runs, by name, with ; between")
    parser.add_argument("--fault", default="", metavar="TEXT", help="of the faults, by parts of names")
    parser.add_argument("--keep", metavar="FOLDER", help="keep logs and journals there")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file, beside those it has already")
    namespace = parser.parse_args()
    if REDIS is None:
        print("benchmarks.fleet: there is no redis-server on the path", file=sys.stderr)
        return 2
    if reason := why_not():
        print(f"benchmarks.fleet: {reason}; all proxies share the loopback, and none is cut off", file=sys.stderr)
    results: dict[str, Any] = {}
    path = Path(namespace.json) if namespace.json else None
    if path is not None and path.exists() and path.stat().st_size:
        results = msgspec.json.decode(path.read_bytes())
    results |= {"version": __version__, "cores": os.cpu_count(), "namespaces": not why_not()}
    try:
        output = JsonOutput(namespace.json)

        def keep(name: str, found: dict[str, Any]) -> None:
            results.setdefault("runs", {})[name] = found
            output.write(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")

        every = chosen(namespace.minutes, namespace.short, namespace.fault)
        wanted = namespace.only.split(";") if namespace.only else list(every)
        names = {name: every[name] for name in wanted}
        with (
            tempfile.TemporaryDirectory(prefix="hivemind-fleet-", ignore_cleanup_errors=True) as folder,
            contextlib.suppress(asyncio.CancelledError),
        ):
            asyncio.run(measure(names, Path(namespace.keep or folder), keep))
    except HiveMindError as error:
        print(f"benchmarks.fleet: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
