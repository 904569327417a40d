"""The kept faults fit the tree: `make mutants` can try each."""

from __future__ import annotations

import ast

import pytest
from mutants.run import Mutant, load


@pytest.mark.parametrize("mutant", load(), ids=str)
def test_a_fault_can_be_made(mutant: Mutant) -> None:
    """What it replaces is there once, what comes of it is Python, and its tests exist."""
    ast.parse(mutant.applied())


def test_each_area_has_its_faults() -> None:
    """Twenty of the scheduler, the proxy and the providers each, at least, and none twice."""
    mutants = load()
    for area in ("scheduler", "proxy", "providers"):
        assert sum(each.file.startswith(f"hivemind/{area}/") for each in mutants) >= 20
    assert len({(each.file, each.original, each.mutated) for each in mutants}) == len(mutants)
