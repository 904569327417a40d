"""Whatever happens to the store or to a proxy: no request is lost, and no limit exceeded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
import redis_server
from fleet.kit import Counting, busy, fleet_of, state_of, until
from redis_server import RedisServer, running

LIMIT = 200
Fault = Callable[[RedisServer], Awaitable[None]]


async def restarts_empty(store: RedisServer) -> None:
    store.kill()
    await asyncio.sleep(4)
    store.start()


async def is_suspended(store: RedisServer) -> None:
    store.suspend()
    await asyncio.sleep(5)
    store.resume()


async def loses_its_state(store: RedisServer) -> None:
    store.command("FLUSHALL")


async def forgets_its_scripts(store: RedisServer) -> None:
    store.command("SCRIPT", "FLUSH")


async def becomes_a_replica_and_is_promoted(store: RedisServer) -> None:
    with running() as other:
        store.command("REPLICAOF", "127.0.0.1", str(other.port))
        await asyncio.sleep(5)
        store.command("REPLICAOF", "NO", "ONE")


async def wants_another_password(store: RedisServer) -> None:
    with contextlib.closing(redis_server.client(store.url)) as web:
        for command in (("CONFIG", "SET", "requirepass", "other"), ("CLIENT", "KILL", "TYPE", "normal")):
            web.execute_command(*command)  # type: ignore[no-untyped-call]
        await asyncio.sleep(4)
    with contextlib.closing(redis_server.client(store.url_with("other"))) as web:
        web.execute_command("CONFIG", "SET", "requirepass", "")  # type: ignore[no-untyped-call]


FAULTS = (
    restarts_empty,
    is_suspended,
    loses_its_state,
    forgets_its_scripts,
    becomes_a_replica_and_is_promoted,
    wants_another_password,
)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
async def test_no_limit_is_exceeded_whatever_the_store_does(fault: Fault) -> None:
    """In the middle of a burst, when what each knows of the others is oldest."""
    upstream = Counting(0.02)
    with running() as store:
        async with (
            fleet_of(2, store.url, upstream, rpm=LIMIT) as proxies,
            busy([each.url for each in proxies], 4) as statuses,
        ):
            await until(lambda: len(upstream.at) > LIMIT * 0.6)
            await fault(store)
            await until(lambda: {state_of(each) for each in proxies} == {"leased"})
            await asyncio.sleep(2)
    assert set(statuses) == {200}
    assert upstream.in_worst_minute <= LIMIT * 1.02


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
async def test_no_request_is_lost_whatever_the_store_does(fault: Fault) -> None:
    """Below the limit all go through, some later."""
    upstream = Counting(0.02)
    with running() as store:
        async with (
            fleet_of(2, store.url, upstream, rpm=6000, max_concurrency=10) as proxies,
            busy([each.url for each in proxies], 3, 0.1) as statuses,
        ):
            await until(lambda: len(statuses) > 20)
            await fault(store)
            await until(lambda: {state_of(each) for each in proxies} == {"leased"})
            since = len(statuses)
            await until(lambda: len(statuses) > since + 20)
    assert set(statuses) == {200}
    assert upstream.most <= 10
