"""What the commands that read journals share: which file is meant, prices, what is wrong in it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hivemind.cli.address import folder_settings
from hivemind.cli.progress import Progress
from hivemind.console import print_note
from hivemind.errors import UsageError
from hivemind.journal.files import find
from hivemind.journal.importers.foreign import is_recording
from hivemind.journal.read.reader import Journal, open_journal
from hivemind.journal.read.several import Journals
from hivemind.store.token_file import state_dir


def state_folder(namespace: argparse.Namespace) -> Path:
    """Return the state directory of the proxy that the settings describe. Raises: UsageError."""
    try:
        return state_dir(folder_settings(namespace).state_dir)
    except OSError as error:
        raise UsageError(f"no folder of journals: {error.strerror}; name one with --state-dir") from None


def open_named_journal(namespace: argparse.Namespace) -> Journal:
    """Raises: UsageError: there is none, or nothing in it can be read."""
    return _opened(namespace, namespace.file)


def open_named_journals(namespace: argparse.Namespace) -> Journals:
    """Open one journal, or several as one run.

    Raises: UsageError: there is none, nothing in one can be read, or one is named twice.
    """
    return Journals([_opened(namespace, text) for text in namespace.file])


def _opened(namespace: argparse.Namespace, text: str) -> Journal:
    if is_recording(text):
        return open_journal(_made(namespace, text))
    # A path needs no settings, which may be of no use where it was copied to.
    if os.sep in text and namespace.state_dir is None and namespace.config is None:
        return open_journal(find(text, Path()))
    return open_journal(find(text, state_folder(namespace)))


def find_journals(namespace: argparse.Namespace, texts: Sequence[str]) -> list[Path]:
    """Return the journals of these names. Raises: UsageError."""
    foreign = [is_recording(text) for text in texts]
    if all(os.sep in text and os.path.isfile(text) for text in texts) and not any(foreign):
        return [Path(text) for text in texts]
    folder = state_folder(namespace)
    return [_made(namespace, text) if made else find(text, folder) for text, made in zip(texts, foreign, strict=True)]


def _made(namespace: argparse.Namespace, text: str) -> Path:
    """The journal of what other programs recorded. Raises: UsageError."""
    from hivemind.journal.importers.making import journal_of

    with Progress() as progress:
        made = journal_of([text], state_folder(namespace), tell=progress.reading)
    sys.stdout.flush()
    for line in made.notes:
        print_note(line)
    return made.path


def print_damage(journal: Journal) -> None:
    """Print what was found wrong while the journal was read, a line each."""
    sys.stdout.flush()
    for line in journal.damage.messages():
        print_note(f"{journal.path.name}: {line}")
