"""Compare `hivemind proxy --workers N` with one process: requests per second, and what each costs.

Both are loaded in turn, round after round, by clients in a closed loop. The clients and the provider are Python too and
share the machine, so more workers answer more requests only where cores are left for them; what a request costs is told
in any case. The processor time counts all processes: workers, supervisor and store.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benchmarks.perf import servers
from benchmarks.perf.load import Load, put_load
from hivemind import __version__
from hivemind.errors import HiveMindError
from hivemind.host.loop import run_loop
from hivemind.host.workers.embedded_store import find_server
from hivemind_mock.bench.main import JsonOutput, format_table, show_progress

CLIENTS = (32, 128)
"""One process is also measured with the clients that each worker has: requests that come together cost less."""
ROUNDS = 5
WARM_S = 1.0
MEASURE_S = 2.0
FIRST_LEASE_S = 3.0
"""Before all workers have their first lease of a lane, which later ones don't wait for."""
FIGURES = "workers-figures.md"


async def measure(workers: int, rounds: int, measure_s: float, progress: Callable[[str], None]) -> list[Load]:
    """Return what the clients saw of one process, named `1`, and of the workers, named by their number.

    Raises: PerfError.
    """
    found: list[Load] = []
    async with (
        servers.upstream() as behind,
        servers.hivemind(behind, "1") as one,
        servers.hivemind(behind, str(workers), "--workers", str(workers)) as several,
    ):
        await put_load(several, CLIENTS[0], warm_s=FIRST_LEASE_S, measure_s=0.1)
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            turns = [
                turn for clients in CLIENTS for turn in ((one, clients // workers), (one, clients), (several, clients))
            ]
            # The other way round every other time, so that a drift favours neither.
            for target, clients in turns if number % 2 == 0 else reversed(turns):
                found.append(await put_load(target, clients, warm_s=WARM_S, measure_s=measure_s))
    return found


def summary(found: Sequence[Load], workers: int) -> dict[str, Any]:
    """Return the medians over the rounds, as JSON."""
    rows = []
    for clients in CLIENTS:
        for processes, count in (("1", clients // workers), ("1", clients), (str(workers), clients)):
            loads = [each for each in found if (each.target, each.clients) == (processes, count)]
            rows.append(
                {
                    "clients": count,
                    "processes": int(processes),
                    "per_s": median(each.per_s for each in loads),
                    "p50_ms": median(each.p50_ms for each in loads),
                    "p99_ms": median(each.p99_ms for each in loads),
                    "cpu_us": median(each.cpu_us or 0.0 for each in loads),
                }
            )
    return {"version": __version__, "cores": os.cpu_count(), "rows": rows}


def rows_of(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the table's rows, the head first."""
    rows: list[tuple[str, ...]] = [("clients", "processes", "requests/s", "p50 ms", "p99 ms", "CPU µs/request")]
    for row in summary["rows"]:
        times = f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"
        rows.append(
            (f"{row['clients']}", f"{row['processes']}", f"{row['per_s']:,.0f}", *times, f"{row['cpu_us']:.0f}")
        )
    return rows


def markdown(summary: Mapping[str, Any]) -> str:
    """Return the table for the manual."""
    head, *rows = rows_of(summary)
    lines: list[tuple[str, ...]] = [head, ("--:",) * len(head), *rows]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"Measured on {summary['cores']} cores, version {summary['version']}.\n\n{table}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print or write the figures, and return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.workers", description=__doc__)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes to compare with one [2]")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"of each [{ROUNDS}]")
    parser.add_argument("--measure-s", type=float, default=MEASURE_S, metavar="SECONDS", help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    parser.add_argument("--docs", metavar="FOLDER", type=Path, help=f"write {FIGURES} there")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
        find_server()
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        workers: int = namespace.workers
        found = run_loop(measure(workers, namespace.rounds, namespace.measure_s, show_progress))
    except HiveMindError as error:
        print(f"benchmarks.workers: {error}", file=sys.stderr)
        return error.exit_code
    show_progress("")
    figures = summary(found, workers)
    output.write(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    if namespace.docs is not None:
        (namespace.docs / FIGURES).write_text(markdown(figures))
    if not output.replaces_tables:
        print(format_table(rows_of(figures), left=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
