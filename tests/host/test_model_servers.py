"""What answers at an upstream of which nobody said so."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from waiting import until

from hivemind.host import model_servers
from hivemind.host.proxy import Proxy
from hivemind.host.server import serve
from hivemind.providers.known import providers, server_of
from hivemind.providers.profiles import PROFILES
from hivemind.providers.table import Sign
from hivemind.settings import Settings
from hivemind.settings.checks import checked

ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
Reply = tuple[int, str, str]
"""Status, `Server` header and body."""
NOTHING: Reply = (404, "uvicorn", '{"detail":"Not Found"}')
SIGNS = [(each.name, sign) for each in providers() for sign in each.signs]


class Server:
    """A model server on loopback, and what was asked of it."""

    def __init__(self, gets: dict[str, Reply], server: str = "uvicorn", takes_s: float = 0.0) -> None:
        self.gets, self.server, self.takes_s = gets, server, takes_s
        self.heads: list[str] = []

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                self.heads.append(head)
                method, path, _ = head.split(" ", 2)
                status, server, text = 200, self.server, json.dumps(ANSWER)
                if method == "get":
                    status, server, text = self.gets.get(path, NOTHING)
                else:
                    length = next(int(line[15:]) for line in head.splitlines() if line.startswith("content-length:"))
                    await reader.readexactly(length)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), self.takes_s)  # or until its client leaves
                lines = (f"HTTP/1.1 {status} X", f"server: {server}", f"content-length: {len(text)}", "location: /x")
                writer.write("\r\n".join((*lines, "content-type: application/json", "", text)).encode())
        writer.close()

    @property
    def asked(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads if head.startswith("get")]


@contextlib.asynccontextmanager
async def before(url: str, **settings: object) -> AsyncIterator[Proxy]:
    """A proxy in front of it, with no setting but these."""
    chosen = checked({"upstream": (url,), "port": 0, **settings})
    proxy = Proxy(chosen)
    async with serve(proxy, chosen, durable=False):
        yield proxy


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are asked right after their first answer, and may take long on a busy machine."""
    monkeypatch.setattr(model_servers, "DELAY_S", 0.0)
    monkeypatch.setattr(model_servers, "WITHIN_S", 30.0)
    monkeypatch.setattr(model_servers, "LOAD_EVERY_S", 0.005)


async def ask(proxy: Proxy) -> None:
    """An agent with a key asks something, and is answered."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as web:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
        headers = {"authorization": "Bearer sk-secret-0001"}
        (await web.post(f"{proxy.address}/v1/chat/completions", json=body, headers=headers)).raise_for_status()


def recognised(proxy: Proxy) -> bool:
    return not any(task.get_name().startswith("recognise") for task in proxy._servers._tasks)


def provider(proxy: Proxy) -> str:
    return proxy.snapshot().lanes[0].state.provider


@pytest.mark.parametrize(("name", "sign"), SIGNS, ids=[f"{name}{sign.path or ' header'}" for name, sign in SIGNS])
def test_signs(name: str, sign: Sign) -> None:
    """Each server is recognised by each of its own signs, has a profile, and none of another's."""
    headers = [(b"server", sign.server.encode() or b"uvicorn")]
    assert server_of(headers, sign.path, sign.example.encode()) == name
    assert name in PROFILES
    assert server_of([(b"server", b"uvicorn")], "/v1/models", b'{"object":"list","data":[]}') is None


@pytest.mark.parametrize(
    ("gets", "found", "most"),
    [
        ({"/v1/models": (200, "uvicorn", '{"object":"list","data":[{"owned_by":"vllm"}]}')}, "vllm", 1),
        ({"/v1/models": (200, "uvicorn", '{"object":"list","data":[{"owned_by":"me"}]}')}, "llama-cpp-python", 1),
        ({"/v1/models": (200, "BaseHTTP/0.6 Python/3.11", '{"object": "list", "data": []}')}, "mlx", 1),
        ({"/v1/models": (200, "BaseHTTP/0.6 Python/3.11", "")}, "mlx", 1),
        ({"/v1/models": (401, "llama.cpp", '{"error":{"code":401}}')}, "llamacpp", 2),
        ({"/v1/models": (401, "uvicorn", "{}"), "/metrics": (200, "uvicorn", "# HELP vllm:num_x\n")}, "vllm", 5),
        ({"/api/version": (200, "", '{"version":"0.12.6"}')}, "ollama", 5),
        ({"/load_model": (405, "uvicorn", '{"detail":"Method Not Allowed"}')}, "transformers", 5),
        ({"/v1/models": (200, "nginx", '{"object":"list","data":[]}')}, "local", 5),
        ({"/v1/models": (302, "nginx", "")}, "local", 1),
        ({"/v1/models": (200, "nginx", "<html>")}, "local", 1),
    ],
)
async def test_a_local_server_is_asked_once(
    gets: dict[str, Reply], found: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its first good answer, without any key and following no redirect; it has no limits before and after."""
    monkeypatch.setattr(model_servers, "LOAD_EVERY_S", 3600.0)  # what it is, and not what it has to do
    server = Server(gets)
    async with server.listening() as url, before(url) as proxy:
        await ask(proxy)
        await until(lambda: recognised(proxy))
        await ask(proxy)
        state = proxy.snapshot().lanes[0].state
        assert provider(proxy) == found
        if found == "ollama":
            assert (state.level, {window.source for window in state.windows}) == (2.0, {"assumed"})
        else:
            assert (state.level, state.windows) == (PROFILES[found].max_concurrency or float("inf"), ())
    gets_sent = [head for head in server.heads if head.startswith("get")]
    assert 0 < len(gets_sent) <= most
    assert len({*server.asked, "/openapi.json"}) == len(server.asked) + 1  # which may take a gateway many seconds
    assert not any("sk-secret" in head or "authorization" in head for head in gets_sent)
    assert server.heads[0].startswith("post")


async def test_one_that_computes_longer_than_a_timeout_is_waited_for() -> None:
    """Because what is cut off may be computed on: the same is sent once, though nobody knows the server yet."""
    server = Server({"/v1/models": (200, "BaseHTTP/0.6 Python/3.11", "")}, takes_s=1.0)
    async with server.listening() as url, before(url, headers_timeout_s=0.1, idle_timeout_s=0.1) as proxy:
        await ask(proxy)
        assert len(server.heads) - len(server.asked) == 1


@pytest.mark.parametrize(
    ("gets", "header", "others"),
    [
        (("/metrics", "vllm:num_requests_running 3.0\nvllm:num_requests_waiting 2.0\n"), "uvicorn", 4),
        (("/slots", '[{"is_processing":true},{"is_processing":true},{"is_processing":false}]'), "llama.cpp", 1),
        (("/slots", "[]"), "llama.cpp", 0),
    ],
)
async def test_what_else_it_has_to_do_counts_as_load(gets: tuple[str, str], header: str, others: int) -> None:
    """While it has a request of ours, it is asked where it tells; a place that tells nothing isn't asked again."""
    models = '{"object":"list","data":[{"owned_by":"vllm"}]}'
    server = Server({"/v1/models": (200, header, models), gets[0]: (200, header, gets[1])}, header)
    async with server.listening() as url, before(url) as proxy:
        await ask(proxy)
        await until(lambda: recognised(proxy))
        asked, server.takes_s = len(server.asked), 30.0
        asking = asyncio.create_task(ask(proxy))
        await until(lambda: len(server.asked) > asked + 1)
        (lane,) = proxy.engine._scheduler.lanes.values()
        await until(lambda: lane.others == others)
        asking.cancel()
    assert server.asked.count("/metrics") <= 1 or gets[0] == "/metrics"
    assert not any("sk-secret" in head for head in server.heads if head.startswith("get"))


@pytest.mark.parametrize(("settings", "level"), [({}, 6.0), ({"max_concurrency": 40}, 40.0)])
async def test_slots_are_where_it_begins(settings: dict[str, object], level: float) -> None:
    """What would wait inside a server waits here, in our order, but for as many as can be computed next. What the
    settings say goes first."""
    server = Server({"/props": (200, "llama.cpp", '{"total_slots":3,"n_ctx":512}')}, "llama.cpp")
    async with server.listening() as url, before(url, **settings) as proxy:
        await ask(proxy)
        await until(lambda: "/props" in server.asked)
        await until(lambda: proxy.snapshot().lanes[0].state.level == level)
        await ask(proxy)
        assert server.asked.count("/props") == 1


async def test_one_whose_first_client_leaves_is_asked_at_once() -> None:
    """What the client sends next would be computed beside what it left."""
    server = Server({"/v1/models": (200, "BaseHTTP/0.6 Python/3.11", "")}, takes_s=30.0)
    async with server.listening() as url, before(url) as proxy:
        asking = asyncio.create_task(ask(proxy))
        await until(lambda: bool(server.heads))
        asking.cancel()
        await until(lambda: bool(proxy.snapshot().lanes) and provider(proxy) == "mlx")


async def test_a_named_profile_is_taken_at_its_word() -> None:
    """Where the settings name the profile, nothing is asked, and its limits are where it begins."""
    server = Server({}, server="llama.cpp")
    async with server.listening() as url, before(url, profile="generic") as proxy:
        await ask(proxy)
        state = proxy.snapshot().lanes[0].state
        assert (provider(proxy), state.level, server.asked) == ("generic", 5.0, [])
        assert {(window.limit, window.source) for window in state.windows} == {(60, "assumed"), (100_000, "assumed")}


@pytest.mark.parametrize(
    ("address", "header", "found"),
    [("10.0.0.7", "uvicorn", "local"), ("203.0.113.7", "uvicorn", "generic"), ("203.0.113.7", "llama.cpp", "llamacpp")],
)
async def test_a_name_is_resolved(monkeypatch: pytest.MonkeyPatch, address: str, header: str, found: str) -> None:
    """A name that leads to a private network is a server at home; a public host is known by its replies alone."""

    async def resolved(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(None, None, None, "", (address, 0))]

    asked: list[str] = []

    async def answer(*about: object) -> None:
        asked.append(address)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    monkeypatch.setattr(model_servers, "_asked", answer)
    settings = Settings(upstream=("lab=http://models.example",), port=0)
    reply = httpx.Response(200, json=ANSWER, headers={"server": header})
    proxy = Proxy(settings, transports={"lab": httpx.MockTransport(lambda _: reply)})
    proxy._simulated = frozenset()
    async with serve(proxy, settings, durable=False):
        await until(lambda: recognised(proxy))
        await ask(proxy)
        await until(lambda: recognised(proxy))
        assert provider(proxy) == found
    assert bool(asked) is (found == "local")
