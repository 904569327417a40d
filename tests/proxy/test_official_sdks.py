"""The official SDKs, streaming and not, their own retries off: through a faulty provider every call succeeds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest
from proxy.kit import Running, proxying
from proxy.sdk import sdk_http

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.serve import serving as serving_mock

CALLS = 6
FAULTS = {
    "bad_gateway": FaultConfig(bad_gateway=0.2, edge=0.5),
    "overloaded": FaultConfig(overloaded=0.2),
    "rate_limited": FaultConfig(rate_limited=0.1),
    "reset": FaultConfig(reset=0.2),
    "reset_early": FaultConfig(reset_early=0.2),
    "error_early": FaultConfig(error_early=0.2),
    "several": FaultConfig(bad_gateway=0.1, overloaded=0.1, reset=0.1, reset_early=0.1, error_early=0.1),
}
SETTINGS: dict[str, Any] = {"max_concurrency": 8, "circuit": {"cooldown_s": 0.05}}
CLAUDE: anthropic.types.MessageParam = {"role": "user", "content": "say something"}
GPT: openai.types.chat.ChatCompletionUserMessageParam = {"role": "user", "content": "say something"}


@contextlib.asynccontextmanager
async def faulty(faults: FaultConfig, encoding: str = "identity") -> AsyncIterator[tuple[Running, MockProvider]]:
    """The proxy before a mock provider with these faults; a circuit that they open is soon tried again."""
    config = MockConfig(
        seed=5,
        faults=faults,
        latency=LatencyConfig(base_s=0.002, jitter_s=0.001),
        reply=ReplyConfig(tokens=40, spread=10, event_tokens=10, encoding=encoding),  # type: ignore[arg-type]
    )
    mock = MockProvider(config)
    async with serving_mock(mock) as url, proxying(f"mock={url}", **SETTINGS) as proxy:
        yield proxy, mock


def _claude(proxy: Running) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        api_key="sk-ant-test",
        base_url=f"{proxy.url}/agent/claude",
        max_retries=0,
        timeout=60,
        http_client=sdk_http(),  # its own would read all certificates
    )


def _gpt(proxy: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        api_key="sk-test", base_url=f"{proxy.url}/agent/gpt/v1", max_retries=0, timeout=60, http_client=sdk_http()
    )


async def _messages(proxy: Running, count: int) -> list[str]:
    async with _claude(proxy) as sdk:

        async def ask() -> str:
            answer = await sdk.messages.create(model="claude-x", max_tokens=500, messages=[CLAUDE])
            assert answer.usage.output_tokens > 0
            return answer.content[0].text  # type: ignore[union-attr]

        return await asyncio.gather(*(ask() for _ in range(count)))


async def _message_streams(proxy: Running, count: int) -> list[str]:
    async with _claude(proxy) as sdk:

        async def ask() -> str:
            async with sdk.messages.stream(model="claude-x", max_tokens=500, messages=[CLAUDE]) as stream:
                text = "".join([part async for part in stream.text_stream])
                final = await stream.get_final_message()
            assert (final.stop_reason, final.content[0].text) == ("end_turn", text)  # type: ignore[union-attr]
            return text

        return await asyncio.gather(*(ask() for _ in range(count)))


async def _chats(proxy: Running, count: int) -> list[str]:
    async with _gpt(proxy) as sdk:

        async def ask() -> str:
            answer = await sdk.chat.completions.create(model="gpt-x", messages=[GPT])
            return str(answer.choices[0].message.content)

        return await asyncio.gather(*(ask() for _ in range(count)))


async def _chat_streams(proxy: Running, count: int) -> list[str]:
    async with _gpt(proxy) as sdk:

        async def ask() -> str:
            stream = await sdk.chat.completions.create(model="gpt-x", messages=[GPT], stream=True)
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].choices[0].finish_reason == "stop"
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

        return await asyncio.gather(*(ask() for _ in range(count)))


async def _responses(proxy: Running, count: int) -> list[str]:
    async with _gpt(proxy) as sdk:

        async def ask() -> str:
            answer = await sdk.responses.create(model="gpt-x", input="say something")
            assert answer.status == "completed"
            return answer.output_text

        return await asyncio.gather(*(ask() for _ in range(count)))


async def _response_streams(proxy: Running, count: int) -> list[str]:
    async with _gpt(proxy) as sdk:

        async def ask() -> str:
            stream = await sdk.responses.create(model="gpt-x", input="say something", stream=True)
            events = [event async for event in stream]
            assert events[-1].type == "response.completed"
            return "".join(event.delta for event in events if event.type == "response.output_text.delta")

        return await asyncio.gather(*(ask() for _ in range(count)))


WHOLE = {"messages": _messages, "chat": _chats, "responses": _responses}
STREAMED = {"messages": _message_streams, "chat": _chat_streams, "responses": _response_streams}


@pytest.mark.parametrize(
    "faults", ["reset_early", *(pytest.param(each, marks=pytest.mark.slow) for each in FAULTS if each != "reset_early")]
)
async def test_every_call_succeeds(faults: str) -> None:
    """Whatever fails before the first content, no call of either SDK ever sees it."""
    async with faulty(FAULTS[faults]) as (proxy, mock):
        kinds = [*WHOLE.values(), *STREAMED.values()]
        texts = await asyncio.gather(*(kind(proxy, CALLS) for kind in kinds))
        assert [len(found) for found in texts] == [CALLS] * len(kinds)
        assert all(text for found in texts for text in found)
        assert sum(mock.stats.faults.values()) > 0
        totals = proxy.snapshot().totals
        assert (totals.finished, totals.failed) == (CALLS * len(kinds), 0)
        assert totals.rescued > 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_compressed(encoding: str) -> None:
    """With compressed answers too, and their usage is counted."""
    async with faulty(FAULTS["several"], encoding) as (proxy, mock):
        for kind in (*WHOLE.values(), *STREAMED.values()):
            assert all(await kind(proxy, 3))
        totals = proxy.snapshot().totals
        # Chat streams count their usage only where the client asks for it.
        assert totals.usage.output_tokens >= mock.stats.output_tokens * 5 // 6 - 200
        assert totals.failed == 0


@pytest.mark.slow
async def test_threads() -> None:
    """The synchronous SDKs, each call in a thread of its own, fare no worse."""
    async with faulty(FAULTS["several"]) as (proxy, _):

        def claude() -> str:
            with anthropic.Anthropic(api_key="k", base_url=proxy.url, max_retries=0, timeout=60) as sdk:
                answer = sdk.messages.create(model="claude-x", max_tokens=500, messages=[CLAUDE])
                return answer.content[0].text  # type: ignore[union-attr]

        def gpt() -> str:
            with openai.OpenAI(api_key="k", base_url=f"{proxy.url}/v1", max_retries=0, timeout=60) as sdk:
                stream = sdk.chat.completions.create(model="gpt-x", messages=[GPT], stream=True)
                return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        loop = asyncio.get_running_loop()
        # Not the loop's own threads, of which the proxy needs one to look its upstream's address up.
        with ThreadPoolExecutor(12) as pool:
            asked = [loop.run_in_executor(pool, ask) for ask in (claude, gpt) for _ in range(6)]
            assert all(await asyncio.gather(*asked))


async def test_final_errors_are_the_sdk_s_own() -> None:
    """An exhausted quota reaches the SDKs as the error that the provider meant."""
    async with faulty(FaultConfig(quota=1.0)) as (proxy, mock):
        with pytest.raises(anthropic.APIStatusError) as claude:
            await _messages(proxy, 1)
        assert "usage limits" in str(claude.value)
        with pytest.raises(openai.RateLimitError) as gpt:
            await _chats(proxy, 1)
        assert gpt.value.code == "insufficient_quota"
        assert mock.stats.arrived == 2


async def test_own_refusals_are_errors_of_the_sdk() -> None:
    """A refusal of our own is an ordinary error to each SDK, with our words in it."""
    async with faulty(FaultConfig()) as (proxy, _):
        await proxy.proxy.drain(0)
        for ask, error in (
            (_messages, anthropic.APIStatusError),
            (_chat_streams, openai.APIStatusError),
            (_responses, openai.APIStatusError),
        ):
            with pytest.raises(error, match="HiveMind: the proxy is draining or shutting down") as caught:
                await ask(proxy, 1)
            assert caught.value.status_code == 503  # type: ignore[attr-defined]
