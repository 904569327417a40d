"""`hivemind-tui --replay FILE`: the control room of a run that is over, or of one that is being written down."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.console import Console
from hivemind.journal.read.reader import open_journal
from hivemind.world.snapshot import Line, Snapshot
from hivemind_tui.program.headless import closing_table, text_of
from hivemind_tui.program.supervisor import MakeScreen, Supervisor

if TYPE_CHECKING:
    from hivemind_tui.program.screens import Screens
    from hivemind_tui.sources.replay import ReplaySource

EnterScreens = Callable[[AsyncExitStack], Awaitable["Screens"]]


async def watch(path: Path, console: Console, enter_screens: EnterScreens) -> bool:
    """Show it on a screen until somebody leaves; answers whether the terminal is stuck.

    Raises: UsageError: nothing of it can be read.
    """
    from hivemind.journal.index.player import Player
    from hivemind_tui.program.signals import stop_on_signals
    from hivemind_tui.sources.replay import ReplaySource

    player = Player.open(path, priced=True)
    try:
        with stop_on_signals() as stop:
            async with AsyncExitStack() as stack:
                screens = await enter_screens(stack)
                source = ReplaySource(player, player.name or path.stem)
                source.journal = path
                supervisor = _ScreensOnly(_Recording(source), console, stop, drain_s=0.0)
                await supervisor.watch(screens.on(source))
                return supervisor.stuck
    finally:
        player.close()


class _Recording:
    """A recording as a host: there is nothing to drain."""

    def __init__(self, source: ReplaySource) -> None:
        self._source = source

    def snapshot(self) -> Snapshot:
        """Return the moment shown."""
        return self._source.snapshot()

    async def drain(self, timeout_s: float) -> None:
        """Nothing is in flight."""


class _ScreensOnly(Supervisor):
    """Draws screens and falls back to nothing: there is no proxy that must go on without them."""

    async def watch(self, make_screen: MakeScreen | None) -> None:
        """Until asked to stop, or until the screen failed twice."""
        assert make_screen is not None
        self._console.hold()
        await self._screens(make_screen)
        self._console.release()
        if not self._stop.is_set():
            self._console.line("the screen failed; the same journal in lines: hivemind-tui --replay FILE | cat")


def print_lines(path: Path) -> int:
    """A journal's log, line by line, and the closing table; what is wrong with it on standard error.

    Raises: UsageError: nothing of it can be read.
    """
    from hivemind.journal.index.builder import MALFORMED, prices_then, world_of

    journal = open_journal(path)
    world = world_of(journal.began, prices_then(journal.began))
    world.on_line = _print
    last = journal.began.at
    for event in journal.events():
        try:
            world.apply(event)
        except MALFORMED:
            journal.damage.bad_lines += 1
        last = max(last, event.at)
    print(closing_table(world.snapshot(last)), flush=True)
    for text in journal.damage.messages():
        print(f"hivemind-tui: {path.name}: {text}", file=sys.stderr)
    return 0


def _print(line: Line) -> None:
    print(text_of(line))
