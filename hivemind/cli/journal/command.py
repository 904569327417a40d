"""`hivemind journal`: list, show, count, export and import what proxies recorded. Reads files, so none needs to run."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from importlib import import_module
from typing import Any

import msgspec

from hivemind.cli.journal.options import add_folder_flags, state_folder
from hivemind.cli.plugin import Command
from hivemind.console import json_text, printable
from hivemind.journal.files import folder_in
from hivemind.journal.read.listing import Listed, listed
from hivemind.parser import Parser
from hivemind.text.humanise import duration, size
from hivemind.text.table import Cell, Column, lines, show, width

_COLUMNS = (
    Column("JOURNAL"),
    Column("BEGUN", spare=1),
    Column("LENGTH", right=True),
    Column("PARTS", right=True, spare=4),
    Column("SIZE", right=True, spare=2),
    Column("REQUESTS", right=True, spare=3),
    Column("FROM", spare=5),
    Column("END"),
)
_ENDS = {"still being written": "good", "cut off": "warn", "ended": "dim"}
_WORDS = (
    ("show", "show", "the events of one, a line each"),
    ("stats", "stats", "what one came to: requests, waits, retries, tokens, dollars"),
    ("export", "exporting", "the requests of one as CSV, or as HAR with all that was recorded of them"),
    ("import", "importing", "make a journal of a HAR file or a mitmproxy dump"),
)
"""Each word, its module, and what it is for."""


class _Subcommand(Parser):
    """A word's own parser; its module is imported when the word is used, as some take a while."""

    module = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self.module:
            module = import_module(f"{__package__}.{self.module}")
            self.module = ""
            module.configure(self)
            self.set_defaults(act=module.run)
        return super().parse_known_args(args, namespace)


def _configure(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(title="words", metavar="WORD", required=True, parser_class=_Subcommand)
    ls = words.add_parser("ls", help="all there are, the newest first", description="List all journals.")
    ls.add_argument("--json", action="store_true", help="print JSON")
    add_folder_flags(ls)
    ls.set_defaults(act=_list)
    for word, name, summary in _WORDS:
        one = words.add_parser(word, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        one.module = name


def _run(namespace: argparse.Namespace) -> int:
    code: int = namespace.act(namespace)
    return code


def _list(namespace: argparse.Namespace) -> int:
    folder = folder_in(state_folder(namespace))
    found, wrong = listed(folder)
    if namespace.json:
        rows = [asdict(each) | {"path": str(each.path)} for each in found]
        print(json_text(msgspec.json.encode(rows)))
    elif not found:
        print(f"no journals in {folder}")
    else:
        show(lines(_COLUMNS, [_row(each) for each in found], width()))
    sys.stdout.flush()
    for line in wrong:
        print(f"hivemind: {printable(line)}", file=sys.stderr)
    return 2 if wrong and not found else 0


def _row(journal: Listed) -> list[Cell | str]:
    return [
        journal.name,
        _moment(journal.began),
        duration(journal.length_s),
        f"{journal.parts:,}",
        size(journal.bytes),
        "" if journal.requests is None else f"{journal.requests:,}",
        "" if journal.source == "proxy" else printable(journal.source),
        Cell(journal.end, _ENDS.get(journal.end, "")),
    ]


def _moment(wall: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))
    except (OverflowError, ValueError, OSError):
        return "no such time"


command = Command(_configure, _run)
