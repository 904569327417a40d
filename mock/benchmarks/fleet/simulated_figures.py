"""`python -m benchmarks.fleet.simulated_figures FILE FOLDER`: what `make fleet-simulation` found, as tables of the
manual. Writes `fleet-simulation-figures.md` into the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.fleet.simulated import Figures, Found

_SHOWN = 4  # proxies up to which each one's share is shown
_CASES = """\
| case | most in 60 s | limit used | shares (by weight) | misplaced | NORMAL waits p50, p95, s | CRITICAL waits p50, p95, s | syncs/s of a proxy |
|---|--:|--:|---|--:|--:|--:|--:|
"""  # noqa: E501 - a row of a table
_COSTS = """
One sync of a lane with three windows that don't suffice, on average:

| proxies | CPU time of Redis, ms | with the way there and back, ms | state, KB |
|--:|--:|--:|--:|
"""


def text_of(found: Found) -> str:
    """Return the tables."""
    rows = [
        f"| {cost.members} | {cost.server_ms:.2f} | {cost.round_trip_ms:.2f} | {cost.state_kb:.0f} |\n"
        for cost in found.costs
    ]
    return "".join([_CASES, *map(_row, found.cases), _COSTS, *rows])


def _row(case: Figures) -> str:
    few = len(case.shares) <= _SHOWN
    shares = ", ".join(f"{share:.3f}".lstrip("0") or "0" for share in case.shares)
    weights = ", ".join(f"{weight:.3f}".lstrip("0") or "0" for weight in case.weights)
    cells = (
        case.name,
        f"{case.worst_minute:,}" if case.limit else "",
        f"{case.used:.1%}" if case.used is not None else "",
        f"{shares} ({weights})" if few else "",
        f"{case.misplaced:.1%}",
        f"{case.normal_s[0]:.2f}, {case.normal_s[1]:.1f}",
        f"{case.critical_s[0]:.2f}, {case.critical_s[1]:.2f}" if case.critical_s is not None else "",
        f"{case.syncs_per_s:.1f}",
    )
    return f"| {' | '.join(cells)} |\n"


def main(args: Sequence[str] | None = None) -> int:
    """Read what was found, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.simulated_figures", description=__doc__)
    parser.add_argument("found", type=Path, help="what benchmarks.fleet.simulated --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    namespace = parser.parse_args(args)
    found = msgspec.json.decode(namespace.found.read_bytes(), type=Found)
    (namespace.folder / "fleet-simulation-figures.md").write_text(text_of(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
