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


REPLAYS = "hivemind.replays"
"""The group of entry points that each name a :data:`Replay`."""
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivemind.journal.figures import Figures
    from hivemind.lab.simulate.overrides import Change
    from hivemind.lab.simulate.recording import Recording
    from hivemind.scheduler.types import Price

    Replay = Callable[[Recording, Sequence[Change], int, Price | None], Figures]
    """Runs a recording's agents with changes through the real proxy, with the luck of a seed."""
