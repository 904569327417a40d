"""The journals that a lab command reads, prices, and its progress line."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.files import find
from hivemind.prices import Prices
from hivemind.scheduler.types import Price
from hivemind.store.token_file import state_dir

CLEAR_LINE = "\r\x1b[2K"


def add_journal_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that :func:`find_journals` reads."""
    parser.add_argument("--state-dir", metavar="FOLDER", help="the proxy's [as set in hivemind.toml]")
    parser.add_argument("--config", metavar="FILE", help="read this file; unset: hivemind.toml, where there is one")


def find_journals(namespace: argparse.Namespace, texts: Sequence[str]) -> list[Path]:
    """Return the journals of these names. Raises: UsageError."""
    if all(os.sep in text and os.path.isfile(text) for text in texts):
        return [Path(text) for text in texts]
    from hivemind.settings import load as load_settings

    named = (("--state-dir", namespace.state_dir), ("--config", namespace.config))
    flags = [f"{flag}={value}" for flag, value in named if value is not None]
    settings = load_settings(flags, environ=os.environ, cwd=Path.cwd())
    try:
        folder = state_dir(settings.state_dir)
    except OSError as error:
        raise UsageError(f"no folder of journals: {error.strerror}") from None
    return [find(text, folder) for text in texts]


def public_prices() -> Price:
    """Return today's public prices."""
    prices = Prices()
    prices.load()
    return prices.cost


@contextlib.contextmanager
def progress_line(what: str) -> Iterator[None]:
    """Show a line on a terminal meanwhile."""
    shown = sys.stderr.isatty()
    if shown:
        print(f"{what}...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
