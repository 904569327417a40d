"""Prices for the engine: loaded by a thread when there is time for it, or at once when somebody needs them."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from hivemind.prices import Prices
from hivemind.proxy.engine import Engine

_log = logging.getLogger(__name__)

LATER_S = 1.0
"""Whoever starts the proxy has more urgent things to load; what is used until then is priced afterwards."""


class Pricing:
    """Of one proxy, on the running loop."""

    def __init__(self, engine: Engine, prices: Prices) -> None:
        self._engine = engine
        self._prices = prices
        self._hurry = asyncio.Event()
        self._task = asyncio.create_task(self._load(), name="load the prices")

    async def known(self) -> None:
        """Until they are, or can't be had: from then on everything that is used is priced, and what was used before."""
        self._hurry.set()
        await asyncio.wait((self._task,))

    async def aclose(self) -> None:
        """Nobody needs them any more."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _load(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), LATER_S)
        try:
            await asyncio.to_thread(self._prices.load)
        except Exception as error:  # a library's data, read by a library: whatever it is, the traffic goes on
            _log.error("no prices are known, so dollars aren't counted: %s", error)
        else:
            self._engine.price_by(self._prices.cost)
