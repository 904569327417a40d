"""A client that may leave, or come again, while its request is seen through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from hivemind.proxy.exchange import Exchange
from hivemind.proxy.response_writer import Receive, Send
from hivemind.proxy.server_protocol import departure_of

Scope = Mapping[str, Any]


def watch(scope: Scope, receive: Receive, leave: Callable[[], None]) -> Callable[[], object]:
    """Call `leave` when the client goes. Returns what stops that."""
    departure = departure_of(scope)
    if departure is not None:
        departure.watch(leave)
        return lambda: departure.forget(leave)

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        leave()

    return asyncio.create_task(wait(), name="notice a client leaving").cancel


async def listen(original: Exchange, send: Send) -> None:
    """A request sent again: wait for the first one's answer."""
    audience = original.audience
    await audience.join(send)
    try:
        await asyncio.shield(original.over())
    finally:
        audience.leave(send)
