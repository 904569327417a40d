"""The demo inside this process: a mock provider and mock agents, imported once there is a first frame.

Importing them takes as long as drawing that frame, and so does the HTTP client that the agents use.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from hivemind.journal.files import DEMO_DAYS
from hivemind.records import replace

if TYPE_CHECKING:
    from hivemind.scheduler.commands import Command
    from hivemind.settings import Settings

_WORKERS = 3
"""The smallest number of agents with which a batch of tasks is worked on too."""


class Demo(Struct, frozen=True):
    """The number of agents in a demo, and the seed of its faults."""

    agents: int = 11
    seed: int = 2125


class DemoSource:
    """The demo's provider, which listens while the context is entered and answers after :meth:`begin`."""

    def __init__(self, demo: Demo) -> None:
        from hivemind.host.listening import bind

        self._demo = demo
        (self._socket,) = bind("127.0.0.1", 0)
        self._provider = AsyncExitStack()
        self._agents = AsyncExitStack()
        self._beginning: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    def behind(self, settings: Settings) -> Settings:
        """Return the settings for a proxy in front of this provider, whose journal isn't kept for long, and in which a
        request that hangs doesn't hold the only slot."""
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        profile = settings.profile or "anthropic"
        journal = replace(settings.journal, keep_days=DEMO_DAYS)
        aimd = replace(settings.aimd, floor=settings.aimd.floor or 2.0)
        return replace(settings, upstream=(f"mock={url}",), profile=profile, journal=journal, aimd=aimd)

    async def begin(self, proxy_url: str, apply: Callable[[Command, str], object]) -> None:
        """Start the provider, and agents that use the proxy at this address; `apply` carries commands out there."""
        # In a thread, which gives way to the loop every few milliseconds.
        world: Any = await asyncio.to_thread(importlib.import_module, "hivemind_mock.agents.demo")
        await self._provider.enter_async_context(world.run_demo_provider(world.bad_day(self._demo.seed), self._socket))
        await self._agents.enter_async_context(world.run_demo_agents(proxy_url, self._demo.agents, self._demo.seed))
        if self._demo.agents >= _WORKERS:
            await self._agents.enter_async_context(world.at_tasks(apply))

    def begin_later(self, beginning: Coroutine[Any, Any, None]) -> None:
        """Begin in the background; `beginning` calls :meth:`begin` in the end."""
        self._beginning = asyncio.create_task(beginning, name="hivemind-demo")

    async def stop_agents(self) -> None:
        """End the agents; the provider still answers what is in flight."""
        if self._beginning is not None:
            self._beginning.cancel()
            with suppress(asyncio.CancelledError):
                await self._beginning
        await self._agents.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.stop_agents()
        await self._provider.aclose()
        self._socket.close()
