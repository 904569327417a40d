from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis_server
import trustme
from ports import unused_port
from redis_server import RedisServer, running
from waiting import until

from hivemind.errors import UsageError
from hivemind.fleet.store import Fault, FleetStore, Script, ScriptRun, StoreError
from hivemind.settings.store_address import store_address

ADD = Script.of("return redis.call('INCRBY', KEYS[1], ARGV[1])")
CANARY = "canary-5f2d8c6b1e"


@contextlib.asynccontextmanager
async def opened(url: str, ca_file: Path | None = None) -> AsyncIterator[FleetStore]:
    store = FleetStore(url, ca_file)
    try:
        yield store
    finally:
        await store.aclose()


async def error_of(store: FleetStore) -> StoreError:
    with pytest.raises(StoreError) as found:
        await store.call("SET", "a", "1")
    assert "\n" not in str(found.value)
    return found.value


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://10.0.0.1", "redis://10.0.0.1:6379"),
        ("valkey://host:7000/3", "valkey://host:7000/3"),
        (f"rediss://me:{CANARY}@host/0", "rediss://host:6379"),
        (f"valkeys://:{CANARY}@[::1]:6380?db=2", "valkeys://[::1]:6380/2"),
        (f"unix://me:{CANARY}@/run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    address = store_address(url)
    assert address.shown == shown
    assert address.tls is url.startswith(("rediss", "valkeys"))
    assert CANARY not in repr(address)
    assert address.password == (CANARY if CANARY in url else None)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:6379",
        "http://host",
        "redis://",
        "redis:///0",
        "redis://host:0",
        "redis://host:99999",
        "redis://host/name",
        "redis://host?ssl_cert_reqs=none",
        "redis://host?db=1&db=2",
        "redis://:pa#ss@host",
        "unix://relative.sock",
        "redis://host name",
    ],
)
def test_what_cant_be_a_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|may)"):
        store_address(url)


async def test_commands_and_scripts(server: RedisServer) -> None:
    async with opened(server.url) as store:
        assert await store.call("SET", "text", "é", "PX", 60_000) == b"OK"
        assert await store.call("GET", "text") == "é".encode()
        assert await store.run(ADD, "sum", 2) == 2
        server.command("SCRIPT", "FLUSH")
        # The scripts that it forgot run again, once each, and the other commands aren't repeated.
        assert await store.pipeline([("INCR", "n"), ScriptRun(ADD, "sum", (3,)), ("INCR", "n")]) == [1, 5, 2]
        assert await store.pipeline([]) == []


async def test_an_error_of_one_command_leaves_the_others(server: RedisServer) -> None:
    async with opened(server.url) as store:
        first, error, last = await store.pipeline([("SET", "word", "a"), ("INCR", "word"), ("GET", "word")])
        assert (first, last) == (b"OK", b"a")
        assert isinstance(error, StoreError)
        assert error.fault is Fault.MISTAKE
        assert "not an integer" in str(error)


async def test_several_at_once_get_their_own_answers(server: RedisServer) -> None:
    async with opened(server.url) as store:
        answers = await asyncio.gather(*(store.call("ECHO", str(number)) for number in range(50)))
        assert answers == [str(number).encode() for number in range(50)]


async def test_a_cancelled_command_leaves_no_answer_behind(server: RedisServer) -> None:
    async with opened(server.url) as store:
        await store.call("PING")
        for steps in range(1, 8):
            task = asyncio.create_task(store.call("ECHO", "cancelled"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert await store.call("ECHO", str(steps)) == str(steps).encode()


async def test_a_server_that_ends_and_one_that_comes_back() -> None:
    with running() as server:
        async with opened(server.url) as store:
            await store.call("PING")
            server.kill()
            found = [(await error_of(store)).kind for _ in range(3)]
            assert found[0] in ("closed", "refused")
            error = await error_of(store)
            assert (error.kind, error.fault) == ("refused", Fault.AWAY)
            server.start()
            async with asyncio.timeout(20):
                while True:
                    with contextlib.suppress(StoreError):
                        assert await store.call("GET", "a") is None
                        break
                    await asyncio.sleep(0.01)


async def test_a_server_that_accepts_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hivemind.fleet.store.ANSWER_S", 1.0)
    monkeypatch.setattr("hivemind.fleet.store.CONNECT_S", 1.0)
    with running() as server:
        async with opened(server.url) as store:
            await store.call("PING")
            server.suspend()
            error = await error_of(store)
            assert (error.kind, error.fault) == ("silent", Fault.AWAY)
            error = await error_of(store)
            assert (error.kind, error.fault) == ("silent", Fault.AWAY)
            server.kill()
            await asyncio.sleep(0.2)
            error = await error_of(store)
            assert (error.kind, error.fault) == ("refused", Fault.AWAY)


async def test_one_that_refuses_after_silence_may_be_a_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends in silence, and then somebody refuses: the store may be there for others."""
    monkeypatch.setattr("hivemind.fleet.store.ANSWER_S", 0.2)
    with running() as server:
        async with opened(server.url) as store:
            await store.call("PING")
            server.suspend()
            assert (await error_of(store)).kind == "silent"
            server.kill()
            error = await error_of(store)
            assert (error.kind, error.fault) == ("refused", Fault.UNREACHABLE)


async def test_an_address_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hivemind.fleet.store.CONNECT_S", 0.2)
    # A socket that listens with a full queue: SYNs aren't answered, as on a network that drops them.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        async with opened(f"redis://127.0.0.1:{full.getsockname()[1]}") as store:
            error = await error_of(store)
            assert (error.kind, error.fault) == ("timeout", Fault.UNREACHABLE)
        for each in waiting:
            each.close()
    monkeypatch.undo()
    async with opened("redis://nowhere.invalid") as store:
        assert (await error_of(store)).kind == "name"


async def test_passwords() -> None:
    with running(password=CANARY) as server:
        async with opened(server.url) as store:
            assert await store.call("PING") == b"PONG"
        async with opened(server.url_with("")) as store:
            error = await error_of(store)
            assert (error.kind, "wants a password" in str(error)) == ("password", True)
        async with opened(server.url_with(f"{CANARY}-wrong")) as store:
            error = await error_of(store)
            assert (error.kind, error.fault) == ("password", Fault.MISTAKE)
            assert CANARY not in repr(vars(error)) + str(error)


async def test_a_password_that_isnt_wanted(server: RedisServer) -> None:
    async with opened(server.url_with(CANARY)) as store:
        error = await error_of(store)
        assert (error.kind, "has no password" in str(error)) == ("password", True)


async def test_rights(server: RedisServer) -> None:
    server.command("ACL", "SETUSER", "reader", "on", f">{CANARY}", "~*", "+@read", "-@all", "+get")
    url = server.url.replace("redis://", f"redis://reader:{CANARY}@")
    async with opened(url) as store:
        assert await store.call("GET", "nothing") is None
        error = await error_of(store)
        assert (error.kind, error.fault) == ("rights", Fault.MISTAKE)


async def test_a_unix_socket() -> None:
    with running(unix=True, password=CANARY) as server:
        async with opened(server.url) as store:
            assert await store.call("PING") == b"PONG"
            server.kill()
            await error_of(store)
            assert (await error_of(store)).kind == "refused"


async def test_a_replica_takes_no_writes(server: RedisServer) -> None:
    with redis_server.replica_of(server) as replica:
        async with opened(replica.url) as store:
            error = await error_of(store)
            assert (error.kind, error.fault) == ("read only", Fault.AWAY)
            with pytest.raises(StoreError, match="replica"):
                await store.run(ADD, "sum", 1)
            replica.command("REPLICAOF", "NO", "ONE")
            assert await store.run(ADD, "written", 1) == 1


async def test_no_memory(server: RedisServer) -> None:
    server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        async with opened(server.url) as store:
            assert (await error_of(store)).kind == "memory"
    finally:
        server.command("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.slow
async def test_a_script_that_doesnt_end() -> None:
    with running(options=("--busy-reply-threshold", "20")) as server:
        async with opened(server.url) as one, opened(server.url) as other:
            await other.call("PING")
            running_on = asyncio.create_task(one.run(Script.of("while true do end"), "a"))
            await asyncio.sleep(0.1)
            error = await error_of(other)
            assert error.kind in ("busy", "silent")
            assert error.fault is Fault.AWAY
            with pytest.raises(StoreError):
                await running_on


CLUSTER = ("--cluster-enabled", "yes", "--cluster-port")
"""With a port; its usual one, its own plus 10,000, may be taken."""


async def test_clusters() -> None:
    with running(options=(*CLUSTER, str(unused_port()))) as server:
        async with opened(server.url) as store:
            assert (await error_of(store)).kind == "cluster"


def test_a_server_that_cant_start() -> None:
    """The reason is its own log, and nothing is left to be ended."""
    with pytest.raises(AssertionError, match="redis-server didn't start"), running(options=("--no-such-option", "1")):
        pass


async def test_tls(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate, trusted, distrusted = tmp_path / "server.pem", tmp_path / "ca.pem", tmp_path / "other.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    authority.cert_pem.write_to_path(trusted)
    other.cert_pem.write_to_path(distrusted)
    with running(certificate=certificate) as server:
        async with opened(server.url, trusted) as store:
            assert await store.call("PING") == b"PONG"
        for ca_file in (distrusted, None):
            async with opened(server.url, ca_file) as store:
                error = await error_of(store)
                assert (error.kind, error.fault, "--ca-file" in str(error)) == ("tls", Fault.MISTAKE, True)
        async with opened(server.url.replace("127.0.0.1", "localhost"), trusted) as store:
            assert (await error_of(store)).kind == "tls"


async def test_tls_to_a_port_without(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hivemind.fleet.store.CONNECT_S", 0.2)
    async with opened(server.url.replace("redis://", "rediss://")) as store:
        error = await error_of(store)
        assert (error.kind, "port one for TLS" in str(error)) == ("silent", True)


async def test_no_tls_to_a_port_with_it(tmp_path: Path) -> None:
    certificate = tmp_path / "server.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    with running(certificate=certificate) as server:
        async with opened(server.url.replace("rediss://", "redis://")) as store:
            error = await error_of(store)
            assert (error.kind, error.fault) == ("hung up", Fault.UNREACHABLE)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$9999999999\r\n" + b"x" * 100_000,
        b"$-7\r\n",
        b"$many\r\n",
        b":one\r\n",
        b"*1\r\n" * 20_000,
        b"*x\r\n",
        b"+" + b"x" * 200_000,
        b"\xff\xfe\r\n",
        b"\r\n",
    ],
)
async def test_another_protocol(reply: bytes) -> None:
    """What isn't Redis's protocol is told, whatever it is, and never read without bound."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(10)
            writer.write(reply)
            await writer.drain()
        writer.close()

    web = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with web, opened(f"redis://127.0.0.1:{web.sockets[0].getsockname()[1]}") as store:
        assert (await error_of(store)).kind == "protocol"


async def test_messages() -> None:
    heard: list[str | None] = []
    with running() as server:
        async with opened(server.url) as store:
            store.subscribe("kicks", heard.append)
            await until(lambda: heard == [None])
            await store.call("PUBLISH", "kicks", "a")
            await until(lambda: heard == [None, "a"])
            other: list[str | None] = []
            store.subscribe("other", other.append)
            await until(lambda: other == [None])
            server.kill()
            server.start()
            await until(lambda: heard == [None, "a", None])
            store.unsubscribe("other")
            with contextlib.suppress(StoreError):
                await store.call("PING")
            async with asyncio.timeout(20):
                while "b" not in heard:
                    with contextlib.suppress(StoreError):
                        await store.call("PUBLISH", "other", "c")
                        await store.call("PUBLISH", "kicks", "b")
                    await asyncio.sleep(0.01)
            assert "c" not in other or other[-1] != "b"


async def test_calls_between_attempts_fail_at_once() -> None:
    async with opened("redis://127.0.0.1:1") as store:
        errors = [await error_of(store) for _ in range(100)]
        assert {each.kind for each in errors} == {"refused"}
        assert len(set(map(id, errors))) == 100  # raising one object again would keep a trace of each time


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "redis.asyncio", None)
    with pytest.raises(UsageError, match=r"pip install 'hivemind-tui\[fleet\]'"):
        FleetStore("redis://127.0.0.1")
