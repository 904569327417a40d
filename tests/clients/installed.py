"""The clients that are installed: programs in PATH, or in the folders that HIVEMIND_CLIENTS names, and JavaScript's
packages in a `node_modules` above such a folder."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

VARIABLE = "HIVEMIND_CLIENTS"
"""Folders with the clients' programs, separated as in PATH: `.../node_modules/.bin`, `.../venv/bin`."""
FOLDERS = [Path(each) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
PATH = os.pathsep.join([*map(str, FOLDERS), os.environ.get("PATH", os.defpath)])
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


def node_modules() -> Path | None:
    """Return the folder of JavaScript's packages; None: there is none beside the programs."""
    return next((folder.parent for folder in FOLDERS if folder.parent.name == "node_modules"), None)


def python_with(package: str) -> str:
    """Return the Python of the first environment among the folders that has this package of PyPI; else say so."""
    found = (str(folder / "python") for folder in FOLDERS if _distribution(folder, package) is not None)
    return next(found, f"an environment with {package}")


def _distribution(folder: Path, package: str) -> Path | None:
    pattern = f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info"
    return next(folder.parent.glob(pattern), None)


def missing(program: str, package: str = "") -> str:
    """Return why a client can't be started; empty: it can. `package`: what it needs of PyPI, if the program is Python,
    or of npm."""
    if shutil.which(program, path=PATH) is None:
        return f"{program} isn't installed: put it in PATH, or its folder into {VARIABLE}"
    if program == sys.executable:
        found = PathFinder.find_spec(package.partition(".")[0])  # not what stands for it in tests until it is used
        return "" if found is not None else f"the package {package} isn't installed"
    modules = node_modules()
    if not package:
        return ""
    if modules is None or not (modules / package).is_dir():
        return f"the package {package} isn't installed: npm install it, and put node_modules/.bin into {VARIABLE}"
    return ""


@functools.cache
def version(program: str, package: str) -> str:
    """Return the version of a client: of its package, else what `--version` says."""
    modules = node_modules()
    if program == sys.executable:
        return importlib.metadata.version(package)
    if package and (distribution := _distribution(Path(program).parent, package)) is not None:
        return distribution.stem.rpartition("-")[2]
    if package and modules is not None and (found := modules / package / "package.json").is_file():
        return str(json.loads(found.read_text("utf-8"))["version"])
    environ = {**os.environ, "PATH": PATH}
    done = subprocess.run([program, "--version"], env=environ, capture_output=True, text=True, timeout=60, check=False)
    number = _VERSION.search(done.stdout)
    return number[0] if number else "?"
