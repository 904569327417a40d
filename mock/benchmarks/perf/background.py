"""Traffic like the demo's, so that a control room has something to show while it is measured."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.perf.clients import Client, connected
from benchmarks.perf.target import Target
from benchmarks.perf.wire import Pace
from hivemind.records import replace

_ANSWER = Pace(events=70, every_s=0.024)
"""The demo's provider sends 280 tokens, four an event, at 6 ms a token."""
_THINK_S = 1.5
_ONE_AFTER_THE_OTHER_S = 0.1


@asynccontextmanager
async def working(target: Target, agents: int) -> AsyncIterator[None]:
    """So many agents that read a stream, think, and ask again, for as long as the context lasts.

    Raises: PerfError: at the end, where one of them couldn't.
    """
    loop = asyncio.get_running_loop()
    async with connected(replace(target, prefix="/agent/demo-{}"), agents, _Agent, _ANSWER) as opened:
        for number, agent in enumerate(opened):
            loop.call_later(number * _ONE_AFTER_THE_OTHER_S, agent.begin)
        yield
        for agent in opened:
            agent.finish()
        await asyncio.gather(*(agent.done for agent in opened))


class _Agent(Client):
    def begin(self) -> None:
        if not self.done.done():
            self.send()

    def on_message_complete(self) -> None:
        asyncio.get_running_loop().call_later(_THINK_S, self.begin)
