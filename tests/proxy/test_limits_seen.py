"""What is set aside before a request's usage is known, and what replies say of limits, seen in `/_stats`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from proxy.kit import Play, Running, between, client, playing, proxying, raw, request
from proxy.wire import JSON, PLAIN_BODY, http
from upstream.scripted import serving

from hivemind.scheduler import limits

MESSAGES = "/v1/messages"
ANTHROPIC = (
    "anthropic-ratelimit-requests-limit: 1000",
    "anthropic-ratelimit-requests-remaining: 900",
    "anthropic-ratelimit-requests-reset: 2099-01-01T00:00:00Z",
    "anthropic-ratelimit-input-tokens-limit: 2000000",
    "anthropic-ratelimit-input-tokens-remaining: 1900000",
    "anthropic-ratelimit-input-tokens-reset: 2099-01-01T00:00:00Z",
    "anthropic-ratelimit-output-tokens-limit: 400000",
    "anthropic-ratelimit-output-tokens-remaining: 390000",
    "anthropic-ratelimit-output-tokens-reset: 2099-01-01T00:00:00Z",
)
OPENAI = (
    "x-ratelimit-limit-requests: 500",
    "x-ratelimit-remaining-requests: 499",
    "x-ratelimit-reset-requests: 120ms",
    "x-ratelimit-limit-tokens: 200000",
    "x-ratelimit-remaining-tokens: 190000",
    "x-ratelimit-reset-tokens: 6m0s",
)
USAGE: dict[str, object] = {
    "usage": {"input_tokens": 3, "output_tokens": 4, "prompt_tokens": 3, "completion_tokens": 4}
}


async def windows(proxy: Running) -> dict[str, dict[str, Any]]:
    """The rate windows of the only lane, by kind."""
    (lane,) = (await proxy.stats())["lanes"]
    return {window["kind"]: window for window in lane["state"]["windows"]}


async def test_anthropic_s_output_is_not_reserved_by_max_tokens() -> None:
    """Anthropic counts what was really produced, so a large max_tokens sets next to nothing aside."""
    gate, body = asyncio.Event(), json.dumps({"model": "m", "max_tokens": 128_000, "messages": []}).encode()
    plays: list[Play] = [[http(200, USAGE, *ANTHROPIC)], [gate, http(200, USAGE)]]
    async with between(*plays) as (proxy, upstream), client() as web, raw(proxy.port) as direct:
        await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        await direct.send(request(MESSAGES, body))
        await upstream.until(lambda: len(upstream.requests) == 2)
        seen = await windows(proxy)
        assert seen["output"]["limit"] == 400_000
        assert 0 < seen["output"]["reserved"] < 4_000
        assert seen["input"]["reserved"] < 4_000
        gate.set()
        await direct.head()
        assert [window["reserved"] for window in (await windows(proxy)).values()] == [0, 0, 0]


async def test_openai_s_tokens_are_reserved_by_max_tokens() -> None:
    """OpenAI charges the larger of max_tokens and its estimate at the start, so that is set aside."""
    gate, body = asyncio.Event(), json.dumps({"model": "m", "max_tokens": 9_000, "messages": []}).encode()
    settings = {"profile": "openai", "tpm": 100_000}
    async with between([gate, http(200, USAGE)], **settings) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request("/v1/chat/completions", body))
        await upstream.until(lambda: len(upstream.requests) == 1)
        assert (await windows(proxy))["tokens"]["reserved"] == 9_000
        gate.set()
        await direct.head()
        tokens = (await windows(proxy))["tokens"]
        assert (tokens["reserved"], tokens["used"]) == (0, 7)


@pytest.mark.parametrize(
    ("path", "headers", "limits"),
    [
        (MESSAGES, ANTHROPIC, {"requests": 1000, "input": 2_000_000, "output": 400_000}),
        ("/v1/chat/completions", OPENAI, {"requests": 500, "tokens": 200_000}),
    ],
)
async def test_limits_from_headers(path: str, headers: tuple[str, ...], limits: dict[str, int]) -> None:
    """A reply's rate-limit headers set the windows, and reach the client as they were."""
    async with between([http(200, USAGE, *headers)]) as (proxy, _), raw(proxy.port) as direct:
        _, said = await direct.ask(request(path, PLAIN_BODY))
        assert {f"{n.decode()}: {v.decode()}" for n, v in said} >= set(headers)
        seen = await windows(proxy)
        assert {kind: window["limit"] for kind, window in seen.items()} == limits
        assert {window["source"] for window in seen.values()} == {"headers"}


async def test_used_up_allowance_holds_the_next_request() -> None:
    """With nothing remaining, the next request waits in the queue rather than be refused upstream."""
    spent = [header.replace("remaining: 900", "remaining: 0") for header in ANTHROPIC[:3]]
    async with between([http(200, USAGE, *spent)]) as (proxy, upstream), client() as web, raw(proxy.port) as direct:
        await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        await direct.send(request(MESSAGES, PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 1)
        assert len(upstream.requests) == 1


async def test_a_reset_in_the_year_9999_does_not_freeze_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request goes through to hear a fresh word, and its reply rules again; the log says what was refused, once."""
    monkeypatch.setattr(limits, "PROBE_S", 0.05)  # how long it is in truth: test_retry_delays.py, in virtual time
    spent = [
        "anthropic-ratelimit-requests-limit: 1000",
        "anthropic-ratelimit-requests-remaining: 0",
        "anthropic-ratelimit-requests-reset: 9999-12-31T23:59:59Z",
    ]
    plays: list[Play] = [[http(200, USAGE, *spent)], [http(200, USAGE, *spent)], [http(200, USAGE, *ANTHROPIC[:2])]]
    async with between(*plays) as (proxy, _), client() as web:
        for _ in plays:
            assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).status_code == 200
        told = [line.text for line in proxy.snapshot().lines if line.tag == "limits"]
        assert len(told) == 1
        assert "which no rate window has: not believed" in told[0]


async def test_usage_of_whole_answers() -> None:
    """Every dialect's whole answer is counted, cache parts apart."""
    asked = {
        MESSAGES: {"usage": {"input_tokens": 1, "cache_read_input_tokens": 20, "output_tokens": 3}},
        "/v1/chat/completions": {"usage": {"prompt_tokens": 21, "completion_tokens": 3}},
        "/v1/responses": {"usage": {"input_tokens": 21, "output_tokens": 3}},
        "/v1beta/models/g:generateContent": {"usageMetadata": {"promptTokenCount": 21, "candidatesTokenCount": 3}},
        "/api/chat": {"done": True, "prompt_eval_count": 21, "eval_count": 3},
    }
    plays = [[http(200, json.dumps(body).encode(), JSON)] for body in asked.values()]
    async with serving(playing(*plays)) as upstream, proxying(f"lab={upstream.url}") as proxy, client() as web:
        for number, path in enumerate(asked):
            await web.post(f"{proxy.url}/agent/a{number}{path}", content=b'{"model":"m","stream":false}')
        usages = [agent.usage for agent in proxy.snapshot().agents]
        assert [(usage.total_input, usage.output_tokens) for usage in usages] == [(21, 3)] * 5
        assert usages[0].cache_read_tokens == 20
