"""The pictures of the README: all are there, and those taken anew show what the committed ones do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "screenshots"


def script() -> ModuleType:
    """Import the script that takes them."""
    spec = importlib.util.spec_from_file_location("screenshots_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_picture_is_committed_and_no_other() -> None:
    """A PNG for each, and the text of those that are the same every time."""
    make = script()
    pictures = (*make.PICTURES, *make.RECORDED, *make.WHAT_IF)
    assert {path.stem for path in FOLDER.glob("*.png")} == {picture.name for picture in pictures}
    assert {path.stem for path in FOLDER.glob("*.txt")} == {picture.name for picture in pictures if picture.same}
