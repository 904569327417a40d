"""The search for import cycles that `make check` runs."""

from __future__ import annotations

import pytest
from contracts.cycles import cycles, main


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["a"]}, [["a", "b"]]),
        ({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": ["e"], "e": ["d"]}, [["d", "e"], ["b", "c"]]),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, []),
        ({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["b"]}, [["a", "b", "c", "d"]]),
        ({"a": ["elsewhere"]}, []),
    ],
)
def test_cycles(imports: dict[str, list[str]], found: list[list[str]]) -> None:
    """Every strongly connected component of more than one node is found, and no other."""
    assert cycles(imports) == found


def test_main(capsys: pytest.CaptureFixture[str]) -> None:
    """The tree has no cycle."""
    assert main() == 0
    assert capsys.readouterr().out == ""
