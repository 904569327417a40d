"""docs/security.md says nothing that no test shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from security.canaries import places

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
WHO = (
    *("an agent", "a run's process", "the operator", "an MCP client", "another user", "a web page"),
    *("another machine", "an upstream", "a member of the fleet", "another's folder"),
)


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the first table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def named(cell: str) -> list[tuple[str, str]]:
    """File and function of each test that a cell names."""
    return [(file, function) for file, function in re.findall(r"`([^`]+)::([^`]+)`", cell)]


@cache
def _tests_in(file: str) -> dict[str, ast.AST]:
    """The tests of a file, by name."""
    path = ROOT / "tests" / file
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_text("utf-8"))
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each.name: each for each in functions if each.name.startswith("test_")}


def _of_this_page() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "tests" / "security").glob("test_*.py")):
        for name in _tests_in(f"security/{path.name}"):
            yield f"security/{path.name}", name


@pytest.mark.parametrize("row", rows("Who may do what"), ids=lambda row: f"{row[0]} {row[1]} {row[2]}"[:60])
def test_every_row_is_shown_by_a_test(row: list[str]) -> None:
    """Who, whether it may, what, and at least one test that exists."""
    who, may, what, shown = row
    assert who in WHO
    assert may in ("may", "may not")
    assert what
    assert named(shown)
    assert [f"{file}::{name}" for file, name in named(shown) if name not in _tests_in(file)] == []


def test_where_a_key_may_be() -> None:
    """The table is what the search for keys goes by."""
    assert rows("What is masked, and its limits") == [[row.where, row.what] for row in places.ALLOWED]


def test_everybody_has_a_row() -> None:
    """What each may not is said."""
    assert {row[0] for row in rows("Who may do what") if row[1] == "may not"} == set(WHO)


def test_every_test_has_a_row() -> None:
    """What the tests of that folder show is said in the page."""
    said = set(named(PAGE))
    assert [each for each in _of_this_page() if each not in said] == []
