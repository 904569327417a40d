"""A page in a browser gets nothing out of the proxy: each way in which a page can send, on every path of ours."""

from __future__ import annotations

import itertools

from proxy.kit import between
from proxy.test_access import EVIL, OWN, ask
from proxy.wire import ANSWER
from security.kit import CONTROL, endpoints

from hivemind.store.token_file import ControlKey

MESSAGES = ("/v1/messages", "/agent/ann/v1/messages", "/to/lab/v1/messages", "/v1beta/models/m:generateContent")
CONTROLS = tuple(path for _, path in endpoints())
PATHS = tuple(dict.fromkeys((*OWN, *MESSAGES, *CONTROLS)))
FOREIGN = f"origin: {EVIL}"
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a form": ("POST", (FOREIGN, "content-type: application/x-www-form-urlencoded", "sec-fetch-mode: navigate")),
    "a form as text": ("POST", (FOREIGN, "content-type: text/plain", "sec-fetch-dest: document")),
    "a form of an old browser": (
        "POST",
        (f"referer: {EVIL}/", FOREIGN, "content-type: multipart/form-data; boundary=x"),
    ),
    "a script": ("POST", (FOREIGN, "content-type: application/json", "sec-fetch-mode: cors")),
    "a beacon": ("POST", (FOREIGN, "content-type: text/plain", "sec-fetch-mode: no-cors", "sec-fetch-dest: empty")),
    "a preflight": ("OPTIONS", (FOREIGN, "access-control-request-method: POST", "access-control-request-headers: x")),
    "a preflight into a private network": (
        "OPTIONS",
        (FOREIGN, "access-control-request-method: GET", "access-control-request-private-network: true"),
    ),
    "an event source": (
        "GET",
        (FOREIGN, "accept: text/event-stream", "sec-fetch-mode: cors", "cache-control: no-cache"),
    ),
    "an image": ("GET", ("sec-fetch-site: cross-site", "sec-fetch-mode: no-cors", "sec-fetch-dest: image")),
    "a script's source": ("GET", ("sec-fetch-site: cross-site", "sec-fetch-dest: script")),
    "a frame": ("GET", ("sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: iframe")),
    "a sandboxed frame": ("POST", ("origin: null", "sec-fetch-site: cross-site", "content-type: text/plain")),
    "a file": ("POST", ("origin: null", "content-type: text/plain")),
    "an extension": ("POST", ("origin: chrome-extension://abcdefghijklmnop", "content-type: application/json")),
    "another port of this machine": ("POST", ("origin: http://127.0.0.1:1", "sec-fetch-site: same-site")),
    "two origins": ("POST", (FOREIGN, "origin: http://localhost")),
    "an origin that begins as ours": ("POST", ("origin: http://localhost.evil.example",)),
}


async def test_no_way_of_sending_gets_in() -> None:
    """It is refused on every path, with the control token too; no answer lets the page read it."""
    async with between([ANSWER]) as (running, upstream):
        running.proxy.control_key = ControlKey("run-1", CONTROL)
        for way, (method, headers) in WAYS.items():
            for path in PATHS:
                answer = await ask(running, path, *headers, f"authorization: Bearer {CONTROL}", method=method)
                read = b"access-control-allow-origin" in answer.headers or b"run-1" in answer.body
                assert (answer.status in (400, 403), read) == (True, False), (way, path)
        assert upstream.requests == []


async def test_no_websocket_is_opened() -> None:
    """A WebSocket, which no browser's rules hold back, isn't spoken here, and reaches no upstream."""
    handshake = (
        *("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13"),
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    async with between([ANSWER]) as (running, upstream):
        for path in PATHS:
            for headers in ((FOREIGN,), ("origin: null",), ()):
                assert (await ask(running, path, *headers, *handshake)).status == 426, path
        assert upstream.requests == []


async def test_a_rebound_name_gets_nowhere() -> None:
    """A page whose own name leads here is of the same origin to its browser, and is refused by its `Host`."""
    async with between([ANSWER]) as (running, upstream):
        running.proxy.control_key = ControlKey("run-1", CONTROL)
        host, shown = f"rebound.example:{running.port}", f"authorization: Bearer {CONTROL}"
        own = (f"origin: http://{host}", "sec-fetch-site: same-origin")
        for path, method, headers in itertools.product(PATHS, ("GET", "POST", "OPTIONS"), ((), own)):
            answer = await ask(running, path, *headers, shown, method=method, host=host)
            assert (answer.status, b"run-1" in answer.body) == (421, False), path
        assert upstream.requests == []
