"""The demo's world inside this process: a mock provider and mock agents, brought up only once there is a first frame.

Importing them takes as long as drawing that frame, and so does the HTTP client that the agents use.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind.scheduler.commands import Command
    from hivemind.settings import Settings
    from hivemind.world.snapshot import Snapshot
    from hivemind_tui.sources.base import Local


_CREW = 3
"""Agents that it takes to work on tasks together."""


@dataclass(frozen=True, slots=True)
class Demo:
    """How large a demo, and the seed of its faults."""

    agents: int
    seed: int


class DemoWorld:
    """Enter it for the provider's address; the provider answers after :meth:`begin`, and until the context ends."""

    def __init__(self, demo: Demo) -> None:
        from hivemind.host.server import bind  # and with it uvicorn, which flags and settings are read without

        self._demo = demo
        (self._socket,) = bind("127.0.0.1", 0)
        self._provider = AsyncExitStack()
        self._agents = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    def behind(self, settings: Settings) -> Settings:
        """The settings of a proxy before this provider."""
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        profile = settings.profile or "anthropic"
        return settings.model_copy(update={"upstream": (f"mock={url}",), "profile": profile})

    async def begin(self, proxy_url: str, apply: Callable[[Command, str], object]) -> None:
        """Have the provider answer, and the agents work through the proxy at this address; `apply` has it carry a
        command out."""
        # In a thread, which gives way to the loop every few milliseconds.
        world: Any = await asyncio.to_thread(importlib.import_module, "hivemind_mock.agents.demo")
        await self._provider.enter_async_context(world.run_demo_provider(world.bad_day(self._demo.seed), self._socket))
        await self._agents.enter_async_context(world.run_demo_agents(proxy_url, self._demo.agents, self._demo.seed))
        if self._demo.agents >= _CREW:
            work: Any = await asyncio.to_thread(importlib.import_module, "hivemind_mock.agents.tasks")
            await self._agents.enter_async_context(work.at_tasks(apply))

    async def dismiss(self) -> None:
        """End the agents; the provider goes on, for what is still in flight."""
        await self._agents.aclose()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._agents.aclose()
        await self._provider.aclose()
        self._socket.close()


class DeferredDemo:
    """A demo that may be started once, from the first screen rather than from the command line."""

    def __init__(
        self, start: Callable[[], Awaitable[tuple[Proxy, DemoWorld]]], drain_s: float, settings_file: Path
    ) -> None:
        self.world: DemoWorld | None = None
        """None until it is started."""
        self._start = start
        self._drain_s = drain_s
        self._settings_file = settings_file
        self._proxy: Proxy | None = None

    async def start(self) -> Local:
        """Start it, and return its proxy as a source."""
        from hivemind_tui.sources.base import Local

        self._proxy, self.world = await self._start()
        return Local(self._proxy, self._settings_file)

    async def finished(self) -> Snapshot | None:
        """End its agents, drain its proxy, and return the world before that; None where it was never started."""
        if self._proxy is None or self.world is None:
            return None
        snapshot = self._proxy.snapshot()
        await self.world.dismiss()
        await self._proxy.drain(self._drain_s)
        return snapshot
