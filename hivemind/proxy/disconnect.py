"""Noticing that a client has left while its request is served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hivemind.proxy.response_writer import Receive, ResponseWriter
from hivemind.proxy.server_protocol import disconnect_notifier

Scope = Mapping[str, Any]


async def run_until_disconnect(
    work: Awaitable[None], scope: Scope, receive: Receive, writer: ResponseWriter | None = None
) -> None:
    """Do the work, or cancel it once the client leaves; with a writer, once all clients of the response have left."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = False

    def cancel() -> None:
        nonlocal cancelled
        if not cancelled:
            cancelled = True
            task.cancel()

    if writer is not None:
        writer.on_client_gone = cancel
    stop_watching = _watch(scope, receive, cancel if writer is None else writer.remove_first)
    try:
        await work
    except asyncio.CancelledError:
        if not cancelled:
            raise
        task.uncancel()
    finally:
        stop_watching()


def _watch(scope: Scope, receive: Receive, on_disconnect: Callable[[], None]) -> Callable[[], object]:
    """Call `on_disconnect` when the client leaves. Return what stops that."""
    notifier = disconnect_notifier(scope)
    if notifier is not None:
        notifier.watch(on_disconnect)
        return lambda: notifier.forget(on_disconnect)

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        on_disconnect()

    return asyncio.create_task(wait(), name="wait for a client's disconnect").cancel
