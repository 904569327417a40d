"""Every wire format, spoken by the mock and understood by the mock's agents and by the proxy's own readers."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from hivemind_mock.agents.agent import read_answer
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.formats import FORMATS
from hivemind_mock.provider.formats.base import go_duration

QUIET = MockConfig(
    limits=LimitConfig(rpm=10, tpm=10_000),
    latency=LatencyConfig(base_s=0.5, jitter_s=0.0),
    reply=ReplyConfig(tokens=25, spread=0, event_tokens=10),
)


def asked(name: str, stream: bool) -> tuple[str, bytes]:
    """Path and body of a request of 60 tokens."""
    prompt = "x" * 240
    chat = {"model": "model-1", "stream": stream, "messages": [{"role": "user", "content": prompt}]}
    google = "streamGenerateContent?alt=sse" if stream else "generateContent"
    path, body = {
        "anthropic": ("/v1/messages", {**chat, "max_tokens": 1024}),
        "openai_chat": (
            "/v1/chat/completions",
            {**chat, "max_completion_tokens": 1024, **({"stream_options": {"include_usage": True}} if stream else {})},
        ),
        "openai_responses": (
            "/v1/responses",
            {"model": "model-1", "max_output_tokens": 1024, "stream": stream, "input": prompt, "store": False},
        ),
        "google": (
            f"/v1beta/models/model-1:{google}",
            {
                "contents": [{"role": "user", "parts": [{"text": prompt}]}],
                "generationConfig": {"maxOutputTokens": 1024},
            },
        ),
        "ollama": ("/api/chat", chat),
    }[name]
    return path, msgspec.json.encode(body)


def read(name: str, stream: bool, reply: httpx.Response) -> tuple[int, str]:
    return read_answer(*asked(name, stream), reply.headers["content-type"], reply.content)


async def converse(client: httpx.AsyncClient, name: str, stream: bool, path: str | None = None) -> httpx.Response:
    usual, body = asked(name, stream)
    return await client.post(path or usual, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", list(FORMATS))
def test_agents_understand_every_format(play: Any, name: str, stream: bool) -> None:
    """A whole answer is heard as one, with the tokens the provider counted."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        return await converse(client, name, stream)

    reply = play(QUIET, scene)
    assert (reply.status_code, read(name, stream, reply)) == (200, (85, ""))


@pytest.mark.parametrize("name", list(FORMATS))
def test_agents_notice_a_truncated_stream(play: Any, name: str) -> None:
    """Without its end marker a stream isn't an answer, though the transfer ended cleanly."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        return await converse(client, name, stream=True)

    reply = play(MockConfig(faults=FaultConfig(truncated=1.0)), scene)
    assert read(name, True, reply)[1] == "truncated"


@pytest.mark.parametrize("fault", ["error_early", "error_mid"])
@pytest.mark.parametrize("name", list(FORMATS))
def test_agents_notice_an_error_event(play: Any, name: str, fault: str) -> None:
    """An error inside a stream with status 200 is an error."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        return await converse(client, name, stream=True)

    reply = play(MockConfig(faults=FaultConfig(**{fault: 1.0})), scene)
    assert read(name, True, reply)[1].startswith("error event")


def limited(play: Any, name: str, path: str | None = None) -> httpx.Response:
    """The second answer of a provider that allows one request a minute."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> httpx.Response:
        assert (await converse(client, name, False, path)).status_code == 200
        return await converse(client, name, False, path)

    config = MockConfig(limits=LimitConfig(rpm=1, tpm=9_000), latency=LatencyConfig(base_s=0.5, jitter_s=0.0))
    reply: httpx.Response = play(config, scene)
    assert reply.status_code == 429
    return reply


def test_anthropic_limits(play: Any) -> None:
    """Limit, remaining and an RFC 3339 reset for each window, and whole seconds to wait."""
    headers = limited(play, "anthropic").headers
    assert headers["anthropic-ratelimit-requests-limit"] == "1"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert headers["anthropic-ratelimit-requests-reset"] == "2027-01-15T08:01:00Z"
    assert headers["anthropic-ratelimit-tokens-limit"] == "9000"
    assert headers["retry-after"] == "60"


def test_openai_limits(play: Any) -> None:
    """Resets are durations as Go writes them."""
    reply = limited(play, "openai_chat")
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert reply.headers["x-ratelimit-reset-requests"] == "59.5s"
    assert reply.json()["error"]["code"] == "rate_limit_exceeded"


def test_google_limits(play: Any) -> None:
    """Nothing in the headers; the delay is in the body."""
    reply = limited(play, "google")
    assert not [name for name in reply.headers if "rate" in name or "retry" in name]
    details = reply.json()["error"]["details"]
    assert details[1] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "59.500s"}


def test_chat_streams_tell_usage_only_when_asked(play: Any) -> None:
    """Without `stream_options.include_usage` no chunk has a usage."""

    async def scene(mock: MockProvider, client: httpx.AsyncClient) -> bytes:
        messages = [{"role": "user", "content": "hello"}]
        body = {"model": "m", "stream": True, "messages": messages}
        return (await client.post("/v1/chat/completions", json=body)).content

    body = play(QUIET, scene)
    assert b"usage" not in body
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.012, "12ms"), (1, "1s"), (59.5, "59.5s"), (360, "6m0s"), (3_723, "1h2m3s"), (0.0001, "1ms")],
)
def test_go_durations(seconds: float, text: str) -> None:
    """Durations look as Go's `Duration.String` writes them, to the millisecond."""
    assert go_duration(seconds) == text
