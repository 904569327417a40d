"""`hivemind version`: print the version."""

from __future__ import annotations

import argparse

from hivemind import __version__
from hivemind.cli.plugin import Command


def _configure(_: argparse.ArgumentParser) -> None:
    """It has no arguments."""


def _run(_: argparse.Namespace) -> int:
    print(f"hivemind {__version__}")
    return 0


command = Command(_configure, _run)
