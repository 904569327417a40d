"""The other end of the control API: what is asked and ordered, and what is told where nothing comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from control.kit import RUN, TOKEN, FakeProxy, busy_proxy, controlled, proven, proving
from ports import unused_port
from world.kit import arrived, sampled, state

from hivemind.control.client import ControlClient, ControlError, open_http
from hivemind.control.codec import merge
from hivemind.control.discovery import Token, parse_address
from hivemind.host.loop import run_loop
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.store.token_file import Note, write_note
from hivemind.world.snapshot import REQUESTS_PAGE

OURS = Token(TOKEN, "HIVEMIND_CONTROL_TOKEN")


@contextlib.asynccontextmanager
async def asking(url: str, token: Token = OURS, timeout_s: float = 5.0) -> AsyncIterator[ControlClient]:
    """A client of whatever is at that URL."""
    async with open_http(parse_address(url)) as http:
        http.timeout = timeout_s
        yield ControlClient(url, token, http)


async def test_world() -> None:
    """The whole first, then what is new, and together they are the world."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, asking(url) as client:
        first = await client.world()
        assert (first.whole, first.snapshot) == (True, proxy.snapshot())
        proxy.at = 11.0
        proxy.happens(sampled(11.0, state()))
        then = await client.world(RUN, first.snapshot.at)
        assert (then.whole, merge(first.snapshot, then)) == (False, proxy.snapshot())


async def test_requests() -> None:
    """A page, the rest, and then nothing."""
    proxy = FakeProxy(*(arrived(number) for number in range(1, REQUESTS_PAGE + 2)))
    async with controlled(proxy) as url, asking(url) as client:
        first = await client.requests()
        assert first.changed == proxy.requests(0).changed
        rest = await client.requests(RUN, first.revision)
        assert [view.ticket for view in rest.changed] == [REQUESTS_PAGE + 1]
        assert (await client.requests(RUN, rest.revision)).changed == ()


async def test_one_request() -> None:
    """All about it, or None."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, asking(url) as client:
        assert await client.request(1) == proxy.detail(1)
        assert await client.request(99) is None


async def test_orders(tmp_path: Path) -> None:
    """Commands and settings arrive as they were meant, and what is rejected is told in the proxy's words."""
    file = tmp_path / "hivemind.toml"
    proxy = busy_proxy(file)
    async with controlled(proxy) as url, asking(url) as client:
        await client.command(cmd.PinLevel(None, "up:1"), "ops")
        assert proxy.applied == [(cmd.PinLevel(None, "up:1"), "ops")]
        draft = await client.draft({"rpm": 50})
        assert (draft.path, draft.before, draft.after) == (file, "", "rpm = 50\n")
        await client.write(draft, "ops")
        assert file.read_text() == "rpm = 50\n"
        with pytest.raises(cmd.Rejected, match="has changed in the meantime"):
            await client.write(draft, "ops")
        with pytest.raises(cmd.Rejected, match="did you mean rpm"):
            await client.draft({"rmp": 50})
        proxy.reject = "no agent named 'bob'; known: ann"
        with pytest.raises(cmd.Rejected, match="no agent named 'bob'; known: ann"):
            await client.command(cmd.PauseAgent("bob", True), "ops")


async def why(url: str, token: Token = OURS, timeout_s: float = 5.0) -> tuple[str, bool]:
    """What is told of a proxy that can't be asked, and whether it may have heard."""
    async with asking(url, token, timeout_s) as client:
        with pytest.raises(ControlError) as caught:
            await client.world()
        return str(caught.value), caught.value.sent


async def test_nobody_there() -> None:
    """A port where nobody listens."""
    assert await why(f"http://127.0.0.1:{unused_port()}") == ("nothing listens there; start the proxy", False)


def test_it_closes_what_it_takes() -> None:
    """At once, which beside uvloop often is an error of anyio's own."""

    async def ask(url: str) -> None:
        async with asking(url) as client:
            for _ in range(500):
                with pytest.raises(ControlError):
                    await client.world()

    def close_each() -> None:
        for _ in range(500):
            listening.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # they are reset
        threading.Thread(target=close_each, daemon=True).start()
        run_loop(ask(f"http://127.0.0.1:{listening.getsockname()[1]}"))


async def test_no_such_host() -> None:
    """A name that leads nowhere."""
    text, sent = await why("http://host.invalid:8765")
    assert (text.startswith("it can't be reached ("), sent) == (True, False)


async def test_wrong_token() -> None:
    """A token that isn't the proxy's: where it was found is told, and nothing of it."""
    async with controlled(busy_proxy()) as url:
        text, sent = await why(url, Token("wrong-token", "/state/control-1.json"))
        assert text.startswith("what listens there doesn't know the token from /state/control-1.json, so it wasn't")
        assert ("wrong-token" in text, sent) == (False, False)


async def test_switched_off() -> None:
    """A proxy whose control API is off says so itself."""
    proxy = busy_proxy()
    proxy.control_key = None
    async with controlled(proxy) as url:
        assert (await why(url))[0].startswith("the control API is off")


@contextlib.asynccontextmanager
async def answering(reply: bytes | None, *, proves: bool = False) -> AsyncIterator[str]:
    """Something that answers every connection with this, or (None) with nothing; if it proves, after its proof."""
    tasks: set[asyncio.Task[Any]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # it runs in one
        head = await reader.readuntil(b"\r\n\r\n")
        if proves:
            writer.write(http("200 OK", proven(head.split()[1].decode()).decode()))
            await reader.readuntil(b"\r\n\r\n")
        if reply is None:
            await reader.read()
        else:
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*tasks)


def http(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body.encode())}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (http("404 Not Found", '{"error": "there is no such page"}'), "which must be restarted"),
        (http("401 Unauthorized", '{"type":"error"}'), "which must be restarted"),
        (http("302 Found", ""), "can't prove that it knows the token from HIVEMIND_CONTROL_TOKEN"),
        (http("200 OK", "<html>"), "can't prove"),
        (http("200 OK", "<html>" * 1000), "can't prove"),
        (http("200 OK", "[" * 4000), "can't prove"),
        (http("200 OK", '{"run": "run-1", "proof": "é"}'), "doesn't know the token"),
        (
            http("421 Misdirected Request", '{"error": "start it with --allowed-hosts"}'),
            "start it with --allowed-hosts",
        ),
        (b"", "the connection broke off"),
        (b"SSH-2.0-OpenSSH\r\n", "the connection broke off"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "the connection broke off"),
    ],
)
async def test_no_proof(reply: bytes, said: str) -> None:
    """What doesn't prove that it knows the token isn't shown it."""
    async with answering(reply) as url:
        text, heard = await why(url)
        assert said in text
        assert not heard


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (http("404 Not Found", "nope"), "isn't HiveMind's control API (status 404)"),
        (http("302 Found", ""), "isn't HiveMind's control API (status 302)"),
        (http("401 Unauthorized", '{"type":"error"}'), "isn't HiveMind's control API (status 401)"),
        (http("200 OK", "<html>"), "isn't HiveMind's control API; is the URL right?"),
        (http("200 OK", "[]"), "isn't HiveMind's control API; is the URL right?"),
        (http("200 OK", "[" * 100_000), "isn't HiveMind's control API; is the URL right?"),
        (http("200 OK", '{"version": "99.0"}'), "it is HiveMind 99.0 and this is "),
        (http("502 Bad Gateway", "oops"), "it fails (status 502)"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: zstd\r\ncontent-length: 2\r\n\r\n[]", "can't be decompressed"),
        (b"", "the connection broke off"),
    ],
)
async def test_something_else_there(reply: bytes, said: str) -> None:
    """Another version, or a broken one, is told apart."""
    async with answering(reply, proves=True) as url:
        text, _ = await why(url)
        assert said in text


async def test_many_requests_at_once() -> None:
    """Each goes over a connection that was proven, however many are opened at the same time."""
    async with controlled(busy_proxy()) as url, open_http(parse_address(url)) as http:
        client = ControlClient(url, OURS, http)
        for _ in range(2):
            assert len(await asyncio.gather(*(client.about() for _ in range(15)))) == 15


async def test_a_connection_that_is_new(tmp_path: Path) -> None:
    """What listens on the port after the proxy gets no token, though the client had shown it to the proxy before."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        body = proven(heard[-1].split()[1].decode(), "another-token")
        writer.write(http("200 OK", body.decode()))
        heard.append(await reader.read())
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        async with contextlib.AsyncExitStack() as ended:
            url = await ended.enter_async_context(controlled(busy_proxy()))
            client = await stack.enter_async_context(asking(url))
            await client.world()
        server = await asyncio.start_server(listen, "127.0.0.1", parse_address(url).port)
        for _ in range(3):
            with pytest.raises(ControlError, match="doesn't know the token"):
                await client.world()
        server.close()
    assert len(heard) >= 5
    assert TOKEN.encode() not in b"".join(heard)


async def test_an_answer_of_another_proxy(tmp_path: Path) -> None:
    """A listener that has the challenge answered by another proxy with the same token gets none: its run is another."""
    note = tmp_path / "control-1.json"
    write_note(note, Note("http://127.0.0.1:1", TOKEN, 1, "the run that was killed"))
    async with controlled(busy_proxy()) as url:
        text, _ = await why(url, replace(OURS, note=note))
        assert text.startswith("what listens there doesn't know the token")
        write_note(note, Note(url, TOKEN, 1, RUN))
        async with asking(url, replace(OURS, note=note)) as client:
            assert (await client.world()).run == RUN


async def test_same_version_other_answer() -> None:
    """An answer that this very version can't read is told as it is, with the place."""
    proxy = busy_proxy()
    async with controlled(proxy) as url, httpx.AsyncClient(timeout=60, trust_env=False) as web:
        told = (await web.get(f"{url}/_control/snapshot", headers={"authorization": f"Bearer {TOKEN}"})).json()
    told["snapshot"]["mode"] = 5
    async with answering(http("200 OK", json.dumps(told)), proves=True) as url:
        assert (await why(url))[0].startswith(
            "its answer can't be read: Expected `str`, got `int` - at `$.snapshot.mode`"
        )


async def test_silence() -> None:
    """One that takes the connection and says nothing is waited for, but not for ever."""
    for proves in (False, True):
        async with answering(None, proves=proves) as url:
            assert await why(url, timeout_s=0.05) == ("no answer within 5 s", proves)


async def test_tls_where_there_is_none() -> None:
    """https to a port that speaks http."""
    async with controlled(busy_proxy()) as url:
        text, sent = await why(url.replace("http:", "https:"))
        assert (text.startswith("TLS failed ("), sent) == (True, False)


async def test_prefix() -> None:
    """Behind a gateway that puts a path before it, it is asked there."""
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(422, json={"error": "no"})

    async with httpx.AsyncClient(transport=proving(answer)) as web:
        with pytest.raises(cmd.Rejected, match=r"^no$"):
            await ControlClient("https://gate/hive", OURS, web).command(cmd.Drain(True), "ops")
    assert seen == ["/hive/_control/commands"]


async def test_new_token(tmp_path: Path) -> None:
    """Looking again finds the token that stands there now, and says whether it is another."""
    file = tmp_path / "token"
    file.write_text("old")
    async with controlled(busy_proxy()) as url, asking(url, replace(OURS, text="old", file=file)) as client:
        assert not client.renew_token()
        file.write_text(TOKEN)
        assert client.renew_token()
        assert (await client.world()).run == RUN
