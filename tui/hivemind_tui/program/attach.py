"""`hivemind-tui --attach URL`: the control room of a proxy that runs elsewhere, and goes on when the screen ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.console import Console, printable
from hivemind.world.snapshot import Snapshot

if TYPE_CHECKING:
    from hivemind_tui.program.screens import Screens
    from hivemind_tui.sources.base import Source


_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class RemoteProxy:
    """The address of a proxy, and where its token is."""

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


async def _report_link(source: Source, console: Console) -> None:
    """A line whenever the connection is lost or mended, for as long as the task lives."""
    told = ""
    while True:
        link = source.link
        if link.lost_for_s is None and told:
            console.line("connected again")
        elif link.lost_for_s is not None and link.why != told:
            console.line(f"not connected: {printable(link.why)}")
        told = link.why if link.lost_for_s is not None else ""
        await asyncio.sleep(_LOOK_EVERY_S)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def watch(place: RemoteProxy, console: Console, screens: Screens | None) -> bool:
    """Show it, on screens or in lines, until asked to stop; answers whether the terminal is stuck.

    Raises: UsageError: the URL is none, or there is no token for it.
    """
    from hivemind_tui.program.signals import stop_on_signals
    from hivemind_tui.program.supervisor import Supervisor
    from hivemind_tui.sources.remote import (
        attached,  # an HTTP client, which a proxy of our own needs later or not at all
    )

    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(attached(place.url, place.environ, token_file=place.token_file))
            if screens is None:
                print(f"hivemind-tui: attached to {place.url}", flush=True)
                stack.push_async_callback(_ended, asyncio.create_task(_report_link(source, console)))
            supervisor = Supervisor(_Host(source), console, stop, drain_s=0.0)
            await supervisor.watch(screens.on(source) if screens is not None else None)
            return supervisor.stuck
