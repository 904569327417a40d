"""What is installed with HiveMind is all that it imports; other packages belong to the developers."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"hivemind", "hivemind_tui", "hivemind_mock", "hivemind_styles", "_typeshed"}
PACKAGES = ("hivemind", "tui/hivemind_tui", "mock/hivemind_mock", "styles/hivemind_styles")


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


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_everything_that_is_imported_is_declared() -> None:
    """A fresh environment without the developers' group has it all, or what it belongs to."""
    known, found = installed(), packages_distributions()
    missing = {
        (str(path.relative_to(ROOT)), name)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in imported(path) - OURS - set(sys.stdlib_module_names) - {"compression"}
        if known.isdisjoint(map(folded, found.get(name, ())))
    }
    assert not missing
