"""Pictures of the screen: text where it was, files that never replace others, PNGs where there is a converter."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from rich.text import Text
from tui.decks import write
from tui.kit import SMALLEST, press, room, said, screen, seen, wait_until
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.snapshot import RecordingView
from hivemind_tui.commands.files import begun, placed_text, write_new


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
    """A second picture of the moment gets a number."""
    assert write_new(tmp_path, "a", "<svg/>").name == "a.svg"
    assert write_new(tmp_path, "a", "<svg/>").name == "a-2.svg"


@pytest.mark.e2e
async def test_a_live_room_takes_pictures_and_writes_the_report(tmp_path: Path) -> None:
    """Both into its folder; without a recording there is nothing to report on, or to list."""
    journal = write(tmp_path)
    source = FakeSource(replace(world(), recording=RecordingView(str(journal), 1, 0, "")))
    async with screen(source, folder=tmp_path) as pilot:
        await press(pilot, "@picture", until=lambda: bool([*tmp_path.glob("hivemind-*.svg")]))
        await press(pilot, "@report")
        await wait_until(pilot, lambda: any(journal.stem in text and "written" in text for text in said(pilot)))
        assert (tmp_path / f"{journal.stem}.html").exists()
    async with screen(FakeSource(world()), SMALLEST) as pilot:
        await press(pilot, "@report @journals")
        assert [text.partition(";")[0] for text in said(pilot)] == ["nothing is recorded"]


def test_a_journal_is_known_by_its_day() -> None:
    """The last two by a word, which finds them."""
    yesterday = datetime.now().astimezone() - timedelta(days=1)
    assert begun(yesterday.timestamp()) == f"yesterday {yesterday:%H:%M}"
    assert " Nov " in begun(datetime(2025, 11, 24, 10, 23).timestamp())


async def test_journals_are_listed_and_one_is_played_back(tmp_path: Path) -> None:
    """Another program does, once this screen has ended; a browser's room says how."""
    folder = tmp_path / "demo-journals"
    folder.mkdir()
    journal = write(folder)
    recorded = replace(world(), recording=RecordingView(str(journal), 1, 0, ""))
    for terminal in (False, True):
        async with screen(FakeSource(recorded)) as pilot:
            room(pilot).has_terminal = terminal
            await press(pilot, "g", until=lambda: room(pilot).palette.is_open)
            assert re.search(r"demo \S+, \d+ agents, \d+ requests", seen(pilot, "palette"))
            await pilot.press("enter")
            assert terminal or f"in a terminal: hivemind-tui --replay {journal.stem}" in said(pilot)[-1]
        assert [*pilot.app.aside[-2:]] == (["--replay", str(journal)] if terminal else [])  # type: ignore[attr-defined]
