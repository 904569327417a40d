"""What runs beside a worker's proxy: its answers to the first worker, and what answers its own pages for all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hivemind.host.front import Front
from hivemind.host.proxy import Proxy
from hivemind.host.worker import Worker
from hivemind.host.workers import frames
from hivemind.host.workers.answers import Answers
from hivemind.host.workers.group import Group
from hivemind.host.workers.hop import Hop, serve_hop


@contextlib.asynccontextmanager
async def attended(worker: Worker, proxy: Proxy) -> AsyncIterator[None]:
    """Have the first worker know of this one, and answer for it; on the running loop, once the proxy has begun."""
    answers = Answers(proxy, worker)
    front: Front = Hop(worker.socket(1))
    if worker.number == 1:
        front = group = Group(proxy, worker, answers)
        proxy.engine.on_command = group.mirror

    async def handle(first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "page" in first:
            await serve_hop(front.serve, first, reader, writer)
        else:
            await answers.serve(first, reader, writer)

    server = await frames.serve(worker.socket(worker.number), handle)
    proxy.front = front
    try:
        yield
    finally:
        await front.aclose()
        server.close()
