"""`hivemind-tui --attach URL`: the control room of a proxy that runs elsewhere, and goes on when the screen ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.console import Console
from hivemind.snapshot import Snapshot

if TYPE_CHECKING:
    from .screens import Screens
    from .source import Source


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where to look."""

    url: str
    token_file: Path | None
    environ: Mapping[str, str]


class _Host:
    """A proxy that isn't ours to stop."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def snapshot(self) -> Snapshot:
        """What was last heard of it."""
        return self._source.snapshot()

    async def drain(self, timeout_s: float) -> None:
        """Leaving changes nothing over there."""


async def watch(place: Elsewhere, console: Console, screens: Screens | None) -> bool:
    """Show it, on screens or in lines, until asked to stop; answers whether the terminal is stuck.

    Raises: UsageError: the URL is none, or there is no token for it.
    """
    from .attach import attached  # an HTTP client, which a proxy of our own needs later or not at all
    from .signals import stop_on_signals
    from .supervisor import Supervisor

    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(attached(place.url, place.environ, token_file=place.token_file))
            if screens is None:
                print(f"hivemind-tui: attached to {place.url}", flush=True)
            supervisor = Supervisor(_Host(source), console, stop, drain_s=0.0)
            await supervisor.watch(screens.on(source) if screens is not None else None)
            return supervisor.stuck
