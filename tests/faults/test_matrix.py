"""Every fault at every moment, for every format: what comes of it is what the rule says, and what the manual says."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.cells import cells, expected, run
from faults.table import page

PAGE = Path(__file__).parents[2] / "docs" / "fault-matrix.md"


async def test_every_cell(request: pytest.FixtureRequest) -> None:
    """On real sockets, many at a time; the page is written from what was observed."""
    chosen = list(cells())
    found = await run(chosen)
    wrong = [f"{cell}: {found[cell]!r}, not {expected(cell)!r}" for cell in chosen if found[cell] != expected(cell)]
    assert not wrong, "\n".join(wrong)
    text = page(found)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(text, encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8"), "write docs/fault-matrix.md anew with --update-golden"
