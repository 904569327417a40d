"""The virtual-time event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from hivemind.lab.simulate.clock import Stalled, run_virtual


def test_waiting_takes_no_time() -> None:
    """A day of sleeping passes at once, and the loop's clock says that a day has passed."""

    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtual(main()) == pytest.approx(86_400)
    assert time.monotonic() - began < 60


def test_tiny_steps_move_the_clock() -> None:
    """A delay too small for the clock's value to show still ends, years into the loop's life: it once spun for ever."""

    async def main() -> None:
        await asyncio.sleep(1e8)
        await asyncio.sleep(1e-12)

    run_virtual(main())


def test_real_io_is_waited_for() -> None:
    """A timer doesn't jump ahead of a reply that is on its way through a socket."""

    async def main() -> bytes:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, far:
            sender = threading.Timer(0.01, far.sendall, [b"reply"])
            sender.start()
            async with asyncio.timeout(60):
                return await asyncio.get_running_loop().sock_recv(near, 5)

    assert run_virtual(main()) == b"reply"


def test_executor_jobs_are_waited_for() -> None:
    """Time passes at its real pace while a thread works, and jumps again afterwards."""
    go = threading.Event()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_soon(go.set)
        async with asyncio.timeout(60):
            await loop.run_in_executor(None, go.wait)
        await asyncio.sleep(1_000)
        return loop.time()

    assert 1_000 <= run_virtual(main()) < 1_060


def test_a_deadlock_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in which nothing can happen any more is told so instead of hanging."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # other tests may have left threads

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="every task waits"):
        run_virtual(main())
