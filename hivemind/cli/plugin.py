"""How another package adds a command to `hivemind`: an entry point in :data:`GROUP` that names a :class:`Command`.

The core finds commands by name and so needs to know neither the mock nor the screen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse

GROUP = "hivemind.commands"


class Command(NamedTuple):
    """One subcommand of `hivemind`."""

    configure: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments to its own parser."""
    run: Callable[[argparse.Namespace], int]
    """Does the work and returns the exit code: 0, or 2 for bad input after one clear line on standard error."""
    summary: str = ""
    """One line for `hivemind --help`; those of our own commands are in :data:`hivemind.cli.main.GROUPS`."""
