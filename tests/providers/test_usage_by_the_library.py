"""What each dialect reads of a reply's usage, and what that costs, beside the extractors and prices of genai-prices."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.prices import Prices
from hivemind.providers.anthropic import Anthropic
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.dialect import Dialect
from hivemind.providers.google import Google
from hivemind.providers.ollama import Ollama
from hivemind.providers.openai import OpenAIChat, OpenAIResponses
from hivemind.providers.plain import Plain
from hivemind.scheduler.types import Usage

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
PRICES = Prices(NOON.timestamp)
SSE, WHOLE, LINES = b"text/event-stream", b"application/json", b"application/x-ndjson"
counts = st.integers(0, 300_000)
Parts = tuple[int, int, int, int, int]
"""Plain input, read from a cache, written to one for five minutes, and for an hour; output."""


def anthropic(parts: Parts) -> dict[str, Any]:
    plain, read, minutes, hour, output = parts
    written = {"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour}
    return {
        "model": "claude-sonnet-4-5",
        "usage": {
            "input_tokens": plain,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": minutes + hour,
            "cache_creation": written,
            "output_tokens": output,
        },
    }


def chat(parts: Parts, given: str = "prompt", made: str = "completion") -> dict[str, Any]:
    plain, read, minutes, hour, output = parts
    usage = {
        f"{given}_tokens": plain + read + minutes + hour,
        f"{given}_tokens_details": {"cached_tokens": read, "cache_write_tokens": minutes + hour},
        f"{made}_tokens": output,
    }
    return {"model": "gpt-5.5", "usage": usage}


def responses(parts: Parts) -> dict[str, Any]:
    reply = chat(parts, "input", "output")
    reply["usage"]["output_tokens_details"] = {"reasoning_tokens": parts[-1] // 2}
    return reply


def google(parts: Parts) -> dict[str, Any]:
    plain, read, minutes, hour, output = parts
    counts = {
        "promptTokenCount": plain + read + minutes,
        "toolUsePromptTokenCount": hour,
        "cachedContentTokenCount": read,
        "candidatesTokenCount": output - output // 3,
        "thoughtsTokenCount": output // 3,
    }
    return {"modelVersion": "gemini-2.5-pro", "usageMetadata": counts}


def completion(parts: Parts) -> dict[str, Any]:
    """Of an older or unknown endpoint: the counts of chat completions."""
    return chat(parts) | {"object": "text_completion"}


def anthropic_stream(reply: dict[str, Any]) -> list[tuple[str, object]]:
    """The output comes with the last event, which repeats the input without its caches' lifetimes."""
    whole = reply["usage"]
    later = {name: count for name, count in whole.items() if name != "cache_creation"}
    return [
        ("message_start", {"message": {"usage": whole | {"output_tokens": 1}}}),
        ("message_delta", {"usage": later}),
    ]


def chat_stream(reply: dict[str, Any]) -> list[tuple[str, object]]:
    return [("", {"choices": [{"delta": {"content": "x"}}], "usage": None}), ("", {"choices": [], **reply})]


def responses_stream(reply: dict[str, Any]) -> list[tuple[str, object]]:
    return [("response.completed", {"response": reply})]


def google_stream(reply: dict[str, Any]) -> list[tuple[str, object]]:
    return [("", reply | {"candidates": [{"finishReason": "STOP"}]})]


Case = tuple[Dialect, Callable[[Parts], dict[str, Any]], Callable[[dict[str, Any]], list[tuple[str, object]]], str, str]
CASES: dict[str, Case] = {
    "anthropic": (Anthropic(), anthropic, anthropic_stream, "anthropic", "default"),
    "chat": (OpenAIChat(), chat, chat_stream, "openai", "chat"),
    "responses": (OpenAIResponses(), responses, responses_stream, "openai", "responses"),
    "google": (Google(), google, google_stream, "google", "default"),
    "plain": (Plain(), completion, chat_stream, "openai", "chat"),
}
"""A dialect, a reply of its form, the same as a stream, and the library's provider and form."""


def as_events(events: list[tuple[str, object]]) -> bytes:
    heads = [f"event: {name}\n" if name else "" for name, _ in events]
    return "".join(
        f"{head}data: {json.dumps({'type': name, **data} if name else data)}\n\n"
        for head, (name, data) in zip(heads, events, strict=True)
        if isinstance(data, dict)
    ).encode()


def read(dialect: Dialect, body: bytes, media: bytes) -> Usage:
    form = {SSE: StreamForm.SSE, LINES: StreamForm.NDJSON}.get(media, StreamForm.WHOLE)
    tap = dialect.tap([(b"content-type", media)], Facts(stream=media != WHOLE, form=form))
    tap.feed(body)
    tap.end()
    assert tap.state.usage is not None
    return tap.state.usage


@pytest.mark.parametrize("name", CASES)
@given(parts=st.tuples(counts, counts, counts, counts, counts.map(lambda each: each + 1)))
def test_usage_is_what_the_library_extracts(name: str, parts: Parts) -> None:
    """Of whole answers and of streams, every count; and it costs what the library says."""
    dialect, make, stream, provider, form = CASES[name]
    reply = make(parts)
    theirs = genai_prices.extract_usage(reply, provider_id=provider, api_flavor=form).usage
    used = read(dialect, json.dumps(reply).encode(), WHOLE)
    assert used == read(dialect, as_events(stream(reply)), SSE)
    assert used.total_input == theirs.input_tokens
    assert used.output_tokens == theirs.output_tokens
    assert used.cache_read_tokens == (theirs.cache_read_tokens or 0)
    assert used.cache_write_tokens == (theirs.cache_write_tokens or 0)
    assert used.cache_write_1h_tokens == (theirs.cache_write_1h_tokens or 0)
    assert used.estimated_tokens == 0
    model = reply.get("model") or reply["modelVersion"]
    cost = genai_prices.calc_price(theirs, model, provider_id=provider, genai_request_timestamp=NOON).total_price
    assert PRICES.cost(provider, model, used) == pytest.approx(float(cost))


def test_the_library_has_no_extractor_for_ollama() -> None:
    """Whose counts cost nothing; once it has one, Ollama belongs to the cases above."""
    with pytest.raises(LookupError):
        genai_prices.extract_usage({"prompt_eval_count": 3, "eval_count": 4}, provider_id="ollama")
    counts = json.dumps({"done": True, "prompt_eval_count": 3, "eval_count": 4}).encode() + b"\n"
    assert read(Ollama(), counts, LINES) == Usage(3, 0, 0, 4)
