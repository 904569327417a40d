"""`python -m benchmarks.foresight.figures FOLDER FILE...`: how right predictions are, as tables of the manual.

Writes `foresight-figures.md` into the folder, from what `benchmarks.foresight --json` wrote into the files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.foresight.cases import Case
from benchmarks.foresight.score import HEAD, rows

NAME = "foresight-figures.md"


@dataclass(frozen=True, slots=True)
class Found:
    """What one run of the benchmark found."""

    what: str
    """Which worlds these were."""
    version: str
    cores: int
    cases: list[Case]


def text_of(found: Sequence[Found]) -> str:
    """Return the tables of these runs."""
    return "\n".join(_table(each) for each in found)


def _table(found: Found) -> str:
    worlds = len({each.world for each in found.cases})
    lines = [
        f"### {found.what[0].upper()}{found.what[1:]}",
        "",
        f"{worlds} worlds, {len(found.cases)} changed settings; version {found.version}, {found.cores} cores.",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows(found.cases)), ""])


def main() -> int:
    """Read what was measured, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.foresight.figures", description=__doc__)
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    parser.add_argument("found", type=Path, nargs="+", help="what benchmarks.foresight --json wrote")
    namespace = parser.parse_args()
    found = [msgspec.json.decode(each.read_bytes(), type=Found) for each in namespace.found]
    (namespace.folder / NAME).write_text(text_of(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
