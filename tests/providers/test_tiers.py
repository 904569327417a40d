"""The tier of service: as a request asks for it, and as the reply states it, in a stream and in a whole body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.paths import DIALECTS, dialect_for
from hivemind.providers.taps import end_through, feed_through
from hivemind.providers.tiers import tier_of

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
GEMINI, INTERACTIONS, PLAIN = "/v1beta/models/m:generateContent", "/v1beta/interactions", "/v1/rerank"


@pytest.mark.parametrize(
    ("path", "body", "tier"),
    [
        (MESSAGES, {"speed": "fast"}, "fast"),
        (MESSAGES, {"speed": "standard"}, ""),
        (MESSAGES, {"service_tier": "auto"}, ""),
        (MESSAGES, {"service_tier": "standard_only"}, ""),
        ("/v1/messages/batches", {"requests": []}, "batch"),
        *[
            (path, {"service_tier": word}, tier)
            for path in (CHAT, RESPONSES, PLAIN)
            for word, tier in (
                *(("priority", "priority"), ("fast", "fast"), ("flex", "flex"), ("ultrafast", "ultrafast")),
                *(("auto", ""), ("default", ""), ("scale", ""), ("no-such-tier", ""), (None, ""), (7, ""), ({}, "")),
            )
        ],
        ("/v1/batches", {"input_file_id": "f"}, "batch"),
        ("/v1/batch/jobs", {"model": "m"}, "batch"),
        (GEMINI, {"serviceTier": "FLEX"}, "flex"),
        (GEMINI, {"service_tier": "priority"}, "priority"),
        (GEMINI, {"serviceTier": "standard"}, ""),
        (INTERACTIONS, {"service_tier": "priority"}, "priority"),
        ("/v1beta/models/m:batchGenerateContent", {}, "batch"),
        ("/v1beta/models/m:batchEmbedContents", {}, ""),
        ("/api/chat", {"service_tier": "priority"}, ""),
    ],
)
def test_what_a_request_asks_for(path: str, body: dict[str, Any], tier: str) -> None:
    """Words without a price of their own, and those that nobody knows, are the standard tier."""
    assert dialect_for(path).facts(path, "", [], json.dumps(body).encode()).tier == tier


def anthropic(stream: bool, **stated: Any) -> bytes:
    usage = {"input_tokens": 9, "output_tokens": 1 if stream else 5, **stated}
    if not stream:
        return json.dumps({"type": "message", "usage": usage}).encode()
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": usage}},
        {"type": "message_delta", "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


def chat(stream: bool, **stated: Any) -> bytes:
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    if not stream:
        return json.dumps({"choices": [], "usage": usage, **stated}).encode()
    chunks = [
        {"choices": [{"delta": {"content": "hello"}}], **stated},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"


def responses(stream: bool, **stated: Any) -> bytes:
    response = {"usage": {"input_tokens": 9, "output_tokens": 5}, **stated}
    if not stream:
        return json.dumps(response).encode()
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"service_tier": "auto"}},
        {"type": "response.completed", "response": response},
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


def gemini(stream: bool, **stated: Any) -> bytes:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, **stated}
    chunk = {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}], "usageMetadata": usage}
    return b"data: %b\r\n\r\n" % json.dumps(chunk).encode() if stream else json.dumps(chunk).encode()


def interaction(stream: bool, **stated: Any) -> bytes:
    whole = {"usage": {"total_input_tokens": 9, "total_output_tokens": 5}, **stated}
    chunk = {"event_type": "interaction.completed", "interaction": whole}
    return b"data: %b\n\n" % json.dumps(chunk).encode() if stream else json.dumps(whole).encode()


def plain(stream: bool, **stated: Any) -> bytes:
    reply = json.dumps({"usage": {"prompt_tokens": 9, "completion_tokens": 5}, **stated}).encode()
    return b"data: %b\n\n" % reply if stream else reply


MADE = {
    "anthropic": (DIALECTS["anthropic"], anthropic),
    "openai_chat": (DIALECTS["openai_chat"], chat),
    "openai_responses": (DIALECTS["openai_responses"], responses),
    "google": (DIALECTS["google"], gemini),
    "interactions": (DIALECTS["google"], interaction),
    "plain": (DIALECTS["plain"], plain),
}
OPENAI = [
    ({}, "", ""),
    ({}, "priority", "priority"),  # a reply that says nothing: as asked
    ({"service_tier": "auto"}, "flex", "flex"),
    ({"service_tier": "default"}, "priority", ""),  # it was served at the standard tier after all
    ({"service_tier": "priority"}, "fast", "priority"),
    ({"service_tier": "priority"}, "", "priority"),  # of a project's setting
    ({"service_tier": "no-such-tier"}, "priority", "priority"),
    ({"service_tier": "no-such-tier"}, "", ""),
    ({"service_tier": None}, "", ""),
    ({"service_tier": ["flex"]}, "", ""),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("made", "stated", "asked", "tier"),
    [
        ("anthropic", {}, "fast", "fast"),
        ("anthropic", {"service_tier": "standard"}, "", ""),
        ("anthropic", {"service_tier": "standard", "speed": "fast"}, "fast", "fast"),
        ("anthropic", {"service_tier": "priority", "speed": "fast"}, "", "fast"),
        ("anthropic", {"service_tier": "standard", "speed": "standard"}, "fast", ""),
        ("anthropic", {"service_tier": "priority"}, "", "priority"),
        ("anthropic", {"service_tier": "batch"}, "", "batch"),
        ("anthropic", {"service_tier": 7, "speed": {}}, "", ""),
        *((made, *each) for made in ("openai_chat", "openai_responses", "interactions", "plain") for each in OPENAI),
        ("google", {}, "flex", "flex"),
        ("google", {"serviceTier": "priority"}, "", "priority"),
        ("google", {"serviceTier": "standard"}, "priority", ""),
        ("google", {"trafficType": "ON_DEMAND_FLEX"}, "", "flex"),
        ("google", {"trafficType": "ON_DEMAND"}, "priority", ""),
        ("google", {"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}, "priority", "priority"),
    ],
)
def test_what_a_reply_states(made: str, stated: dict[str, Any], asked: str, tier: str, stream: bool) -> None:
    """That is what is billed. A reply that leaves it open is of the tier that was asked for."""
    dialect, reply = MADE[made]
    form = StreamForm.SSE if stream else StreamForm.WHOLE
    tap = dialect.tap(
        [(b"content-type", b"text/event-stream" if stream else b"application/json")], Facts(form=form, tier=asked)
    )
    feed_through(tap, reply(stream, **stated))
    end_through(tap)
    assert tap.state.usage is not None
    assert (tap.state.usage.total, tap.state.usage.tier) == (14, tier)
    if not stream and made != "plain":
        read = dialect.read_reply([(b"content-type", b"application/json")], Facts(tier=asked), reply(stream, **stated))
        assert read is not None
        assert read.usage == tap.state.usage


def test_words_have_any_length_and_case() -> None:
    """As providers write them, and as an agent may."""
    assert [tier_of(each) for each in ("Priority", "FLEX", "x" * 100_000)] == ["priority", "flex", ""]
