"""Memory that is returned to the system once few bodies are left of many."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from waiting import until

from hivemind.host import memory
from hivemind.host.memory import return_memory
from hivemind.proxy.body_budget import BodyBudget

MIB = 1 << 20


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the C library was asked to trim, checked again and again without a pause."""
    calls: list[int] = []
    library = SimpleNamespace(mallopt=lambda option, value: 1, malloc_trim=calls.append)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory, "CHECK_EVERY_S", 0.0)
    return calls


@contextlib.asynccontextmanager
async def running(bodies: BodyBudget, trims: list[int]) -> AsyncIterator[None]:
    """It is done meanwhile, once the start, whose memory was returned, is over."""
    started = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(return_memory(bodies, started))
    await checks()
    assert trims == []
    started.set_result(None)
    await until(lambda: bool(trims) and trims.pop() == 0)
    yield
    task.cancel()
    await asyncio.wait((task,))


async def checks() -> None:
    """Let many checks pass."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_returned_once_few_are_left(trims: list[int]) -> None:
    """It is done once after a crowd, not while its bodies are there, and again after the next."""
    bodies, crowd = BodyBudget(64, 256), bytes(40 * MIB)
    async with running(bodies, trims):
        for done in range(2):
            bodies.take(crowd)
            await checks()
            assert len(trims) == done
            bodies.release(crowd)
            await until(lambda: len(trims) != done)  # noqa: B023 - it is over before the next
            await checks()
    assert trims == [0, 0]


async def test_not_for_a_few(trims: list[int]) -> None:
    """Small bodies leave nothing that would be worth it."""
    bodies, small = BodyBudget(64, 256), bytes(MIB)
    async with running(bodies, trims):
        for _ in range(10):
            bodies.take(small)
            await checks()
            bodies.release(small)
    assert trims == []


@pytest.mark.parametrize("library", [SimpleNamespace(), SimpleNamespace(mallopt=lambda option, value: 1)])
async def test_another_c_library(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no such functions, nothing is done."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    await return_memory(BodyBudget(1, 1), asyncio.get_running_loop().create_future())
