"""Prices for the engine: loaded by a thread, soon after the start or at once when they are needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from hivemind.prices import Prices
from hivemind.proxy.engine import Engine

_log = logging.getLogger(__name__)

DELAY_S = 1.0
"""The start has more urgent things to load; what is used until then is priced afterwards."""


class Pricing:
    """Loads one proxy's prices, on the running loop."""

    def __init__(self, engine: Engine, prices: Prices) -> None:
        self._engine = engine
        self._prices = prices
        self._needed = asyncio.Event()
        self._task = asyncio.create_task(self._load(), name="load the prices")

    async def loaded(self) -> None:
        """Wait until the prices are loaded, or loading failed. From then on everything that was used is priced."""
        self._needed.set()
        await asyncio.wait((self._task,))

    async def aclose(self) -> None:
        """Stop loading."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _load(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._needed.wait(), DELAY_S)
        try:
            await asyncio.to_thread(self._prices.load)
        except Exception as error:  # a library's data, read by a library: traffic continues whatever it raises
            _log.error("no prices are known, so dollars aren't counted: %s", error)
        else:
            self._engine.price_by(self._prices.cost)
