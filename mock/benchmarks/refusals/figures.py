"""`python -m benchmarks.refusals.figures FILE FOLDER`: what was measured, as tables of the manual.

Writes `refusals-figures.md` into the folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.refusals.__main__ import STATUSES, Found
from benchmarks.refusals.clients import AGENTS, SDKS

_MOMENTS = [*((status, "at once") for status in STATUSES), (400, "in a session"), (400, "in a stream")]
_HEAD = f"| client | {' | '.join(f'{status} {when}' for status, when in _MOMENTS)} |\n|---|{'--:|' * len(_MOMENTS)}\n"


def text_of(found: Sequence[Found]) -> str:
    """Return a table for the agents, and one for the SDKs."""
    return "\n".join(_HEAD + "".join(_row(client.name, found) for client in group) for group in (AGENTS, SDKS))


def _row(name: str, found: Sequence[Found]) -> str:
    mine = {(each.status, each.when): each for each in found if each.client == name}
    cells = [_cell(mine[moment]) if moment in mine else "" for moment in _MOMENTS]
    return f"| {name} | {' | '.join(cells)} |\n" if mine else ""


def _cell(one: Found) -> str:
    count = f"{one.requests}" if one.exit_code is not None else f"{one.requests} and more"
    took = f" in {one.took_s:.0f} s" if one.requests > 2 else ""
    return f"{count}{took}{'' if one.shown else ', not shown'}"


def main() -> int:
    """Read what was measured, and write the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.refusals.figures", description=__doc__)
    parser.add_argument("found", type=Path, help="what benchmarks.refusals --json wrote")
    parser.add_argument("folder", type=Path, help="for example docs")
    namespace = parser.parse_args()
    found = msgspec.json.decode(namespace.found.read_bytes(), type=list[Found])
    (namespace.folder / "refusals-figures.md").write_text(text_of(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
