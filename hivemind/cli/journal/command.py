"""`hivemind journal`: list, show, sum up, export and import what proxies recorded. Reads files, so none needs to run.

The flags of every word are here, for help and shell completion; its module, which may take a while to import, is
imported when the word is used.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from hivemind.cli.address import FILE_HELP, add_folder_flags, add_journal_flags
from hivemind.cli.plugin import Command
from hivemind.journal.importers import FORMATS

_COLUMNS = "of any CSV or JSON: what its columns hold, as in start=ts,input=in,output=out"
_EXPORT = "the requests of one as CSV, or as HAR with all that was recorded of them"


def _configure(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(title="words", metavar="WORD", required=True)

    def added(word: str, run: str, summary: str, *aliases: str) -> argparse.ArgumentParser:
        one = words.add_parser(word, aliases=aliases, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        one.set_defaults(function=run)
        return one

    lists = added("list", "reading:list_journals", "all there are, the newest first", "ls")
    lists.description = "List all journals."
    lists.add_argument("--json", action="store_true", help="print JSON")
    add_folder_flags(lists)

    show = added("show", "reading:show_events", "the events of one, a line each")
    add_journal_flags(show)
    add = show.add_argument
    add("--since", metavar="T", help="from then on: 18:05, 2026-11-21T18:05, or 5m after the beginning")
    add("--until", metavar="T", help="and no further")
    add("--agent", metavar="NAME", action="append", default=[], help="only this agent's; several times")
    add("--event", metavar="KIND", action="append", default=[], help="only this kind's; several times")
    add("--json", action="store_true", help="print them as they stand there, and each one's time of day")

    stats = added("stats", "reading:show_stats", "figures of one: requests, waits, retries, tokens, dollars")
    stats.add_argument("file", metavar="FILE", nargs="+", help=f"{FILE_HELP}; of several proxies: together")
    add_folder_flags(stats)
    stats.add_argument("--json", action="store_true", help="print JSON")

    export = added("export", "reading:export", _EXPORT)
    add_journal_flags(export)
    form = export.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true", help="a row a request, for spreadsheets")
    har = "an entry an attempt, for browsers' tools; with recorded bodies"
    form.add_argument("--har", action="store_true", help=har)
    export.add_argument("--out", metavar="FILE", help="write there, readable by you alone [standard output]")

    imported = added("import", "importing:run", "make a journal of what other programs recorded")
    imported.description = f"Make a journal of what other programs recorded: {FORMATS}."
    add = imported.add_argument
    add("source", metavar="SOURCE", nargs="+", help="files, folders and patterns; what each is shows its content")
    add("--columns", metavar="NAME=COLUMN,...", help=_COLUMNS)
    add("--name", metavar="NAME", help="of the journal [when the recording began, and what it is]")
    add("--bodies", action="store_true", help="take over bodies too, without credentials")
    add_folder_flags(imported)


def _run(namespace: argparse.Namespace) -> int:
    module, _, name = namespace.function.partition(":")
    code: int = getattr(import_module(f"{__package__}.{module}"), name)(namespace)
    return code


command = Command(_configure, _run)
