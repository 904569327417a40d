"""`python -m benchmarks.foresight`: foretell what changed settings do in worlds drawn from seeds, and see."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.figures import table as figures_table
from benchmarks.foresight.cases import Case, cases, run_on_sockets
from benchmarks.foresight.score import figures, table
from benchmarks.worlds.kinds import KINDS
from benchmarks.worlds.strange.kinds import strange_world
from benchmarks.worlds.world import World, shortened, world
from hivemind import __version__
from hivemind.errors import HiveMindError, UsageError
from hivemind_mock.bench.main import JsonOutput, show_progress

_PROCESSES = 2
_AT_ONCE = 5
"""Worlds that run in real time at once."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.foresight", description=__doc__)
    add = parser.add_argument
    add("--seeds", metavar="A:B", default="0:24", help="worlds of the seeds from A to B - 1 [0:24]")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--kinds", metavar="KINDS", help=f"worlds of these kinds alone, of {', '.join(KINDS)}; several: K+K"
    )
    where.add_argument("--strange", action="store_true", help="worlds that no model describes exactly")
    add("--sockets", action="store_true", help="shortened worlds in real time over sockets of the loopback interface")
    add("--cache", metavar="FOLDER", help="where what the worlds did is kept [nowhere]")
    add("--each", action="store_true", help="print every case, too")
    add("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
        worlds = _worlds(_seeds(namespace.seeds), namespace.kinds, strange=namespace.strange)
        found = measured(worlds, namespace.cache, on_sockets=namespace.sockets)
    except HiveMindError as error:
        print(f"benchmarks.foresight: {error}", file=sys.stderr)
        return error.exit_code
    show_progress("")
    made = figures(found, strange=namespace.strange)
    about = {"what": _what(namespace), "version": __version__, "cores": os.cpu_count()}
    record = {**about, "figures": made, "cases": found}
    output.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    if not output.replaces_tables:
        if namespace.each:
            print("\n".join(map(_line, found)) + "\n")
        print(table(found) + "\n")
        print(figures_table("foresight", made))
    return 0


def _what(namespace: argparse.Namespace) -> str:
    worlds = "worlds that no model describes" if namespace.strange else "strangers' worlds"
    return f"{worlds} on sockets" if namespace.sockets else worlds


Drawn = tuple[int, list[str] | None] | int
"""A world by its seed and kinds; by its seed alone a strange one."""


def _worlds(seeds: Sequence[int], kinds: str | None = None, *, strange: bool = False) -> list[Drawn]:
    """Return the worlds of seeds. Raises: UsageError: a kind is unknown."""
    if strange:
        return list(seeds)
    chosen: list[list[str] | None] = [each.split("+") for each in kinds.split(",")] if kinds else [None]
    for name in (each for some in chosen for each in some or ()):
        if name not in KINDS:
            raise UsageError(f"--kinds {name}: there are {', '.join(KINDS)}")
    return [(seed, some) for seed in seeds for some in chosen]


def measured(worlds: Sequence[Drawn], cache: str | None = None, *, on_sockets: bool = False) -> list[Case]:
    """Return the cases of worlds."""
    with tempfile.TemporaryDirectory(prefix="hivemind-foresight-") as made:
        folder = Path(cache or made)
        if on_sockets:
            # They mostly sleep. What is foretold comes afterwards, so that it takes no time from them.
            with ProcessPoolExecutor(_AT_ONCE) as pool:
                for number, _ in enumerate(pool.map(partial(_run_on_sockets, folder), worlds), 1):
                    show_progress(f"foresight: ran world {number} of {len(worlds)} in real time")
        with ProcessPoolExecutor(_PROCESSES) as pool:
            results = []
            for number, part in enumerate(pool.map(partial(_cases, folder, on_sockets), worlds), 1):
                show_progress(f"foresight: world {number} of {len(worlds)}")
                results += part
    return results


def _world(drawn: Drawn, *, on_sockets: bool) -> World:
    made = strange_world(drawn) if isinstance(drawn, int) else world(*drawn)
    return shortened(made) if on_sockets else made


def _run_on_sockets(folder: Path, drawn: Drawn) -> None:
    run_on_sockets(_world(drawn, on_sockets=True), folder)


def _cases(folder: Path, on_sockets: bool, drawn: Drawn) -> list[Case]:
    return cases(_world(drawn, on_sockets=on_sockets), folder)


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    if not (first.isdecimal() and (not colon or last.isdecimal())):
        raise UsageError(f"--seeds {text}: must be A:B, as in 0:24")
    return range(int(first), int(last) if colon else int(first) + 1)


def _line(case: Case) -> str:
    walls, waits = (" ".join(f"{each:.0f}" for each in came) for came in (case.real_wall_s, case.real_waited_s))
    wall, wait = (
        f"{said.value:.0f} ({said.low or 0:.0f}-{said.high or 0:.0f})" for said in (case.wall_s, case.waited_s)
    )
    return f"{case.world:32} {case.change:28} wall {wall} real {walls}; wait {wait} real {waits}"


if __name__ == "__main__":
    sys.exit(main())
