"""Promises about the tree as a whole, which no single module can keep."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from contracts.sources import PACKAGES, ROOT, modules

import hivemind


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.e2e
def test_the_core_needs_no_screen() -> None:
    """Importing every module of the core loads neither Textual nor any package but its own."""
    script = (
        "import importlib, pkgutil, sys, hivemind\n"
        "for found in pkgutil.walk_packages(hivemind.__path__, 'hivemind.'):\n"
        "    importlib.import_module(found.name)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules}"
        " & {'textual', 'plotext', 'hivemind_tui', 'hivemind_mock', 'hivemind_styles'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_no_colours_in_stylesheets() -> None:
    """Stylesheets name the theme's colours and have none of their own."""
    sheets = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.tcss"))
    assert sheets
    own = re.compile(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)|\b(?:rgba?|hsla?)\(")
    assert names([path for path in sheets if own.search(path.read_text("utf-8"))]) == []


def test_links() -> None:
    """Each relative link in the pages at the root leads to a file."""
    pages = sorted(ROOT.glob("*.md"))
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)|src(?:set)?=\"([^\"]+)\"", page.read_text("utf-8"))
    ]
    local = [(page.name, one or other) for page, (one, other) in links if not (one or other).startswith("http")]
    assert local
    assert [(page, link) for page, link in local if not (ROOT / link).exists()] == []


def test_paths() -> None:
    """Each file and folder that these pages name in backticks exists; capitals are placeholders."""
    named = [
        (page, path)
        for page in ("ARCHITECTURE.md", "CONTRIBUTING.md")
        for path in re.findall(r"`([a-z_.]+/[a-z_./]*)`", (ROOT / page).read_text("utf-8"))
    ]
    assert named
    packages = [ROOT / package for package in PACKAGES]
    roots = [ROOT, *packages, *(folder for package in packages for folder in package.iterdir() if folder.is_dir())]
    roots += [ROOT / "tui", ROOT / "mock", ROOT / "docs"]
    # What git no longer has may have left a folder with nothing but bytecode.
    there = {path for path in {path for _, path in named} for root in roots if _holds_files(root / path)}
    assert [(page, path) for page, path in named if path not in there] == []


def _holds_files(path: Path) -> bool:
    return path.is_file() or any(each.is_file() and each.suffix != ".pyc" for each in path.rglob("*"))


def test_python_is_started_without_the_working_directory() -> None:
    """A folder's `hivemind_tui.py` isn't run in place of ours by `-m`; see also `tui/test_plots.py`."""
    started = r'sys\.executable,\s*"-[cm]"'
    assert names([each for each in modules(*PACKAGES) if re.search(started, each.read_text("utf-8"))]) == []


def test_readme_is_short() -> None:
    """The README introduces; the manual explains."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 200


def test_version() -> None:
    """The package and its metadata agree, and the changelog has an entry or collects one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == hivemind.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_constraints_are_names_and_versions() -> None:
    """Nothing but exact versions: no address of a registry, no path of a machine; and every dependency is there."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {re.fullmatch(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.+!]+", line) for line in lines}
    assert None not in pinned
    found = {re.sub(r"[-_.]+", "-", match[1]).lower() for match in pinned if match}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    optional = [name for names in project["project"]["optional-dependencies"].values() for name in names]
    wanted = [
        *project["project"]["dependencies"],
        *optional,
        *(one for group in project["dependency-groups"].values() for one in group if isinstance(one, str)),
    ]
    assert {re.split(r"[^A-Za-z0-9-]", name)[0].lower() for name in wanted} - found == set()
