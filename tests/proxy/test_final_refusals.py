"""Refusals that asking again can't change: the official SDKs, as they come, ask once and raise one clear error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from proxy.kit import Hang, Running, between
from proxy.sdk import sdk_http
from proxy.wire import ANSWER
from upstream.scripted import Scripted

from hivemind.scheduler.commands import SetBudget, StopAgent

pytestmark = pytest.mark.slow

Ask = Callable[[Running], Awaitable[object]]
PREFIX = ContextVar("PREFIX", default="/agent/alice")
"""Of the base URL."""
STOPPED = "HiveMind: the operator stopped this agent"


def _claude(proxy: Running) -> anthropic.AsyncAnthropic:
    base_url = f"{proxy.url}{PREFIX.get()}"
    return anthropic.AsyncAnthropic(api_key="k", base_url=base_url, timeout=20, http_client=sdk_http())


def _gpt(proxy: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{proxy.url}{PREFIX.get()}/v1", timeout=20, http_client=sdk_http())


async def messages(proxy: Running) -> object:
    async with _claude(proxy) as sdk:
        return await sdk.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])


async def message_stream(proxy: Running) -> object:
    async with (
        _claude(proxy) as sdk,
        sdk.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        return await stream.get_final_message()


async def chat(proxy: Running) -> object:
    async with _gpt(proxy) as sdk:
        return await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])


async def chat_stream(proxy: Running) -> object:
    async with _gpt(proxy) as sdk:
        stream = await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        return [chunk async for chunk in stream]


async def response(proxy: Running) -> object:
    async with _gpt(proxy) as sdk:
        return await sdk.responses.create(model="m", input="hi")


async def response_stream(proxy: Running) -> object:
    async with _gpt(proxy) as sdk:
        return [event async for event in await sdk.responses.create(model="m", input="hi", stream=True)]


KINDS: list[Ask] = [messages, message_stream, chat, chat_stream, response, response_stream]


def denied(text: str) -> pytest.RaisesExc[anthropic.BadRequestError | openai.BadRequestError]:
    """Expect either SDK's error for 400."""
    return pytest.raises((anthropic.BadRequestError, openai.BadRequestError), match=re.escape(text))


async def asked_once(proxy: Running, upstream: Scripted, asking: Awaitable[object], text: str) -> None:
    """One error with our words in it, and no other request followed the first."""
    requests, forwarded = proxy.snapshot().totals.requests, len(upstream.requests)
    assert min(anthropic.DEFAULT_MAX_RETRIES, openai.DEFAULT_MAX_RETRIES) > 0  # either SDK would ask again
    with denied(text) as error:
        await asking
    assert error.value.status_code == 400
    assert (proxy.snapshot().totals.requests - requests, len(upstream.requests)) == (1, forwarded)


@pytest.mark.parametrize("ask", KINDS)
async def test_stopped_before(ask: Ask) -> None:
    """An agent that was stopped learns so from the first request that follows."""
    async with between([Hang()]) as (proxy, upstream):
        await _stop_in_flight(proxy, upstream, chat)
        await asked_once(proxy, upstream, ask(proxy), STOPPED)


@pytest.mark.parametrize("ask", KINDS)
async def test_stopped_in_flight(ask: Ask) -> None:
    """And one whose request was upstream learns so from that."""
    async with between([Hang()]) as (proxy, upstream):
        await _stop_in_flight(proxy, upstream, ask)
        assert proxy.snapshot().totals.requests == 1


@pytest.mark.parametrize("ask", KINDS)
async def test_out_of_budget(ask: Ask) -> None:
    """An agent that has used what it may learns how much that was, and where it can be raised; then it goes on."""
    async with between([ANSWER]) as (proxy, upstream):
        await messages(proxy)
        proxy.proxy.apply(SetBudget("alice", 5))
        text = (
            "HiveMind: alice's budget is used up (7 of 5 tokens used this run); raise it with"
            " `hivemind budget alice AMOUNT`, or with B in the control room, then ask again"
        )
        await asked_once(proxy, upstream, ask(proxy), text)
        proxy.proxy.apply(SetBudget("alice", 5_000))
        await messages(proxy)
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("ask", KINDS)
async def test_a_model_without_a_price(ask: Ask) -> None:
    """Where dollars are counted and such models aren't admitted, the model is named."""
    async with between([ANSWER], budget={"unpriced": "refuse"}) as (proxy, upstream):
        proxy.proxy.engine.price_by(lambda provider, model, usage: None)
        proxy.proxy.apply(SetBudget("alice", dollars=5.0))
        await asked_once(proxy, upstream, ask(proxy), "HiveMind: the price of m isn't known")


@pytest.mark.parametrize(
    ("prefix", "reason", "text"),
    [
        ("", "name_required", "HiveMind: this proxy takes requests of named agents only"),
        ("/token/bobs-own-token/agent/alice", "not_your_name", "HiveMind: the token that was shown is bob's"),
    ],
    ids=["no name", "another's name"],
)
@pytest.mark.parametrize("ask", KINDS)
async def test_a_name_that_cant_be_used(
    ask: Ask, prefix: str, reason: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is missing where one is required, or isn't that of the token."""
    sent: list[httpx2.Response] = []
    send = httpx2.AsyncClient.send

    async def noted(*args: Any, **kwargs: Any) -> httpx2.Response:
        sent.append(await send(*args, **kwargs))
        return sent[-1]

    monkeypatch.setattr(httpx2.AsyncClient, "send", noted)
    PREFIX.set(prefix)
    agents = {"require_name": True, "credentials": {"bob": "bobs-own-token"}}
    async with between([ANSWER], agents=agents) as (proxy, upstream):
        with denied(text):
            await ask(proxy)
        assert [answer.headers["x-hivemind-refusal"] for answer in sent] == [reason]
        assert not upstream.requests


async def _stop_in_flight(proxy: Running, upstream: Scripted, ask: Ask) -> None:
    asking = asyncio.ensure_future(ask(proxy))
    await upstream.until(lambda: len(upstream.requests) == 1)
    proxy.proxy.apply(StopAgent("alice", True))
    with denied(STOPPED):
        await asking
