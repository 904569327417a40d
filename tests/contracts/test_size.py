"""How long the program and its tests may be."""

from __future__ import annotations

import pytest
from contracts.sources import modules

PRODUCT = ("hivemind", "tui", "mock/hivemind_mock", "styles")


@pytest.mark.parametrize(("what", "folders", "most"), [("product", PRODUCT, 107_264), ("tests", ("tests",), 100_466)])
def test_lines(what: str, folders: tuple[str, ...], most: int) -> None:
    """Counted in the working tree's files of Python, with blank lines and comments."""
    lines = sum(path.read_bytes().count(b"\n") for path in modules(*folders))
    assert lines <= most, (
        f"the {what} has {lines:,} lines, {lines - most:,} more than its ceiling of {most:,}: take lines away. An issue"
        " raises the ceiling on purpose or it isn't raised at all"
    )
