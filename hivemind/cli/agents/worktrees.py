"""`hivemind worktrees`: what agents left in their git worktrees. Asks git alone, so no proxy needs to run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from msgspec.structs import asdict

from hivemind.agents.worktrees import Repository, Worktree, WorktreeError
from hivemind.cli.plugin import Command
from hivemind.console import print_json, print_note, printable
from hivemind.errors import UsageError
from hivemind.text.humanise import did_you_mean, instead_of
from hivemind.text.table import Cell, TextColumn, lines, show, width

_COLUMNS = (
    TextColumn("AGENT", cut=True),
    TextColumn("STATE"),
    TextColumn("BRANCH", cut=True),
    TextColumn("FOLDER", spare=1),
)
_WORDS = ("list", "remove", "prune")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [list | remove NAME ... [--force] | prune] [--json]"
    parser.epilog = (
        "Of the repository around this folder. prune removes those that are merged or unchanged and in which no agent"
        " works: nothing in them is uncommitted, and branches of yours have their commits or changes. What git ignores"
        " in them goes too. remove does it for those that are named, with --force whatever they hold."
    )
    parser.add_argument("what", nargs="*", metavar="WORD", help="list [this], remove NAME ..., or prune")
    parser.add_argument("--force", action="store_true", help="with remove: also if work is lost")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _run(namespace: argparse.Namespace) -> int:
    word, *names = namespace.what or ["list"]
    if word not in _WORDS:
        raise UsageError(f"{word}: must be list, remove or prune{did_you_mean(word, _WORDS)}")
    if bool(names) != (word == "remove"):
        raise UsageError("say which, as in hivemind worktrees remove alice" if not names else f"{word}: takes no names")
    if namespace.force and word != "remove":
        raise UsageError("--force: goes with remove")
    repository = Repository.around(Path.cwd(), os.environ, "worktrees")
    worktrees = repository.all()
    removed: list[Worktree] = []
    kept: list[str] = []
    if word != "list":
        wanted = [_named(worktrees, name) for name in names] if names else [each for each in worktrees if each.safe]
        for each in wanted:
            try:
                repository.remove(each, force=namespace.force)
            except (UsageError, WorktreeError) as error:
                kept.append(str(error))
            else:
                removed.append(each)
        worktrees = repository.all()
    if namespace.json:
        print_json({"worktrees": [_plain(each) for each in worktrees], "removed": [_plain(each) for each in removed]})
    elif word == "list":
        show(table(worktrees, width()) if worktrees else [f"no worktrees in {repository.root}"])
    else:
        was = [f"{each.branch} was at {each.tip[:10]}" if each.tip else "it had no branch" for each in removed]
        text = [f"{printable(each.agent)}: removed ({each.state}; {at})" for each, at in zip(removed, was, strict=True)]
        text += [f"{printable(each.agent)}: kept ({each.state})" for each in worktrees] if word == "prune" else []
        if text or not kept:
            show(text or [f"no worktrees in {repository.root}"])
    for line in kept:
        print_note(printable(line))
    return 1 if kept else 0


def _named(worktrees: list[Worktree], name: str) -> Worktree:
    by_name = {each.agent: each for each in worktrees}
    if name not in by_name:
        raise UsageError(printable(f"{name}: has no worktree here{instead_of(name, by_name)}"))
    return by_name[name]


def _plain(worktree: Worktree) -> dict[str, object]:
    return asdict(worktree) | {"folder": str(worktree.folder), "state": worktree.state, "safe": worktree.safe}


def table(worktrees: list[Worktree], room: int | None) -> list[str]:
    """Return the table of worktrees."""
    return lines(_COLUMNS, [_row(each) for each in worktrees], room)


def _row(tree: Worktree) -> list[Cell | str]:
    tone = "good" if tree.used else "dim" if tree.empty else "warn"
    return [printable(tree.agent), Cell(tree.state, tone), printable(tree.branch), printable(str(tree.folder))]


command = Command(_configure, _run)
