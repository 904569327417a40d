"""`hivemind journal`: list, show, count, export and import what proxies recorded. Reads files, so none needs to run.

The flags of every word are here, for help and shell completion; its module, which may take a while to import, is
imported when the word is used.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from hivemind.cli.address import add_folder_flags, add_journal_flags
from hivemind.cli.plugin import Command

_EXPORT = "the requests of one as CSV, or as HAR with all that was recorded of them"


def _configure(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(title="words", metavar="WORD", required=True)
    for word, run, summary, configure in (
        ("ls", "reading:list_journals", "all there are, the newest first", _configure_ls),
        ("show", "reading:show_events", "the events of one, a line each", _configure_show),
        ("stats", "reading:show_stats", "figures of one: requests, waits, retries, tokens, dollars", _configure_stats),
        ("export", "reading:export", _EXPORT, _configure_export),
        ("import", "importing:run", "make a journal of a HAR file or a mitmproxy dump", _configure_import),
    ):
        one = words.add_parser(word, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        configure(one)
        one.set_defaults(function=run)


def _configure_ls(parser: argparse.ArgumentParser) -> None:
    parser.description = "List all journals."
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_folder_flags(parser)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_journal_flags(parser)
    add = parser.add_argument
    add("--since", metavar="T", help="from then on: 18:05, 2026-11-21T18:05, or 5m after the beginning")
    add("--until", metavar="T", help="and no further")
    add("--agent", metavar="NAME", action="append", default=[], help="only this agent's; several times")
    add("--event", metavar="KIND", action="append", default=[], help="only this kind's; several times")
    add("--follow", "-f", action="store_true", help="go on while it is written")
    add("--json", action="store_true", help="print them as they stand there, and each one's time of day")


def _configure_stats(parser: argparse.ArgumentParser) -> None:
    add_journal_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _configure_export(parser: argparse.ArgumentParser) -> None:
    add_journal_flags(parser)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--csv", action="store_true", help="a row a request, for spreadsheets")
    form.add_argument(
        "--har", action="store_true", help="an entry an attempt, for browsers' tools; with recorded bodies"
    )
    parser.add_argument("--out", metavar="FILE", help="write there, readable by you alone [standard output]")


def _configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a HAR file, or what mitmdump -w wrote")
    parser.add_argument("--name", metavar="NAME", help="of the journal [when the recording began, and what it is]")
    parser.add_argument("--bodies", action="store_true", help="take over bodies too, without credentials")
    add_folder_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    module, _, name = namespace.function.partition(":")
    code: int = getattr(import_module(f"{__package__}.{module}"), name)(namespace)
    return code


command = Command(_configure, _run)
