"""Which journal a command is about, by its command line, and what is wrong with it told on standard error."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.files import find
from hivemind.journal.read.damage import Damage
from hivemind.journal.read.reader import Journal, open_journal
from hivemind.store.token_file import state_dir

FILE_HELP = "a path, a journal's name or the beginning of it, or latest"


def add_folder_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where to look; :func:`state_folder` reads them."""
    parser.add_argument("--state-dir", metavar="FOLDER", help="the proxy's [as set in hivemind.toml]")
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the journal itself, and the flags that say where to look for it; :func:`open_named_journal` opens it."""
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    add_folder_flags(parser)


def state_folder(namespace: argparse.Namespace, prog: str = "hivemind journal") -> Path:
    """Return the state directory of the proxy that the settings describe. Raises: UsageError."""
    from hivemind.settings import load

    named = (("--state-dir", namespace.state_dir), ("--config", namespace.config))
    flags = [f"{flag}={value}" for flag, value in named if value is not None]
    settings = load(flags, environ=os.environ, cwd=Path.cwd(), prog=prog)
    try:
        return state_dir(settings.state_dir)
    except OSError as error:
        raise UsageError(f"no folder of journals: {error.strerror}; name one with --state-dir") from None


def open_named_journal(namespace: argparse.Namespace) -> Journal:
    """Raises: UsageError: there is none, or nothing in it can be read."""
    text = namespace.file
    # A path needs no settings, which may be of no use where it was copied to.
    if os.sep in text and namespace.state_dir is None and namespace.config is None:
        return open_journal(find(text, Path()))
    return open_journal(find(text, state_folder(namespace)))


def tell(journal: Journal) -> None:
    """Print what was found wrong while the journal was read, a line each."""
    tell_of(journal.path, journal.damage)


def tell_of(path: Path, damage: Damage) -> None:
    """Print what was found wrong in a journal that was read in another way."""
    sys.stdout.flush()
    for line in damage.messages():
        print(f"hivemind: {path.name}: {line}", file=sys.stderr)
