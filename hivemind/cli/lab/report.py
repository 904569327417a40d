"""`hivemind report`: a page about a recorded run, or a summary for a pull request."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from hivemind.cli.address import FILE_HELP, add_folder_flags
from hivemind.cli.journals import find_journals
from hivemind.cli.plugin import Command
from hivemind.console import print_note, printable
from hivemind.errors import UsageError
from hivemind.journal.read.reader import open_journal
from hivemind.lab.report import output
from hivemind.prices import prices_at
from hivemind.text.humanise import size

_STANDARD_OUTPUT = "-"
_ABOUT = (
    "Write one self-contained HTML page about a recorded run: its course, what each agent did, waits, failed attempts"
    " and their outcome, money, and what HiveMind saved. It loads nothing from anywhere, so it can be sent and kept."
    " An existing report is replaced, any other file only with --force."
)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [FILE ...] [--out FILE] [--markdown] [flags]"
    parser.description = _ABOUT
    add = parser.add_argument
    add("file", metavar="FILE", nargs="+", help=f"{FILE_HELP}; of several proxies: as one run")
    out = (
        "where to write, - for standard output [the journal's name with .html, in this folder; of --markdown, standard"
    )
    add("--out", metavar="FILE", help=f"{out} output]")
    add("--markdown", action="store_true", help="write a short summary for a pull request instead")
    add("--title", metavar="TEXT", default="", help="title [the journal's name]")
    add("--force", action="store_true", help="write over a file that isn't a report")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    if not namespace.markdown:
        _check_libraries()
    paths = find_journals(namespace, namespace.file)
    out = _out(namespace, paths)
    if out is not None:
        output.check_writable(out, force=namespace.force)
    from hivemind.lab.report.run import read

    run = read(paths, prices_at(), _zone(paths[0]))
    for note in run.notes:
        print_note(printable(note) if len(paths) > 1 else f"{printable(paths[0].name)}: {printable(note)}")
    if namespace.markdown:
        from hivemind.lab.report.tables import build
    else:
        from hivemind.lab.report.page import build
    text = build(run, namespace.title)
    if out is None:
        sys.stdout.buffer.write(text.encode())
        return 0
    output.write(out, text)
    print(f"{printable(str(out))}: {size(len(text.encode()))}" if len(text) > 100_000 else printable(str(out)))
    return 0


def _check_libraries() -> None:
    """Raises: UsageError: a library of the page isn't installed."""
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ImportError:
        raise UsageError(
            "the page needs plotly and jinja2: pip install 'hivemind-tui[lab]'; --markdown works without them"
        ) from None


def _out(namespace: argparse.Namespace, journals: Sequence[Path]) -> Path | None:
    """Return where to write; None: to standard output. Raises: UsageError."""
    if namespace.out == _STANDARD_OUTPUT or (namespace.out is None and namespace.markdown):
        return None
    more = f"+{len(journals) - 1}" if len(journals) > 1 else ""
    name = f"{journals[0].name.removesuffix('.jsonl')}{more}{'.md' if namespace.markdown else '.html'}"
    if namespace.out is None:
        return Path(name)
    out = Path(os.path.expanduser(namespace.out))
    if not namespace.out:
        raise UsageError("--out: must be a file, or - for standard output")
    out = out / name if out.is_dir() else out
    if out.exists() and any(out.samefile(journal) for journal in journals):
        raise UsageError(f"--out {printable(str(out))}: is the journal itself")
    return out


def _zone(path: Path) -> tzinfo:
    """Return this machine's zone as it was when the run began, so that all times of a report are in one zone."""
    try:
        return datetime.fromtimestamp(open_journal(path).began.wall).astimezone().tzinfo or UTC
    except (ValueError, OverflowError, OSError):
        return UTC


command = Command(_configure, _run)
