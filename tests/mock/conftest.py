"""The mock provider in virtual time, for every test beside this file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import httpx
import pytest

from hivemind.lab.simulate.clock import run_virtual
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.inprocess import InProcessTransport

T = TypeVar("T")
EPOCH = 1_800_000_000.0
Scene = Callable[[MockProvider, httpx.AsyncClient], Awaitable[T]]
Play = Callable[[MockConfig, Scene[T]], T]


@pytest.fixture
def play() -> Play[Any]:
    """Plays a scene with a provider and a client of it, in virtual time."""

    def run(config: MockConfig, scene: Scene[T]) -> T:
        return run_virtual(_stage(config, scene))

    return run


def _stage(config: MockConfig, scene: Scene[T]) -> Coroutine[Any, Any, T]:
    async def main() -> T:
        loop = asyncio.get_running_loop()
        mock = MockProvider(config, clock=loop.time, wall=lambda: EPOCH + loop.time(), sleep=asyncio.sleep)
        transport = InProcessTransport(mock)
        async with httpx.AsyncClient(transport=transport, base_url="http://mock", timeout=None) as client:
            return await scene(mock, client)

    return main()
