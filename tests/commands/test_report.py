"""`hivemind report` as a program."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import pytest
from commands.kit import run, started
from lab.report_kit import a_night, began, journal

from hivemind.cli.lab import report
from hivemind.errors import UsageError
from hivemind.journal.codec import line_of
from hivemind.journal.write.segment import JournalPart
from hivemind.lab.report import output
from hivemind.parser import Parser


@pytest.mark.e2e
async def test_page(tmp_path: Path) -> None:
    """A page is written beside where it was asked for, named after the journal, and its path is told."""
    journal(tmp_path / "night.jsonl", a_night())
    ended = await started(tmp_path, "report", "./night.jsonl", TZ="UTC")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("night.html: ")
    text = (tmp_path / "night.html").read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "2026-11-21 08:33:20 UTC" in text
    assert [name for name in os.listdir(tmp_path) if "night" in name and not name.startswith("night.")] == []


async def test_markdown(tmp_path: Path) -> None:
    """The summary goes to standard output, with the title that was asked for."""
    journal(tmp_path / "night.jsonl", a_night())
    ended = await run(tmp_path, "report", "./night.jsonl", "--markdown", "--title", "Night | shift")
    assert (ended.code, ended.err) == (0, "")
    assert "### Night \\| shift\n" in ended.out
    assert "| agents finished | 2 of 3 |" in ended.out


async def test_names_of_journals(tmp_path: Path) -> None:
    """A journal is found by its name in the state directory; what is wrong with it is told, and the report made."""
    folder = tmp_path / "state" / "journals"
    folder.mkdir(parents=True)
    name = "20261121-083320-8765"
    path = journal(folder / f"{name}.jsonl", a_night()[:-1], began(journal=name))
    with path.open("ab") as file:
        file.write(line_of(a_night()[0])[:20])
    ended = await run(tmp_path, "report", "latest", "--markdown", "--out", "-")
    assert ended.code == 0
    assert ended.err.startswith(f"hivemind: {name}.jsonl: The last line isn't whole")
    assert "> The last line isn't whole" in ended.out


async def test_still_being_written(tmp_path: Path) -> None:
    """Of a journal that a proxy still writes the report says so; of one that was cut off, that it was."""
    path = tmp_path / "night.jsonl"
    part = JournalPart(path)
    part.append(b"".join(line_of(event) for event in (began(), *a_night()[:-1])))
    going_on = await run(tmp_path, "report", "./night.jsonl", "--markdown")
    part.close()
    cut_off = await run(tmp_path, "report", "./night.jsonl", "--markdown")
    assert (going_on.code, going_on.err) == (
        0,
        "hivemind: night.jsonl: It is still being written: this is its state so far.\n",
    )
    assert "> It is truncated: the program that wrote it was killed." in cut_off.out


async def test_written_over(tmp_path: Path) -> None:
    """A report is replaced by the next one; another file only when that is asked for."""
    journal(tmp_path / "night.jsonl", a_night())
    (tmp_path / "notes.md").write_text("mine")
    asked = ("report", "./night.jsonl", "--markdown", "--out", "notes.md")
    refused = await run(tmp_path, *asked)
    assert refused.both == (2, "hivemind: notes.md: is there already, and isn't a report; --force writes over it")
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert (await run(tmp_path, *asked, "--force")).both == (0, "notes.md")
    assert (await run(tmp_path, *asked)).both == (0, "notes.md")
    assert "agents finished" in (tmp_path / "notes.md").read_text()


async def test_damaged(tmp_path: Path) -> None:
    """What isn't a journal is one clear line."""
    (tmp_path / "noise.jsonl").write_bytes(os.urandom(2000))
    ended = await run(tmp_path, "report", "./noise.jsonl")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "noise.html").exists()


@pytest.mark.parametrize("out", ["night.jsonl", "./night.jsonl"])
async def test_the_journal_is_never_written_over(tmp_path: Path, out: str) -> None:
    """Not even --force writes a report over its journal."""
    path = journal(tmp_path / "night.jsonl", a_night())
    before = path.read_bytes()
    ended = await run(tmp_path, "report", "./night.jsonl", "--out", out, "--force")
    assert ended.both == (2, "hivemind: --out night.jsonl: is the journal itself")
    assert path.read_bytes() == before


@pytest.mark.parametrize("library", ["plotly", "jinja2"])
def test_without_a_library(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where plotly or jinja2 is missing, one line says what to install, and the summary is made without it."""
    from hivemind.cli.main import main

    path = journal(tmp_path / "night.jsonl", a_night())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["report", str(path)]) == 2
    assert capsys.readouterr().err == (
        "hivemind: the page needs plotly and jinja2: pip install 'hivemind-tui[lab]'; --markdown works without them\n"
    )
    for name in [name for name in sys.modules if name.startswith(("hivemind.lab.report", f"{library}."))]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["report", str(path), "--markdown", "--out", "out.md"]) == 0
    assert (tmp_path / "out.md").exists()


def test_folder_as_out(tmp_path: Path) -> None:
    """In a folder the report has the journal's name."""
    path = journal(tmp_path / "night.2.jsonl", a_night())
    parser = _parsed("x", "--out", str(tmp_path))
    assert report._out(parser, [path]) == tmp_path / "night.2.html"


def test_keeping_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that can't be written whole leaves what was there, and nothing else."""
    path = tmp_path / "report.html"
    output.write(path, "old")

    def full(descriptor: int, mode: int) -> None:
        os.write(descriptor, b"ha")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(UsageError, match=r"report\.html: can't be written \(No space left on device\)"):
        output.write(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_keeping_through_a_link(tmp_path: Path) -> None:
    """A link stays a link, and what it leads to keeps its mode."""
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "report.html", tmp_path / "report.html"
    output.write(real, "old")
    real.chmod(0o640)
    link.symlink_to(real)
    output.write(link, "new")
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "new", 0o640)


@pytest.mark.parametrize(
    ("place", "told"), [("nowhere/r.html", "there is no folder"), ("there", "is a folder"), ("mine.html", "--force")]
)
def test_places_that_can_not_be_written(tmp_path: Path, place: str, told: str) -> None:
    """Where nothing may be written that is told before the journal is read."""
    (tmp_path / "there").mkdir()
    (tmp_path / "mine.html").write_text("<html>")
    with pytest.raises(UsageError, match=told):
        output.check_writable(tmp_path / place, force=False)


def _parsed(*args: str) -> argparse.Namespace:
    parser = Parser(prog="hivemind report")
    report.command.configure(parser)
    return parser.parse_args(args)
