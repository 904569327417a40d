"""What is installed with HiveMind is all that it imports; other packages belong to the developers."""

from __future__ import annotations

import contextlib
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from itertools import chain

import grimp
from contracts.cycles import ROOTS as OURS
from contracts.sources import ROOT


def folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: Iterable[str]) -> set[str]:
    return {folded(re.split(r"[^A-Za-z0-9._-]", each)[0]) for each in requirements}


def installed() -> set[str]:
    """The declared packages, and those that come with them in any case."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, new = set[str](), named([*project["dependencies"], *chain(*project["optional-dependencies"].values())])
    while new:
        found |= new
        needed = set[str]()
        for name in new:
            with contextlib.suppress(PackageNotFoundError):  # of another platform
                needed |= named(each for each in requires(name) or () if "extra ==" not in each)
        new = needed - found
    return found


def test_everything_that_is_imported_is_declared() -> None:
    """A fresh environment without the developers' group has it all, or what it belongs to."""
    known, found = installed(), packages_distributions()
    graph = grimp.build_graph(*OURS, include_external_packages=True, cache_dir=None)
    missing = {
        (importer, name)
        for name in graph.modules
        if graph.is_module_squashed(name) and name not in sys.stdlib_module_names
        if known.isdisjoint(map(folded, found.get(name.partition(".")[0], ())))
        for importer in graph.find_modules_that_directly_import(name)
    }
    assert {each for each in missing if each[1] not in ("_typeshed", "compression")} == set()
