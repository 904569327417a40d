"""The mock provider's prompt caches: what is read and written, for how long, and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import LatencyConfig, LimitConfig, MockConfig, ReplyConfig

CACHES = MockConfig(
    reply=ReplyConfig(cache=True, tokens=10, spread=0), latency=LatencyConfig(0.1, 0.0, input_token_s=1e-4)
)
LONG, MORE = "a" * 16_000, "b" * 8_000  # 4,000 and 2,000 tokens
MODEL = "claude-sonnet-5-5"


def marked(*texts: str, ttl: str = "5m") -> dict[str, Any]:
    """Return a request of these messages, of which the last is to be kept."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    content[-1]["cache_control"] = {"type": "ephemeral", "ttl": ttl}
    return {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": content}]}


async def ask(client: httpx.AsyncClient, body: dict[str, Any], path: str = "/v1/messages", key: str = "k") -> Any:
    reply = await client.post(path, json=body, headers={"x-api-key": key})
    return reply.json()


async def cached(*args: Any, **kwargs: Any) -> tuple[int, int, int]:
    usage = (await ask(*args, **kwargs))["usage"]
    return usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]


def test_what_is_marked_is_read_until_it_expires(play: Any) -> None:
    """By key and model, from when the answer begins, for longer with each use; an hour where that is asked for."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        first = asyncio.ensure_future(cached(client, marked(LONG)))
        assert await cached(client, marked(LONG)) == (0, 0, 4_000)  # none can be read before its answer begins
        assert await first == (0, 0, 4_000)
        assert await cached(client, marked(LONG), key="other") == (0, 0, 4_000)
        assert await cached(client, {**marked(LONG), "model": "claude-opus-5-5"}) == (0, 0, 4_000)
        began = asyncio.get_running_loop().time()
        assert await cached(client, marked(LONG, MORE)) == (0, 4_000, 2_000)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.1 + 0.2)  # what is read takes no time
        for read in (6_000, 6_100, 6_100):
            await asyncio.sleep(250)
            assert await cached(client, marked(LONG, MORE, "c" * 400)) == (0, read, 6_100 - read)
        assert await cached(client, marked("short")) == (1, 0, 0)
        await asyncio.sleep(301)
        assert await cached(client, marked(LONG, ttl="1h")) == (0, 0, 4_000)
        await asyncio.sleep(3_500)
        assert await cached(client, marked(LONG, ttl="1h")) == (0, 4_000, 0)

    play(CACHES, scene)


@pytest.mark.parametrize(("model", "written"), [("gpt-5.1", 0), ("gpt-6.1", 3_968)])
def test_automatic_caches_keep_whole_steps_of_every_prompt(play: Any, model: str, written: int) -> None:
    """OpenAI's and Google's, without being asked; writes are stated by models that charge them."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        def chat(*texts: str) -> dict[str, Any]:
            return {"model": model, "messages": [{"role": "user", "content": text} for text in texts]}

        details = [(await ask(client, chat(LONG, *more), "/v1/chat/completions"))["usage"] for more in ((), (MORE,))]
        found = [each["prompt_tokens_details"] for each in details]
        assert (found[0]["cached_tokens"], found[0]["cache_write_tokens"]) == (0, written)
        assert (found[1]["cached_tokens"], details[1]["prompt_tokens"]) == (3_968, 6_000)
        body = {"contents": [{"role": "user", "parts": [{"text": LONG}]}]}
        answers = [await ask(client, body, "/v1beta/models/gemini-2.5-pro:generateContent") for _ in range(2)]
        assert [each["usageMetadata"]["cachedContentTokenCount"] for each in answers] == [0, 3_968]

    play(CACHES, scene)


def test_what_is_read_counts_only_where_the_provider_counts_it(play: Any) -> None:
    """Not toward Anthropic's input tokens a minute, but toward OpenAI's."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> None:
        assert [(await ask(client, marked(LONG))).get("type") for _ in range(4)] == ["message"] * 4
        chat = {"model": "gpt-5.1", "messages": [{"role": "user", "content": LONG}]}
        assert "choices" in await ask(client, chat, "/v1/chat/completions")
        assert "error" in await ask(client, chat, "/v1/chat/completions")

    play(MockConfig(reply=ReplyConfig(cache=True), limits=LimitConfig(itpm=9_000)), scene)
