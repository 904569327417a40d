"""The official SDKs take what the dialects say as it is meant."""

from __future__ import annotations

import json

import anthropic
import httpx2
import openai
import pytest

from hivemind.providers.paths import DIALECTS
from hivemind.scheduler.types import Failure, FailureKind

CHAT, RESPONSES, MESSAGES = DIALECTS["openai_chat"], DIALECTS["openai_responses"], DIALECTS["anthropic"]
pytestmark = pytest.mark.slow

OVERLOADED = Failure(FailureKind.OVERLOADED, True, 529, message="529")


Wire = list[tuple[bytes, bytes]]


def served(headers: Wire, body: bytes, status: int) -> tuple[httpx2.Client, list[str]]:
    """A client whose every request gets this answer, and the paths that were asked for."""
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.path)
        return httpx2.Response(status, headers=headers, content=body)

    return httpx2.Client(transport=httpx2.MockTransport(answer)), seen


def through_openai(headers: Wire, body: bytes, status: int = 200) -> tuple[openai.OpenAI, list[str]]:
    http, seen = served(headers, body, status)
    return openai.OpenAI(api_key="k", base_url="http://proxy/v1", http_client=http), seen


def through_anthropic(headers: Wire, body: bytes, status: int = 200) -> tuple[anthropic.Anthropic, list[str]]:
    http, seen = served(headers, body, status)
    return anthropic.Anthropic(api_key="k", base_url="http://proxy", http_client=http), seen


def chat(client: openai.OpenAI) -> str:
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def respond(client: openai.OpenAI) -> str:
    stream = client.responses.create(model="m", input="x", stream=True)
    return "".join(event.delta for event in stream if event.type == "response.output_text.delta")


def say(client: anthropic.Anthropic) -> str:
    stream = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True)
    return "".join(
        event.delta.text for event in stream if event.type == "content_block_delta" and event.delta.type == "text_delta"
    )


def test_keepalives_are_skipped() -> None:
    """After any number of beats the answer is the answer."""
    data = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    client, _ = through_openai(CHAT.stream_headers(), CHAT.keepalive("openai-sdk") * 3 + data + b"data: [DONE]\n\n")
    assert chat(client) == "Hi"
    data = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n'
    client, _ = through_openai(RESPONSES.stream_headers(), RESPONSES.keepalive("openai-sdk") * 3 + data)
    assert respond(client) == "Hi"
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    data = b"event: content_block_delta\ndata: " + json.dumps(delta).encode() + b"\n\n"
    sdk, _ = through_anthropic(MESSAGES.stream_headers(), MESSAGES.keepalive("anthropic-sdk") * 3 + data)
    assert say(sdk) == "Hi"


@pytest.mark.parametrize("upstreams_own", [False, True])
def test_errors_in_streams_are_raised(upstreams_own: bool) -> None:
    """An error that ends a committed stream raises, with its text, in every SDK."""
    for dialect, call in ((CHAT, chat), (RESPONSES, respond)):
        body = b'{"error": {"message": "too much", "code": "x", "type": "y"}}'
        told = dialect.failure_event(OVERLOADED, body) if upstreams_own else dialect.stream_error(503, "r", "too much")
        client, _ = through_openai(dialect.stream_headers(), dialect.keepalive("openai-sdk") + told)
        with pytest.raises(openai.APIError, match="too much"):
            call(client)
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "too much"}}'
    told = MESSAGES.failure_event(OVERLOADED, body) if upstreams_own else MESSAGES.stream_error(503, "r", "too much")
    sdk, _ = through_anthropic(MESSAGES.stream_headers(), MESSAGES.keepalive("anthropic-sdk") + told)
    with pytest.raises(anthropic.APIStatusError, match="too much"):
        say(sdk)


def test_final_refusals_are_not_repeated() -> None:
    """The hint keeps the SDKs from trying again what can't help, whatever the status says."""
    headers, body = CHAT.refusal(404, "unknown_route", "no such upstream", None)
    client, seen = through_openai(headers, body, status=500)
    with pytest.raises(openai.APIStatusError, match="no such upstream") as raised:
        chat(client)
    assert raised.value.code == "unknown_route"
    assert seen == ["/v1/chat/completions"]
    headers, body = MESSAGES.refusal(404, "unknown_route", "no such upstream", None)
    sdk, seen = through_anthropic(headers, body, status=500)
    with pytest.raises(anthropic.APIStatusError, match="no such upstream"):
        say(sdk)
    assert seen == ["/v1/messages"]
