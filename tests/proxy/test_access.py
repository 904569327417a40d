"""Pages in a browser neither read nor spend; programs are let in under every name that is ours."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
from proxy.kit import Running, between, raw, request
from proxy.wire import ANSWER, PLAIN_BODY, http

from hivemind.proxy.access import AccessPolicy, own_names
from hivemind.settings.hosts import checked_host, checked_origin, host_in

MESSAGES = "/v1/messages"
OWN = ("/_health", "/_stats", "/metrics", "/_control/snapshot", "/_control/openapi.json", "/mcp", "/agent/ann/mcp")
AGENTS = (MESSAGES, "/agent/ann/v1/messages", "/to/lab/v1/models", "/v1/models", "/")
EVIL = "http://evil.example"
FOREIGN = ("evil.example", "evil.example:8765", "localhost.evil.example", "127.0.0.1.evil.example", "localhosts")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as it came."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


async def ask(running: Running, target: str, *headers: str, method: str = "GET", host: str = "localhost") -> Answer:
    """One request, whose `Host` is written by hand."""
    text = request(target, PLAIN_BODY if method == "POST" else b"", *headers, method=method)
    async with raw(running.port) as wire:
        status, pairs = await wire.ask(text.replace(b"host: localhost\r\n", f"host: {host}\r\n".encode("latin-1")))
        assert [name for name, _ in pairs].count(b"access-control-allow-origin") <= 1, "browsers reject two"
        bodiless = status == 204 or method == "HEAD"
        return Answer(status, dict(pairs), b"" if bodiless else await wire.body(pairs))


async def test_a_rebound_name_reads_nothing() -> None:
    """A page whose own name leads here is refused on every path, whether the browser tells of it or not; the line names
    the setting, and nothing reaches the upstream."""
    async with between([ANSWER]) as (running, upstream):
        for headers in ((), ("sec-fetch-site: same-origin",), ("origin: http://evil.example:1",)):
            for target, host in product((OWN[0], *AGENTS), FOREIGN):
                answer = await ask(running, target, *headers, method="POST", host=host)
                assert (answer.status, b"--allowed-hosts" in answer.body) == (421, True), (target, host)
        assert upstream.requests == []


async def test_hosts_that_are_none() -> None:
    """Nor is anything let in under no name, or under what isn't one."""
    async with between([ANSWER]) as (running, upstream):
        for host in ("", "0.0.0.0", "[::]:1", "a b", "evil.example/", "[::1", "x@localhost", "\xe4", "a" * 400):
            assert (await ask(running, MESSAGES, method="POST", host=host)).status in (400, 421), host
        assert upstream.requests == []


async def test_our_names() -> None:
    """Addresses, localhost, this machine as containers call it, and the names that are set."""
    names = ("hive.example.org", "hivemind", ".lan.example")
    ours = ["127.0.0.1:1", "LocalHost", "localhost.:99", "[::1]:8765", "10.1.2.3", "ann.localhost:80", "a.lan.example"]
    ours += ["host.docker.internal", "host.containers.internal:8765", "hive.example.org", "hivemind:8765"]
    async with between([ANSWER], allowed_hosts=names) as (running, _):
        for host in ours:
            assert (await ask(running, "/_health", host=host)).status == 200, host
            assert (await ask(running, MESSAGES, method="POST", host=host)).status == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        (f"origin: {EVIL}",),
        ("origin: null",),
        ("origin: http://localhost:1",),
        ("sec-fetch-site: cross-site",),
        ("sec-fetch-site: same-site", "sec-fetch-mode: no-cors", "sec-fetch-dest: image"),
        (f"origin: {EVIL}", "sec-fetch-site: cross-site", "content-type: text/plain"),
    ],
)
async def test_a_foreign_page_spends_nothing(headers: tuple[str, ...]) -> None:
    """What a page of another site sends is refused, as a form, an image or a script has it sent."""
    async with between([ANSWER]) as (running, upstream):
        for target, method in product((*OWN, *AGENTS), ("GET", "POST", "OPTIONS")):
            answer = await ask(running, target, *headers, "access-control-request-method: POST", method=method)
            assert (answer.status, b"access-control-allow-origin" in answer.headers) == (403, False), (target, method)
        assert upstream.requests == []


async def test_what_people_open_themselves() -> None:
    """An address that was typed, and what the page that came of it asks for."""
    async with between([ANSWER]) as (running, _):
        for site in ("none", "same-origin"):
            assert (await ask(running, "/_health", f"sec-fetch-site: {site}")).status == 200
            assert (await ask(running, MESSAGES, f"sec-fetch-site: {site}", method="POST")).status == 200
        same = "origin: http://localhost:8765"
        assert (await ask(running, MESSAGES, same, method="POST", host="localhost:8765")).status == 200
        assert (await ask(running, "/_control/snapshot", same, method="POST", host="localhost:8765")).status == 403


@pytest.mark.parametrize("origin", ["https://app.example.org", "vscode-webview://1f3-a9", "app://obsidian.md"])
async def test_allowed_origins(origin: str) -> None:
    """They may ask before, ask, and read the answer and our refusals; the control API still wants its token."""
    allowed = ("https://app.example.org", "vscode-webview://*", "APP://obsidian.md/")
    async with between([ANSWER], allowed_origins=allowed) as (running, upstream):
        headers = (f"origin: {origin}", "sec-fetch-site: cross-site")
        asked = ("access-control-request-method: POST", "access-control-request-headers: x-api-key, content-type")
        before = await ask(running, MESSAGES, *headers, *asked, method="OPTIONS")
        assert (before.status, upstream.requests) == (204, [])
        assert before.headers[b"access-control-allow-origin"] == origin.encode()
        assert before.headers[b"access-control-allow-methods"] == b"POST"
        assert before.headers[b"access-control-allow-headers"] == b"x-api-key, content-type"
        for target, status in ((MESSAGES, 200), ("/to/nowhere/v1/messages", 404), ("/_control/snapshot", 403)):
            answer = await ask(running, target, *headers, method="POST")
            assert (answer.status, answer.headers[b"access-control-allow-origin"]) == (status, origin.encode()), target
        assert (await ask(running, MESSAGES, f"origin: {EVIL}", method="POST")).status == 403


async def test_one_word_on_who_may_read() -> None:
    """What the upstream says of origins is replaced for pages that are let in, and passes for programs."""
    answer = http(200, b"{}", "access-control-allow-origin: https://elsewhere.example")
    async with between([answer], allowed_origins=("https://app.example.org",)) as (running, _):
        page = await ask(running, MESSAGES, "origin: https://app.example.org", method="POST")
        assert page.headers[b"access-control-allow-origin"] == b"https://app.example.org"
        program = await ask(running, MESSAGES, method="POST")
        assert program.headers[b"access-control-allow-origin"] == b"https://elsewhere.example"


async def test_options_of_programs_pass() -> None:
    """Without an origin they are the upstream's, as they were."""
    async with between([ANSWER]) as (running, upstream):
        assert (await ask(running, "/v1/models", method="OPTIONS")).status == 200
        assert len(upstream.requests) == 1


def test_what_is_remembered_is_bounded() -> None:
    """However many names somebody invents."""
    policy = AccessPolicy((), ())
    for number in range(1000):
        assert policy.denial({b"host": b"a%d.localhost" % number}, own=False) is None
    assert len(policy._known) == 256
    assert policy.denial({b"host": b"evil.example"}, own=False) is not None


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("LOCALHOST:80", "localhost"),
        ("a.example.:80", "a.example"),
        ("[::1]:80", "::1"),
        ("[0:0::1]", "::1"),
        ("my_service", "my_service"),
        ("::1", None),
        ("a:b", None),
        ("a:999999", None),
        ("a..b", None),
        ("-a", None),
        ("a\x00b", None),
        ("", None),
    ],
)
def test_host_in(text: str, host: str | None) -> None:
    """Name or address, without what stands around it."""
    assert host_in(text) == host


@pytest.mark.parametrize(
    ("host", "machine", "names"),
    [
        ("127.0.0.1", "box.example.org", []),
        ("localhost", "box", []),
        ("::1", "box", []),
        ("0.0.0.0", "Box.example.org", ["box.example.org", "box", "box.local"]),
        ("::", "box", ["box", "box.local"]),
        ("hive.example", "10.0.0.1", ["hive.example"]),
        ("0.0.0.0", "", []),
    ],
)
def test_own_names(host: str, machine: str, names: list[str]) -> None:
    """Of a machine that others reach, its own; never the unspecified address."""
    assert list(own_names(host, machine)) == names


def test_settings_are_checked() -> None:
    """What a browser could never send is told at the start."""
    assert [checked_host(text) for text in ("A.b", "*.a.b", ".a.b", "*", "::1", "[::1]")] == [
        *("a.b", ".a.b", ".a.b", "*", "::1", "::1"),
    ]
    for text in ("", "a:80", "http://a", "a/", "a b", "*.*.a", "**"):
        with pytest.raises(ValueError, match="is no host name"):
            checked_host(text)
    origins = ("HTTPS://a.b:443/", "http://a:8080", "vscode-webview://*", "null", "app://obsidian.md")
    assert [checked_origin(text) for text in origins] == [
        *("https://a.b", "http://a:8080", "vscode-webview://*", "null", "app://obsidian.md"),
    ]
    for text in ("", "*", "a.b", "https://*", "http://a/b", "https://*:1", "https://a b"):
        with pytest.raises(ValueError, match="is no origin"):
            checked_origin(text)
