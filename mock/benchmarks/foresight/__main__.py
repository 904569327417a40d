"""`python -m benchmarks.foresight`: foretell what changed settings do in worlds drawn from seeds, and see."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.figures import table as figures_table
from benchmarks.foresight.cases import Case, Foretold, cases
from benchmarks.foresight.score import figures, table
from hivemind.errors import HiveMindError, UsageError
from hivemind_mock.bench.main import JsonOutput, show_progress
from hivemind_mock.worlds.kinds import KINDS
from hivemind_mock.worlds.world import world

_PROCESSES = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.foresight", description=__doc__)
    add = parser.add_argument
    add("--seeds", metavar="A:B", default="0:24", help="worlds of the seeds from A to B - 1 [0:24]")
    add("--kinds", metavar="KINDS", help=f"worlds of these kinds alone, of {', '.join(KINDS)}; several: K+K")
    add("--cache", metavar="FOLDER", help="where what the worlds did is kept [nowhere]")
    add("--each", action="store_true", help="print every case, too")
    add("--json", metavar="FILE", help="write the figures to a file; - for standard output")
    namespace = parser.parse_args(argv)
    try:
        output = JsonOutput(namespace.json)
        found = measured(_seeds(namespace.seeds), namespace.kinds, namespace.cache)
    except HiveMindError as error:
        print(f"benchmarks.foresight: {error}", file=sys.stderr)
        return error.exit_code
    show_progress("")
    made = figures(found, strange=False)
    output.write(msgspec.json.format(msgspec.json.encode({"figures": made, "cases": found}), indent=2) + b"\n")
    if not output.replaces_tables:
        if namespace.each:
            print("\n".join(map(_line, found)) + "\n")
        print(table(found) + "\n")
        print(figures_table("foresight", made))
    return 0


def measured(seeds: Sequence[int], kinds: str | None = None, cache: str | None = None) -> list[Case]:
    """Return the cases of worlds. Raises: UsageError: a kind is unknown."""
    chosen: list[list[str] | None] = [each.split("+") for each in kinds.split(",")] if kinds else [None]
    for name in (each for some in chosen for each in some or ()):
        if name not in KINDS:
            raise UsageError(f"--kinds {name}: there are {', '.join(KINDS)}")
    jobs = [(seed, some) for seed in seeds for some in chosen]
    with tempfile.TemporaryDirectory(prefix="hivemind-foresight-") as made:
        folder = Path(cache or made)
        with ProcessPoolExecutor(_PROCESSES) as pool:
            results = []
            for number, part in enumerate(pool.map(partial(_cases, folder), jobs), 1):
                show_progress(f"foresight: world {number} of {len(jobs)}")
                results += part
    return results


def _cases(folder: Path, job: tuple[int, list[str] | None]) -> list[Case]:
    return cases(world(*job), folder)


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


def _said(figure: Foretold) -> str:
    between = "" if figure.low is None or figure.high is None else f" ({figure.low:.0f} to {figure.high:.0f})"
    return f"{figure.value:.0f}{between}"


if __name__ == "__main__":
    sys.exit(main())
