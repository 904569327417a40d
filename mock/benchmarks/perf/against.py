"""Compare this tree's proxy with another one's: `python -m benchmarks.perf.against TREE`.

Both run beside each other and are loaded in turns, so that what else the machine does hits both alike. What counts is
the processor time of a unit of work, and its ratio in each pair: this tree's over the other's, or over nginx's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.perf import servers
from benchmarks.perf.load import put_load
from benchmarks.perf.metering import cpu_s
from benchmarks.perf.streams import read_streams
from benchmarks.perf.target import PerfError, Target
from benchmarks.perf.wire import Pace
from hivemind.errors import HiveMindError, UsageError
from hivemind.host.loop import run_loop
from hivemind.records import replace
from hivemind_mock.bench.main import JsonOutput, show_progress

_CLIENTS = 16
_WARM_S, _MEASURE_S = 1.0, 4.0
_TURNS = 100
"""Of a long request: 100 kB, as a coding agent's conversation soon has."""
_STREAMS = 300
_PACE = Pace(events=60, every_s=0.1)
_SKIP = 15
_MICRO, _MILLI = 1e6, 1e3


@dataclass(frozen=True, slots=True)
class Compared:
    """A unit of work, measured in pairs."""

    what: str
    over: str
    """What this tree's is divided by."""
    unit: str
    theirs: float
    """Median."""
    ours: float
    ratio: float
    """Median of the pairs' ratios, and their quartiles."""
    lower: float
    upper: float


def compared(what: str, over: str, unit: str, pairs: Sequence[tuple[float, float]]) -> Compared:
    """Sum up pairs of (the other's, ours); there are at least two."""
    theirs, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    lower, middle, upper = statistics.quantiles([one / other for other, one in pairs], n=4, method="inclusive")
    return Compared(what, over, unit, theirs, ours, middle, lower, upper)


def interpreter(tree: Path) -> str:
    """Return the Python of a tree's environment. Raises: UsageError: it has none."""
    python = tree / ".venv" / "bin" / "python"
    if not python.exists():
        raise UsageError(f"{tree}: no .venv/bin/python in it: a checkout where `make setup` has run is needed")
    return str(python.absolute())


async def measure(python: str, name: str, pairs: int) -> list[Compared]:
    """Load both, and nginx where it is installed. Raises: PerfError: one of them didn't start or answer."""
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(servers.upstream())
        starts: list[tuple[float, float]] = []
        for _ in range(pairs):
            show_progress(f"start {len(starts) + 1} of {pairs}")
            starts.append((await _start_cpu_s(direct, python), await _start_cpu_s(direct, sys.executable)))
        theirs = await stack.enter_async_context(servers.hivemind(direct, name, python=python))
        ours = await stack.enter_async_context(servers.hivemind(direct, "this tree"))
        targets = [theirs, ours]
        if (program := servers.find_nginx()) is not None:
            targets.append(await stack.enter_async_context(servers.nginx(program, direct)))
        found = [compared("start of the proxy", name, "ms", [(_MILLI * a, _MILLI * b) for a, b in starts])]
        for what, unit_us in (("request", _request_us), ("long request", _long_request_us), ("event", _event_us)):
            turns = await _in_turns(targets, unit_us, pairs, what)
            for other in (0, *range(2, len(targets))):
                found.append(compared(what, targets[other].name, "us", [(turn[other], turn[1]) for turn in turns]))
        return found


async def _in_turns(
    targets: Sequence[Target], unit_us: Callable[[Target], Awaitable[float]], pairs: int, what: str
) -> list[list[float]]:
    for target in targets:
        await unit_us(target)  # caches and tables fill
    turns = []
    for number in range(pairs):
        show_progress(f"{what}, turn {number + 1} of {pairs}")
        # Neither is always the first: what the one leaves behind, the next one may pay for.
        order = targets if number % 2 else targets[::-1]
        took = {target.name: await unit_us(target) for target in order}
        turns.append([took[target.name] for target in targets])
    return turns


async def _request_us(target: Target) -> float:
    return _measured(target, (await put_load(target, _CLIENTS, warm_s=_WARM_S, measure_s=_MEASURE_S)).cpu_us)


async def _long_request_us(target: Target) -> float:
    return await _request_us(replace(target, turns=_TURNS))


async def _event_us(target: Target) -> float:
    return _measured(target, (await read_streams(target, _STREAMS, _PACE, skip=_SKIP)).cpu_us)


async def _start_cpu_s(behind: Target, python: str) -> float:
    async with servers.hivemind(behind, python=python) as target:
        assert target.pid is not None
        await asyncio.sleep(0.5)  # what is left for after the start counts too
        return cpu_s(target.pid)


def _measured(target: Target, cpu_us: float | None) -> float:
    if cpu_us is None:
        raise PerfError(f"{target.name}: this system doesn't tell a process's processor time")
    return cpu_us


def table(found: Sequence[Compared]) -> str:
    """Return a table of Markdown."""
    lines = ["| | over | theirs | this tree | ratio | quartiles |", "|---|---|---:|---:|---:|---|"]
    for each in found:
        figures = f"{each.theirs:.1f} {each.unit} | {each.ours:.1f} {each.unit} | {each.ratio:.3f}"
        lines.append(f"| {each.what} | {each.over} | {figures} | {each.lower:.3f} to {each.upper:.3f} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and return the exit code: 2 for an argument that can't be used or a server that didn't start."""
    parser = argparse.ArgumentParser(prog="benchmarks.perf.against", description=__doc__)
    parser.add_argument("tree", type=Path, metavar="TREE", help="a checkout of another version, with its environment")
    parser.add_argument("--pairs", type=int, default=7, metavar="N", help="turns of each measurement, at least 2 (7)")
    parser.add_argument("--json", metavar="FILE", help="write every figure to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        if namespace.pairs < 2:
            raise UsageError(f"--pairs {namespace.pairs}: at least 2 are needed for a median and quartiles")
        target = JsonOutput(namespace.json)
        python = interpreter(namespace.tree)
        found = run_loop(measure(python, namespace.tree.absolute().name, namespace.pairs))
        show_progress("")
        target.write(msgspec.json.encode(found))
        if not target.replaces_tables:
            print(table(found))
    except HiveMindError as error:
        print(f"benchmarks.perf.against: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
