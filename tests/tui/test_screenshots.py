"""The pictures of the README: all are there, and those taken anew show what the committed ones do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.mark.e2e
def test_pictures_taken_anew_show_what_the_committed_ones_do(tmp_path: Path) -> None:
    """The script checks each picture itself; the text of deterministic ones is what was committed."""
    make = script()
    done = subprocess.run([sys.executable, FOLDER / "make.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pictures = (*make.PICTURES, *make.RECORDED, *make.WHAT_IF)
    assert {path.stem for path in tmp_path.glob("*.svg")} == {picture.name for picture in pictures}
    for picture in pictures:
        if picture.same:
            taken, committed = (folder / f"{picture.name}.txt" for folder in (tmp_path, FOLDER))
            assert taken.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), picture.name
