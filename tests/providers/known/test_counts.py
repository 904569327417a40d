"""What was used, in each provider's own place and names."""

from __future__ import annotations

import json

import pytest

from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.counts import usage_in
from hivemind.providers.known import providers
from hivemind.providers.paths import DIALECTS
from hivemind.providers.table import Counts
from hivemind.providers.taps import end_through, feed_through
from hivemind.scheduler.types import Usage

ROWS = [
    pytest.param(row, id=f"{provider.name}-{number}")
    for provider in providers()
    for number, row in enumerate(provider.counts)
]
BEFORE = {
    "openai_chat": b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    "anthropic": b'data: {"type":"message_start","message":{"usage":{"input_tokens":0,"output_tokens":0}}}\n\n'
    b'data: {"type":"content_block_delta","delta":{"text":"a"}}\n\n',
}
AFTER = {"openai_chat": b"data: [DONE]\n\n", "anthropic": b'data: {"type":"message_stop"}\n\n'}


@pytest.mark.parametrize("row", ROWS)
def test_each_row(row: Counts) -> None:
    """The example's counts are read, as the provider's final ones."""
    data = row.example.encode()
    if row.stream:
        data = BEFORE.get(row.dialect, b"") + b"data: " + data + b"\n\n" + AFTER.get(row.dialect, b"")
    media = b"text/event-stream" if row.stream else b"application/json"
    form = StreamForm.SSE if row.stream else StreamForm.WHOLE
    tap = DIALECTS[row.dialect].tap([(b"content-type", media)], Facts(stream=row.stream, form=form))
    feed_through(tap, data)
    end_through(tap)
    assert (tap.state.usage, tap.state.usage_final) == (Usage(*row.counted), True)


@pytest.mark.parametrize("depth", [0, 1])
def test_any_place(depth: int) -> None:
    """Where the object stands doesn't matter, nor which names it has."""
    value: object = {"inputTokens": 7, "outputTokens": 2}
    for _ in range(depth):
        value = {"x": [{"a": 1}, {"wrapped": value}]}
    assert usage_in(json.dumps(value).encode()) == Usage(7, 0, 0, 2)


@pytest.mark.parametrize(
    "counts",
    [
        {"promptTokens": 100, "completionTokens": 20, "cachedPromptTokens": 64},
        {"input_token_count": 100, "output_token_count": 20, "cache_hit_token_count": 64},
        {"promptTokenCount": 100, "candidatesTokenCount": 20, "cachedContentTokenCount": 64},
        {"inputTokens": 100, "outputTokens": 20, "cachedInputTokens": 64},
        {"input_tokens": 100, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 64}},
        {"input_tokens": 36, "output_tokens": 20, "cache_read_input_tokens": 64},
        {"n_prompt_tokens": 100, "n_generated_tokens": 20, "num_cached_tokens": 64, "max_output_tokens": 999},
        {"prompt_eval_count": 100, "eval_count": 20, "cached": 64, "eval_duration": 999},
    ],
)
def test_names_in_no_row(counts: dict[str, object]) -> None:
    """Their words tell what they count."""
    assert usage_in(json.dumps({"metrics": {"used": counts}}).encode()) == Usage(36, 64, 0, 20)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20, "cache_read_input_tokens": 60}, (40, 60, 0, 20)),
        (
            {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 120, "cache_read_input_tokens": 60},
            (40, 60, 0, 20),
        ),
        (
            {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "cache_read_input_tokens": 60},
            (40, 60, 0, 20),
        ),
        ({"input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 60}, (40, 60, 0, 20)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 50}, (0, 10, 0, 2)),
    ],
)
@pytest.mark.parametrize("dialect", ["openai_chat", "plain"])
def test_whether_the_input_holds_the_cache(
    counts: dict[str, int], expected: tuple[int, int, int, int], dialect: str
) -> None:
    """A stated total tells; else the names do."""
    body = json.dumps({"choices": [{"message": {}}], "usage": counts}).encode()
    tap = DIALECTS[dialect].tap([(b"content-type", b"application/json")], Facts())
    feed_through(tap, body)
    end_through(tap)
    fresh, cached, written, output = expected
    assert tap.state.usage == Usage(fresh, cached, written, output)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"input_tokens":"5"}',
        b'{"text":"\\"input_tokens\\":5"}',
        b'{"input_tokens":true}',
        b'["input_tokens":5',
    ],
)
def test_nothing_is_invented(data: bytes) -> None:
    """Words in a text, or values of other types, are no counts."""
    assert usage_in(data) is None


@pytest.mark.parametrize("stream", [True, False])
def test_openai_s_names_in_messages(stream: bool) -> None:
    """Gateways that answer Messages from a chat model leave its names in them."""
    usage = b'"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}'
    whole = b'{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",%b}' % usage
    delta = b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},%b}\n\n' % usage
    media = b"text/event-stream" if stream else b"application/json"
    form = StreamForm.SSE if stream else StreamForm.WHOLE
    tap = DIALECTS["anthropic"].tap([(b"content-type", media)], Facts(stream=stream, form=form))
    feed_through(tap, BEFORE["anthropic"] + delta + AFTER["anthropic"] if stream else whole)
    end_through(tap)
    assert (tap.state.usage, tap.state.usage_final) == (Usage(100, 0, 0, 20), True)
