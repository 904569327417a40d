"""What a refusal, ours or one that is passed on, says to each client, so that it asks again."""

from __future__ import annotations

import asyncio
import gzip
import json
import re

import pytest
from providers.test_clients import AGENTS
from proxy.kit import Raw, between, client, raw, request
from proxy.wire import ANSWER, MESSAGE_START, OVERLOADED, PLAIN_BODY, SSE, STREAM_BODY, anthropic_error, chunked, http

from hivemind.providers import clients
from hivemind.providers.clients import Client, TryAgain, client_of
from hivemind.scheduler.commands import SetCircuit

CLAUDE = "claude-cli/2.1.332 (external, sdk-cli)"
CODEX = "codex_exec/0.171.0 (Debian; x86_64)"
MESSAGES = "/v1/messages"
ONCE = {"retry": {"max_attempts": 1}}
PATHS = (MESSAGES, "/v1/chat/completions", "/v1/responses", "/v1beta/models/g:generateContent", "/api/chat")


@pytest.mark.parametrize("path", PATHS)
async def test_our_own_refusals(path: str) -> None:
    """Each client is told to come back in the form that it obeys, in every dialect, and never of an overload."""
    async with between([ANSWER]) as (proxy, _), client() as web:
        await proxy.proxy.drain(0)
        for user_agent in sorted({each[0] for each in AGENTS}):
            form = client_of([(b"user-agent", user_agent.encode())]).try_again
            if form.hold_s:
                continue
            answer = await web.post(proxy.url + path, content=PLAIN_BODY, headers={"user-agent": user_agent})
            told = (answer.status_code, answer.headers["x-should-retry"], int(answer.headers["retry-after"]))
            assert told == (503, "true", form.delay_s(20.0)), user_agent
            assert "overloaded" not in answer.text


@pytest.mark.parametrize(
    ("user_agent", "status", "said", "told", "delay"),
    [
        (CODEX, 429, (), 429, "26"),
        (CODEX, 429, ("retry-after: 240",), 429, "120"),
        (CODEX, 529, ("retry-after: 30",), 529, "30"),
        (CLAUDE, 529, (), 503, "13"),
        (CLAUDE, 529, ("retry-after: 240",), 503, "60"),
        (CLAUDE, 503, ("retry-after-ms: 61000",), 503, "60"),
        (CLAUDE, 502, (), 503, "13"),
        ("Anthropic/Python 2.11.0", 529, ("retry-after: 240",), 529, "240"),
        ("OpenAI/JS 7.59.0", 429, ("retry-after: 240",), 429, "59"),
        ("curl/8.0", 429, ("retry-after: 61",), 429, "59"),
        ("curl/8.0", 503, (), 503, "59"),
    ],
)
async def test_what_is_passed_on(user_agent: str, status: int, said: tuple[str, ...], told: int, delay: str) -> None:
    """An upstream's temporary refusal, once our own attempts are used up, says when to ask again, in the provider's
    words; where its name alone would end the client, under another one."""
    refusal = http(status, anthropic_error("overloaded_error", "in its own words", more=1), "request-id: r", *said)
    async with between([refusal], **ONCE) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY, headers={"user-agent": user_agent})
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["request-id"]) == (told, delay, "r")
    kind = "api_error" if user_agent == CLAUDE else "overloaded_error"
    assert answer.json() == anthropic_error(kind, "in its own words", more=1)
    assert "retry-after-ms" not in answer.headers


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_claude_code_reads_what_was_encoded(encoding: str) -> None:
    """A body that is rewritten is sent without the encoding that it came in."""
    body = json.dumps(anthropic_error("overloaded_error", "m")).encode()
    sent = gzip.compress(body) if encoding == "gzip" else body
    refusal = http(529, sent, "content-type: application/json", f"content-encoding: {encoding}")
    async with between([refusal], **ONCE) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY, headers={"user-agent": CLAUDE})
    assert (answer.status_code, answer.json()) == (503, anthropic_error("api_error", "m"))
    assert "content-encoding" not in answer.headers


async def test_a_quota_ends_clients_that_obey_no_hint() -> None:
    """They ask again after a 429 whatever it says, and end at a 400, with the provider's words."""
    quota = http(429, anthropic_error("billing_error", "no credits"))
    async with between([quota]) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY, headers={"user-agent": "opencode/1.18.33"})
    assert (answer.status_code, answer.json()) == (400, anthropic_error("billing_error", "no credits"))


async def test_an_error_event_before_content() -> None:
    """A stream that fails before its content is told by a status, because SDKs don't ask again after an event."""
    failing = [chunked([MESSAGE_START, OVERLOADED], SSE)]
    async with between(failing, **ONCE) as (proxy, _), client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=STREAM_BODY, headers={"user-agent": CLAUDE})
    assert (answer.status_code, answer.json()) == (503, anthropic_error("api_error", "Overloaded"))
    assert answer.headers["retry-after"] == "13"


@pytest.mark.parametrize(("user_agent", "begun"), [("OpenAI/JS 7.59.0", False), (CLAUDE, True)])
async def test_streams_are_begun_early_for_those_that_bear_it(user_agent: str, begun: bool) -> None:
    """A client that ends at an error in a stream gets no head before its patience needs it, so that a refusal still is
    a status."""
    gate = asyncio.Event()
    soon = {"keepalive_after_s": 0.005, "keepalive_every_s": 0.005, "max_concurrency": 1}
    async with (
        between([gate, ANSWER], [ANSWER], **soon) as (proxy, upstream),
        raw(proxy.port) as first,
        raw(proxy.port) as second,
        raw(proxy.port) as third,
    ):
        await first.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await second.send(request(MESSAGES, STREAM_BODY, f"user-agent: {user_agent}"))
        await proxy.until(lambda world: world.queued == 1)
        await third.send(request(MESSAGES, STREAM_BODY, f"user-agent: {CLAUDE}"))
        assert (await third.head())[0] == 200  # the second would have begun before it
        drained = asyncio.create_task(proxy.proxy.drain(5))
        status, headers = await second.head()
        assert status == (200 if begun else 503)
        assert (b"retry-after" in dict(headers)) is not begun
        gate.set()
        await drained


async def answered(direct: Raw) -> int:
    status, headers = await direct.head()
    await direct.body(headers)
    return status


def _held_back(monkeypatch: pytest.MonkeyPatch, hold_s: float) -> None:
    row = re.compile("^pi/"), Client("pi", try_again=TryAgain(3, 0.0, hold_s=hold_s))
    monkeypatch.setattr(clients, "PROGRAMS", (row,))


async def test_a_client_without_patience_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a client whose own waits are too short HiveMind waits, then tries in its place before it refuses."""
    _held_back(monkeypatch, 0.2)
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as pi:
        await pi.send(request(MESSAGES, PLAIN_BODY))
        assert await answered(pi) == 200
        proxy.proxy.apply(SetCircuit("open"))
        await pi.send(request(MESSAGES, PLAIN_BODY, "user-agent: pi/1.6.0"))
        await proxy.until(lambda world: world.totals.refused == 1)
        proxy.proxy.apply(SetCircuit("auto"))
        assert await answered(pi) == 200
        assert len(upstream.requests) == 2
        proxy.proxy.apply(SetCircuit("open"))
        await pi.send(request(MESSAGES, PLAIN_BODY, "user-agent: pi/1.6.0"))
        assert await answered(pi) == 503


async def test_a_drain_does_not_wait_for_what_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that is held back keeps no proxy from ending."""
    _held_back(monkeypatch, 600.0)
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as pi:
        await pi.send(request(MESSAGES, PLAIN_BODY))
        assert await answered(pi) == 200
        proxy.proxy.apply(SetCircuit("open"))
        await pi.send(request(MESSAGES, PLAIN_BODY, "user-agent: pi/1.6.0"))
        await proxy.until(lambda world: world.totals.refused == 1)
        await asyncio.wait_for(proxy.proxy.drain(600), 20)
