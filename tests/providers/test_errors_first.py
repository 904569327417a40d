"""An error before any content is one, whatever follows it and however its bytes are cut, in every dialect."""

from __future__ import annotations

import json
from itertools import pairwise, product

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.paths import DIALECTS
from hivemind.providers.taps import end_through, feed_through

Event = tuple[str, object]
"""A name, empty for none, and data."""
ERROR = {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}
SSE: Headers = [(b"content-type", b"text/event-stream")]
NDJSON: Headers = [(b"content-type", b"application/x-ndjson")]


def typed(kind: str, **fields: object) -> Event:
    """An event of Anthropic's, or of OpenAI's responses."""
    return kind, {"type": kind, **fields}


def chunk(delta: object, **fields: object) -> Event:
    """A chunk of a chat."""
    return "", {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **fields}


def part(text: str, **fields: object) -> Event:
    """A chunk of Google's."""
    return "", {"candidates": [{"content": {"parts": [{"text": text}]}, **fields}]}


BARE: tuple[Event, ...] = (("", {"error": ERROR}), ("error", {"error": ERROR}), ("error", "overloaded"))
"""Errors as gateways and servers send them in any dialect."""
PRELUDES: dict[str, tuple[Event, ...]] = {
    "anthropic": (typed("message_start", message={"usage": {"input_tokens": 3}}), typed("ping"), typed("error_free")),
    "openai_chat": (chunk({"role": "assistant", "content": ""}),),
    "openai_responses": (typed("response.created", response={"id": "r", "error": None}),),
    "google": (("", {"usageMetadata": {"promptTokenCount": 2}}),),
    "ollama": (("", {"message": {"content": ""}, "done": False}),),
}
ERRORS: dict[str, tuple[Event, ...]] = {
    "anthropic": (
        *BARE,
        typed("error", error=ERROR),
        ("", {"type": "error", "error": ERROR}),
        ("message", {"error": ERROR}),
    ),
    "openai_chat": (*BARE, chunk({}, error=ERROR), ("", {"choices": [], "error": ERROR}), ("", {"error": "no"})),
    "openai_responses": (
        *BARE,
        typed("error", code="server_error", message="no"),
        typed("response.failed", response={"error": ERROR}),
        ("", {"type": "response.failed", "response": {"error": ERROR}}),
    ),
    "google": (*BARE, ("", {"candidates": [], "error": {"code": 503, "status": "UNAVAILABLE"}})),
    "ollama": (("", {"error": "no"}), ("", {"error": "no", "done": True})),
}
CONTENT: dict[str, Event] = {
    "anthropic": typed("content_block_delta", delta={"type": "text_delta", "text": "Hi"}),
    "openai_chat": chunk({"content": "Hi"}),
    "openai_responses": typed("response.output_text.delta", delta="Hi"),
    "google": part("Hi"),
    "ollama": ("", {"message": {"content": "Hi"}, "done": False}),
}
ENDS: dict[str, Event] = {
    "anthropic": typed("message_stop"),
    "openai_chat": ("", "[DONE]"),
    "openai_responses": typed("response.completed", response={"usage": {"input_tokens": 1, "output_tokens": 1}}),
    "google": part("", finishReason="STOP"),
    "ollama": ("", {"done": True, "eval_count": 3}),
}


def stream(dialect: str, events: list[Event], line_end: str, comment: str) -> bytes:
    """The bytes of a stream in its dialect's form."""
    if dialect == "ollama":
        return "".join(f"{json.dumps(data)}\n" for _, data in events).encode()
    blocks = []
    for name, data in events:
        lines = [comment] if comment else []
        lines += [f"event: {name}"] if name else []
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}")
        blocks.append(line_end.join([*lines, "", ""]))
    return "".join(blocks).encode()


def read(dialect: str, data: bytes, cuts: list[int]) -> TapState:
    """What a tap makes of the bytes, cut there; it is read as far as a proxy holds an answer back."""
    headers, form = (NDJSON, StreamForm.NDJSON) if dialect == "ollama" else (SSE, StreamForm.SSE)
    tap = DIALECTS[dialect].tap(headers, Facts(stream=True, form=form))
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    for start, end in pairwise(places):
        feed_through(tap, data[start:end])
        if tap.state.error is not None or tap.state.content_started:
            return tap.state
    end_through(tap)
    return tap.state


CASES = [(dialect, error) for dialect, errors in ERRORS.items() for error in errors]
IDS = [f"{dialect}-{number}" for number, (dialect, _) in enumerate(CASES)]


@pytest.mark.parametrize(("dialect", "error"), CASES, ids=IDS)
@settings(max_examples=examples(60), deadline=None)
@given(
    cuts=st.lists(st.integers(0, 4000), max_size=5),
    tail=st.lists(st.sampled_from(["end", "content", "prelude", "error"]), max_size=3),
    repeated=st.integers(0, 3),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    comment=st.sampled_from(["", ": OPENROUTER PROCESSING", ":"]),
)
def test_an_error_before_content(
    dialect: str, error: Event, cuts: list[int], tail: list[str], repeated: int, line_end: str, comment: str
) -> None:
    """It wins over an end marker and over content after it, in one read as in several."""
    after = {"end": ENDS[dialect], "content": CONTENT[dialect], "prelude": PRELUDES[dialect][0], "error": error}
    events = [*PRELUDES[dialect] * repeated, error, *(after[each] for each in tail)]
    data = stream(dialect, events, line_end, comment)
    whole, cut = read(dialect, data, []), read(dialect, data, cuts)
    assert whole.failed
    assert cut.failed
    assert (cut.error, cut.content_started) == (whole.error, whole.content_started)


@pytest.mark.parametrize("dialect", CONTENT)
@given(cuts=st.lists(st.integers(0, 4000), max_size=5), line_end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_an_error_after_content(dialect: str, cuts: list[int], line_end: str) -> None:
    """Content that came first was passed on already, however the bytes are cut; the error follows it."""
    data = stream(dialect, [*PRELUDES[dialect], CONTENT[dialect], ERRORS[dialect][0], ENDS[dialect]], line_end, "")
    assert read(dialect, data, []).content_started
    assert read(dialect, data, cuts).content_started
    assert not read(dialect, data, cuts).failed


def test_in_one_long_piece() -> None:
    """Neither many events nor a long one around the error change that."""
    for dialect, (before, after) in product(ERRORS, ((400, 400), (0, 3000), (3000, 0))):
        prelude, error = PRELUDES[dialect][0], ERRORS[dialect][0]
        long = ("", {"choices": [], "padding": "x" * 200_000})
        events = [*[prelude] * before, error, long, *[CONTENT[dialect]] * after, ENDS[dialect]]
        assert read(dialect, stream(dialect, events, "\n", ""), []).failed, dialect
