"""Pictures of the screen: text where it was, files that never replace others, PNGs where there is a converter."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from hivemind_tui.replay_app import as_png, placed_text, write_new


def exported(text: str) -> str:
    console = Console(record=True, width=40, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115 - a sink
    console.print(Text(text, style="red"))
    svg = console.export_svg(title="t")
    console.file.close()
    return svg


def test_text_keeps_its_place() -> None:
    """Each piece between wide gaps has a place of its own; nothing is fetched from elsewhere."""
    svg = placed_text(exported("one two   <three> & four"))
    places = [node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]
    assert ["".join(node.itertext()).replace("\xa0", " ").strip() for node in places if "-r" in node.get("class", "")][
        :2
    ] == ["one two", "<three> & four"]
    assert "url(http" not in svg


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A second picture of the moment gets a number, also where only the PNG of the first is left."""
    assert write_new(tmp_path, "a", "<svg/>").name == "a.svg"
    assert write_new(tmp_path, "a", "<svg/>").name == "a-2.svg"
    (tmp_path / "b.png").touch()
    assert write_new(tmp_path, "b", "<svg/>").name == "b-2.svg"


def converter(folder: Path, script: str) -> str:
    path = folder / "convert"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


async def test_a_png_stands_beside(tmp_path: Path) -> None:
    """The converter is told the width, and where from and to."""
    svg = write_new(tmp_path, "a", "<svg/>")
    made = await as_png(svg, 80, converter(tmp_path, 'echo "$@" > "$4"'))
    assert made == tmp_path / "a.png"
    assert made.read_text() == f"-w 800 -o {made} {svg}\n"


async def test_a_converter_that_fails_is_no_trouble(tmp_path: Path) -> None:
    """The SVG is there, and that is that."""
    svg = write_new(tmp_path, "a", "<svg/>")
    assert await as_png(svg, 80, converter(tmp_path, "exit 3")) is None
    assert await as_png(svg, 80, str(tmp_path / "none")) is None
