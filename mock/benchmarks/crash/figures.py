"""`python -m benchmarks.crash.figures FILE ... FOLDER`: what `make crash` found, as a table of the manual.

Writes `crashes-figures.md` into the folder, from as many results as are given.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.crash.result import Kill

_NAMES = {"proxy": "proxy", "room": "control room", "batch": "batch's runner", "run": "`hivemind run`"}
_HEAD = """\
| killed | moment | kills | usage lost, s, worst | damaged last lines | drafts left, most | broken promises |
|---|---|--:|--:|--:|--:|--:|
"""


def text_of(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of these results, with a line above it."""
    kills = [msgspec.convert(each, Kill) for one in found for each in one["kills"]]
    seeds = [str(one["seed"]) for one in found]
    broken = sum(len(one["broken"]) for one in found)
    shown = f"seeds {', '.join(seeds[:-1])} and {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    promises = f"{broken} broken promises" if broken else "no promise broken"
    groups: dict[tuple[str, str], list[Kill]] = {}
    for kill in kills:
        groups.setdefault((kill.victim, kill.moment), []).append(kill)
    rows = "".join(_row(victim, moment, group) for (victim, moment), group in sorted(groups.items()))
    return f"{len(kills):,} kills ({shown}), {promises}:\n\n{_HEAD}{rows}"


def _row(victim: str, moment: str, group: Sequence[Kill]) -> str:
    serves = victim in ("proxy", "room")
    cells = (
        *(_NAMES[victim], moment, f"{len(group)}"),
        f"{max(kill.lost_s for kill in group):.2f}" if serves else "",
        f"{sum(kill.torn_lines for kill in group)}" if serves else "",
        f"{max(kill.drafts for kill in group)}",
        f"{sum(len(kill.broken) for kill in group)}",
    )
    return f"| {' | '.join(cells)} |\n"


def main() -> int:
    """Read the results, and write the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.crash.figures", description=__doc__)
    parser.add_argument("found", type=Path, nargs="+", help="what benchmarks.crash --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs/figures")
    namespace = parser.parse_args()
    found = [msgspec.json.decode(path.read_bytes()) for path in namespace.found]
    (namespace.folder / "crashes-figures.md").write_text(text_of(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
