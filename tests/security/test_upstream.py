"""What an upstream can do to others: to another's keys, to another's lane, and to whoever looks at what it said."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import logging
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

import pytest
from proxy import kit
from proxy.kit import Hang, Play, Reset, client, playing, proxying
from proxy.test_keys_in_odd_places import recorded_in
from proxy.wire import ANSWER, PLAIN_BODY, anthropic_error, http
from upstream.scripted import serving

from hivemind import logs
from hivemind.console import Guarded
from hivemind.host.proxy import Proxy

KEY, OTHERS = "key-of-the-first-upstream-0123", "key-of-the-second-upstream-4567"
ONCE = {"max_attempts": 1}

# A title, a clipboard (OSC 52), a cleared screen, colours, C1's CSI, a backspace, a return, a new line that looks like
# one of the log, the marks that reverse text, what can't be seen, and the separators of lines of Unicode.
EVIL = (
    "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[31m\x9b31m\x08\r\n00:00:00 WARNING hivemind: forged\n"
    "\u202eesrever\u2066\u200b\ufeff\u2028\u2029\x85\x7f\x00"
)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 401, 407, 421, 503])
async def test_it_gets_no_key_of_another(status: int) -> None:
    """Whatever it answers with, a redirect to the other, a demand for credentials or a cookie, each sees its own."""
    async with serving(playing([ANSWER])) as second:
        says = http(
            status,
            anthropic_error("x"),
            f"location: {second.url}/v1/messages",
            f"alt-svc: h1={second.url}",
            'www-authenticate: Basic realm="x"',
            'proxy-authenticate: Basic realm="x"',
            "set-cookie: session=of-the-first; Path=/",
        )
        async with (
            serving(playing([says])) as first,
            proxying(f"a={first.url}", f"b={second.url}", retry=ONCE) as proxy,
            client() as web,
        ):
            for name, key in (("a", KEY), ("b", OTHERS), ("a", KEY), ("b", OTHERS)):
                await web.post(f"{proxy.url}/to/{name}/v1/messages", content=PLAIN_BODY, headers={"x-api-key": key})
                web.cookies.clear()
            at_first, at_second = (b"".join(each.requests).decode() for each in (first, second))
            assert (len(first.requests), len(second.requests)) == (2, 2)
            assert (KEY in at_first, OTHERS in at_first) == (True, False)
            assert (KEY in at_second, OTHERS in at_second, "of-the-first" in at_second) == (False, True, False)


LIMITED = http(
    429,
    anthropic_error("rate_limit_error"),
    "retry-after: 50",
    "anthropic-ratelimit-requests-limit: 1",
    "anthropic-ratelimit-requests-remaining: 0",
    "anthropic-ratelimit-requests-reset: 2099-01-01T00:00:00Z",
)


@pytest.mark.parametrize(
    "play",
    [[Hang()], [LIMITED], [http(529, anthropic_error("overloaded_error"))], [Reset()], [b"HTTP/1.1 200 -\r\nx: y"]],
    ids=["says nothing", "asks for a pause", "is overloaded", "resets", "says half a head"],
)
async def test_it_delays_no_other_lane(play: Play) -> None:
    """While the first holds or fails all its requests, those to the second are answered."""
    async with (
        serving(playing([*play, Hang()])) as first,
        serving(playing([ANSWER])) as second,
        proxying(f"a={first.url}", f"b={second.url}", max_concurrency=1) as proxy,
        client() as web,
    ):
        held = [
            asyncio.create_task(web.post(f"{proxy.url}/agent/n{n}/to/a/v1/messages", content=PLAIN_BODY))
            for n in range(5)
        ]
        await first.until(lambda: len(first.requests) >= 1)
        for _ in range(5):
            answer = await web.post(f"{proxy.url}/to/b/v1/messages", content=PLAIN_BODY)
            assert answer.status_code == 200
        assert not all(each.done() for each in held)
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)


# --- What is shown of what it said ------------------------------------------------------------------------------------


def obeyed(text: str) -> list[str]:
    """What of a text a terminal would obey, or show in another order or not at all; ends of lines are allowed."""
    found = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp") and each not in "\n\t"}
    return [f"U+{ord(each):04X}" for each in sorted(found)]


def latin(text: str) -> bytes:
    """Fit for a head: without what ends a line or a head."""
    return text.replace("\r", "").replace("\n", " ").replace("\x00", "").encode()


def _plays() -> Iterator[tuple[str, Play]]:
    yield "error's message", [http(400, anthropic_error(EVIL, EVIL))]
    yield "error of a retry", [http(529, anthropic_error("overloaded_error", EVIL)), ANSWER]
    yield "error that is text", [http(400, EVIL.encode(), "content-type: text/plain")]
    yield "error that is HTML", [http(502, f"<title>{EVIL}</title>".encode(), "content-type: text/html")]
    yield "reason", [b"HTTP/1.1 400 " + latin(EVIL) + b"\r\ncontent-length: 0\r\n\r\n"]
    headers = (b"retry-after: ", b"x-request-id: ", b"server: ", b"anthropic-ratelimit-requests-reset: ", b"x-")
    head = b"".join(name + latin(EVIL) + b"\r\n" for name in headers[:-1])
    yield "headers", [b"HTTP/1.1 429 -\r\n" + head + b"content-length: 0\r\n\r\n"]
    answer: dict[str, object] = {
        "model": EVIL,
        "id": EVIL,
        "stop_reason": EVIL,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    yield "answer", [http(200, answer)]
    yield "no HTTP", [latin(EVIL) + b"\r\n\r\n"]
    yield "half a head", [b"HTTP/1.1 " + latin(EVIL), Reset()]
    error = f"event: error\ndata: {json.dumps(anthropic_error(EVIL, EVIL))}\n\n".encode()
    yield "error in a stream", [http(200, error, "content-type: text/event-stream")]


PLAYS = dict(_plays())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log at level debug writes, as programs do: through the guarded standard error."""
    monkeypatch.setattr(kit, "Proxy", functools.partial(Proxy, tell=logs.log_line))
    text, root = io.StringIO(), logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.configure("debug", cast(TextIO, Guarded(text)))
    try:
        yield text
    finally:
        root.handlers[:] = before
        root.setLevel(level)


async def _outputs(proxy: Proxy) -> str:
    """All that people are shown of a running proxy, each text by itself."""
    shown = [line.text + line.who + line.tag for line in proxy.snapshot().lines]
    for view in proxy.engine.requests(0).changed:
        detail = proxy.detail(view.ticket)
        shown += [str(view.model), view.agent, *_texts(detail)]
    shown += [*_texts(proxy.snapshot().agents), *_texts(proxy.snapshot().lanes)]
    return "\n".join(shown)


def _texts(value: object) -> Iterator[str]:
    """Every text in a structure."""
    import msgspec

    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (*_texts(key), *_texts(each))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, int | float | bytes):
        yield from _texts(msgspec.to_builtins(value))


async def _looked_at(play: Play, terminal: io.StringIO, folder: Path, target: str, body: bytes, **headers: str) -> str:
    """Send a request, and check everything that people see of it. Return what was logged."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    async with (
        serving(playing(play)) as upstream,
        proxying(f"lab={upstream.url}", record_in=folder, retry={"max_attempts": 2}) as proxy,
        client() as web,
    ):
        raw = [(name.replace("_", "-").encode(), latin(value)) for name, value in headers.items()]
        for stream in (False, True):
            sent = body.replace(b"{", b'{"stream":true,', 1) if stream else body
            await web.post(proxy.url + target, content=sent, headers=raw)
        shown = await _outputs(proxy.proxy)
        for path in ("/metrics", "/_stats"):
            shown += (await web.get(proxy.url + path)).text
    assert obeyed(shown) == []
    journal = recorded_in(folder)
    assert obeyed(journal) == []
    log = terminal.getvalue()
    assert obeyed(log) == []
    assert "\n00:00:00 WARNING" not in log
    return log


@pytest.mark.parametrize("place", PLAYS)
async def test_nothing_it_says_reaches_a_terminal_raw(place: str, terminal: io.StringIO, tmp_path: Path) -> None:
    """Neither log nor journal, figures or request pages hold a character that a terminal obeys, nor a forged line."""
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    log = await _looked_at(PLAYS[place], terminal, tmp_path, "/v1/messages", body)
    assert " lab:" in log


MODEL = json.dumps({"model": EVIL, "messages": [], "metadata": {"user_id": EVIL}, "tools": [{"name": EVIL}]}).encode()
CODED = "".join(f"%{byte:02X}" for byte in EVIL.encode())


@pytest.mark.parametrize(
    ("target", "body", "headers"),
    [
        ("/v1/messages", MODEL, {}),
        (f"/v1beta/models/{CODED}:generateContent", b"{}", {}),
        (f"/agent/{CODED}/v1/messages", b"{}", {}),
        (f"/v1/messages?a={CODED}", b"{}", {}),
        (f"/to/{CODED}/v1/messages", b"{}", {}),
        (f"/{CODED}", b"{}", {}),
        ("/v1/messages", b"{}", {"x_hivemind_agent": EVIL, "x_hivemind_priority": EVIL}),
        ("/v1/messages", b"{}", {"session_id": EVIL, "user_agent": EVIL, "x_request_id": EVIL}),
        ("/v1/messages", b"{}", {"x_claude_code_session_id": EVIL, "x_claude_code_agent_id": EVIL}),
    ],
    ids=["body", "model in the path", "name", "query", "upstream", "path", "own headers", "ids", "sessions"],
)
async def test_nothing_a_client_says_does_either(
    target: str, body: bytes, headers: dict[str, str], terminal: io.StringIO, tmp_path: Path
) -> None:
    """The same of what agents send: names, models, ids, paths."""
    await _looked_at([http(400, anthropic_error("x", "y"))], terminal, tmp_path, target, body, **headers)
