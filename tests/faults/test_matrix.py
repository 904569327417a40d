"""Every fault at every moment, for every format: what comes of it is what the rule says, and what the manual says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from faults.cells import Cell, Outcome, cells, expected, run
from faults.table import page
from faults.upstream import Ending

PAGE = Path(__file__).parents[2] / "docs/figures/fault-matrix.md"


async def test_some_cells() -> None:
    """Some of one format's faults that strike once, without those that take time."""
    chosen = [cell for cell in cells() if cell.api.name == "openai_responses" and not cell.lasting]
    slow = (Ending.SILENT, Ending.REFUSED)
    check(await run([cell for cell in chosen if cell.ending not in slow][::7]))


@pytest.mark.slow
async def test_every_cell(request: pytest.FixtureRequest) -> None:
    """On real sockets, many at a time; the page is written from what was observed."""
    found = await run(list(cells()))
    check(found)
    text = page(found)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8"), "write docs/figures/fault-matrix.md anew with --update-golden"


def check(found: Mapping[Cell, Outcome]) -> None:
    """Compare with the rule."""
    told = [(cell, outcome, expected(cell)) for cell, outcome in found.items()]
    wrong = [f"{cell}: {outcome!r}, not {rule!r}" for cell, outcome, rule in told if outcome != rule]
    assert not wrong, "\n".join(sorted(wrong))
