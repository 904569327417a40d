"""Whatever happens to the store or to a proxy: no request is lost, and no limit exceeded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import redis_server
from control.processes import Program, program
from fleet.kit import Counting, ask, busy, fleet_of, state_of
from proxy.kit import client
from redis_server import RedisServer, running
from upstream.scripted import serving
from waiting import until

pytestmark = pytest.mark.e2e
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
@pytest.mark.parametrize("fault", FAULTS[::2], ids=lambda each: each.__name__)
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


# --- Proxies ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def programs(upstream: Counting, store: RedisServer, folder: Path) -> AsyncIterator[tuple[Program, Program]]:
    """Two real proxies with a limit of :data:`LIMIT` requests a minute."""
    async with serving(upstream.serve) as script, contextlib.AsyncExitStack() as stack:
        flags = ("--fleet", store.url, "--rpm", str(LIMIT), "--tpm", "0", "--profile", "anthropic", "--drain-s", "1")
        one, other = [
            await stack.enter_async_context(
                program(
                    *(folder, *flags, "--state-dir", str(folder / f"state-{number}")), upstream=script.url, within_s=120
                )
            )
            for number in range(2)
        ]
        yield one, other


def url(proxy: Program) -> str:
    return f"http://127.0.0.1:{proxy.port}"


def lane(store: RedisServer) -> tuple[str, dict[str, Any]]:
    """Key and state of the only lane."""
    key = store.command("KEYS", "hm:lane:*")[3:-2]
    return key, json.loads(store.command("GET", key))


def lapsed(store: RedisServer) -> float:
    """Credits that those that fell silent held."""
    members = lane(store)[1]["members"].values()
    return float(sum(window.get("lapsed", 0.0) for member in members for window in member["windows"].values()))


async def health(proxy: Program) -> str:
    async with client() as web:
        found: str = (await web.get(f"{url(proxy)}/_health")).json()["fleet"]
        return found


@pytest.mark.e2e
async def test_a_proxy_that_was_suspended_sends_nothing_on_an_old_lease(tmp_path: Path) -> None:
    """Others have had its credits meanwhile."""
    upstream = Counting(0.02)
    with running() as store:
        async with programs(upstream, store, tmp_path) as (one, other), busy([url(one), url(other)], 4) as statuses:
            await until(lambda: len(upstream.at) > LIMIT * 0.3)
            one.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(5)
            one.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(3)
            assert [await health(each) for each in (one, other)] == ["leased", "leased"]
    assert set(statuses) == {200}
    assert LIMIT * 0.9 <= upstream.in_worst_minute <= LIMIT * 1.02


@pytest.mark.e2e
async def test_a_proxy_that_is_killed_leaves_its_part_to_the_others(tmp_path: Path) -> None:
    """All but the credits that it held, which count as used. How many these are depends on how fast it was."""
    upstream = Counting(0.02)
    with running() as store:
        async with programs(upstream, store, tmp_path) as (one, other), busy([url(other)], 4) as statuses:
            with contextlib.suppress(AssertionError):  # its clients see their connections end
                async with busy([url(one)], 4):
                    await until(lambda: len(upstream.at) > LIMIT * 0.3)
                    one.process.kill()
                    await one.process.wait()
            await until(lambda: lapsed(store) > 0)
            held = lapsed(store)
            await until(lambda: len(upstream.at) >= LIMIT * 0.97 - held)
            assert await health(other) == "leased"
    assert set(statuses) == {200}
    assert upstream.in_worst_minute <= LIMIT * 1.02


@pytest.mark.e2e
async def test_a_proxy_that_ends_leaves_at_once(tmp_path: Path) -> None:
    """What it held is free before it would have been forgotten."""
    upstream = Counting()
    with running() as store:
        async with programs(upstream, store, tmp_path) as (one, other):
            async with client() as web:
                for each in (one, other):
                    assert await ask(web, url(each), "alice") == 200
            code, said = await one.ends()
            assert (code, "Traceback" in said) == (0, False)
            assert len(lane(store)[1]["members"]) == 1


async def test_a_store_in_use_by_another_version(caplog: pytest.LogCaptureFixture) -> None:
    """Requests wait until the others are gone; one line says why."""
    upstream = Counting()
    with running() as store:
        async with fleet_of(1, store.url, upstream) as (proxy,), client() as web:
            assert proxy.proxy.fleet_part is not None
            await ask(web, proxy.url, "alice")
            key, state = lane(store)
            store.command("SET", key, json.dumps(state | {"protocol": 99, "now": state["now"] + 3600}))
            await until(lambda: state_of(proxy) == "alone")
            assert len([line for line in caplog.messages if "another version" in line]) == 1
            store.command("DEL", key)
            await until(lambda: state_of(proxy) == "leased")
            assert await ask(web, proxy.url, "alice") == 200
