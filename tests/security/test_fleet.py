"""What a fleet's store learns of its proxies, and what agents learn of the store."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
import redis
import redis_server
import zstandard
from proxy.kit import Running, client, playing, proxying
from proxy.wire import http
from redis_server import RedisServer
from security.kit import AGENTS, CONTROL
from upstream.scripted import serving
from waiting import until

from hivemind.store.token_file import ControlKey

PASSWORD = "canary-store-5b1c7e90d2"
KEY = "sk-ant-canary-2f8b61d94c7a03e5"
SAID, ANSWERED = "canary-prompt-91e4", "canary-answer-77ab"
BODY = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "%s"}]}' % SAID.encode()
HEADERS = {"x-api-key": KEY, "x-hivemind-token": AGENTS, "content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server.running(password=PASSWORD) as server:
        yield server


class Monitor:
    """Everything that is sent to the store, as the store itself reports it."""

    def __init__(self, server: RedisServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.sendall(f"AUTH {PASSWORD}\r\nMONITOR\r\n".encode())
        self._socket.setblocking(False)

    def close(self) -> bytes:
        """Return what was seen."""
        seen = b""
        with self._socket:
            while True:
                try:
                    seen += self._socket.recv(1 << 20)
                except BlockingIOError:
                    return seen


def held(server: RedisServer) -> bytes:
    """Everything that is in the store, decompressed."""
    with redis.Redis.from_url(server.url) as store:
        found = []
        for key in store.scan_iter():
            found.append(key)
            kind = store.type(key)
            if kind == b"string":
                data = store.get(key)
                if data.startswith(b"\x28\xb5\x2f\xfd"):
                    data = zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 24)
                found.append(data)
            elif kind == b"list":
                found += store.lrange(key, 0, -1)
            elif kind == b"hash":
                found += [part for pair in store.hgetall(key).items() for part in pair]
            else:
                found += store.zrange(key, 0, -1)
    return b"\n".join(found)


async def asked(running: Running) -> None:
    """An agent has asked, with its key, and was answered."""
    running.proxy.control_key = ControlKey("run-1", CONTROL)
    async with client() as web:
        answer = await web.post(f"{running.url}/agent/ann/v1/messages", content=BODY, headers=HEADERS)
        assert ANSWERED in answer.text


async def test_no_key_and_no_conversation_reaches_the_store(server: RedisServer) -> None:
    """Neither in what is kept nor in any command, while the proxy is watched and steered."""
    usage = {"input_tokens": 3, "output_tokens": 4}
    answer: dict[str, object] = {"content": [{"type": "text", "text": ANSWERED}], "usage": usage}
    monitor = Monitor(server)
    async with (
        asyncio.timeout(60),
        serving(playing([http(200, answer)])) as upstream,
        proxying(f"lab={upstream.url}", fleet=server.url, token=AGENTS) as running,
    ):
        await asked(running)
        assert running.proxy.watcher is not None
        await running.proxy.fleet()
        running.proxy.fleet_agents()
        with redis.Redis.from_url(server.url) as store:
            store.set("hm:watched", 1, px=30_000)
            await until(lambda: list(store.scan_iter("hm:snapshot:*")))
        kept = held(server)
        assert b'"ann"' in kept  # so that the search would find what is there
    seen = monitor.close() + kept
    for secret in (KEY, KEY[-12:], SAID, ANSWERED, AGENTS, CONTROL, PASSWORD):
        assert secret.encode() not in seen, secret


async def test_an_agent_learns_nothing_of_the_store(server: RedisServer) -> None:
    """Neither what agents may read nor what the operator may has the password; the address is the operator's."""
    answer: dict[str, object] = {"content": [{"type": "text", "text": ANSWERED}], "usage": {}}
    async with (
        asyncio.timeout(60),
        serving(playing([http(200, answer)])) as upstream,
        proxying(f"lab={upstream.url}", fleet=server.url, token=AGENTS) as running,
        client() as web,
    ):
        await asked(running)
        for path in ("_stats", "metrics", "_health"):
            text = (await web.get(f"{running.url}/{path}", headers={"x-hivemind-token": AGENTS})).text
            assert PASSWORD not in text
            assert str(server.port) not in text
        for path in ("fleet", "fleet/agents", "about", "snapshot"):
            shown = {"authorization": f"Bearer {CONTROL}"}
            answered = await web.get(f"{running.url}/_control/{path}", headers=shown)
            assert answered.status_code == 200
            assert PASSWORD not in answered.text
            assert (await web.get(f"{running.url}/_control/{path}", headers=HEADERS)).status_code == 401
