"""A JSON document in place of a stream is whole at its body's end, in every dialect and under every label."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.providers.base import Facts, Headers, StreamForm, TapState
from hivemind.providers.paths import DIALECTS
from hivemind.providers.taps import LONG_RECORD, MAX_PRELUDE, end_through, feed_through
from hivemind.scheduler.types import Usage

FORMS = [
    ("anthropic", StreamForm.SSE),
    ("openai_chat", StreamForm.SSE),
    ("openai_responses", StreamForm.SSE),
    ("google", StreamForm.SSE),
    ("google", StreamForm.JSON_ARRAY),
    ("ollama", StreamForm.NDJSON),
]
LABELS = (
    *("application/json", "application/json; charset=utf-8", "text/event-stream", "text/plain"),
    *("application/x-ndjson", ""),
)
CHAT = {"choices": [{"message": {"content": "ok\n{]"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
DOCUMENTS: tuple[object, ...] = (CHAT, {"other": [{"a": {}}]}, {}, [], [CHAT, {}], [1, [2]])
INDENTS = (None, 2)


def tapped(
    dialect: str, form: StreamForm, label: str, data: bytes, cuts: list[int], *, encoding: str = "identity"
) -> TapState:
    """What a tap makes of a body, cut there."""
    headers: Headers = [(b"content-type", label.encode()), (b"content-encoding", encoding.encode())]
    tap = DIALECTS[dialect].tap(headers if label else headers[1:], Facts(stream=True, form=form))
    places = sorted({0, len(data), *(cut % (len(data) or 1) for cut in cuts)})
    for start, end in pairwise(places):
        feed_through(tap, data[start:end])
    end_through(tap)
    return tap.state


@pytest.mark.parametrize(("dialect", "form"), FORMS)
@given(
    label=st.sampled_from(LABELS),
    document=st.sampled_from(DOCUMENTS),
    indent=st.sampled_from(INDENTS),
    end=st.sampled_from(["", "\n", "\r\n", "\n\n"]),
    cuts=st.lists(st.integers(0, 300), max_size=5),
)
def test_a_document_is_whole(
    dialect: str, form: StreamForm, label: str, document: object, indent: int | None, end: str, cuts: list[int]
) -> None:
    """It is complete without the dialect's end marker, however it is cut; its last byte away it isn't."""
    text = json.dumps(document, indent=indent)
    state = tapped(dialect, form, label, (text + end).encode(), cuts)
    assert (state.complete, state.error) == (True, None)
    assert not tapped(dialect, form, label, text[:-1].encode(), cuts).complete


@pytest.mark.parametrize(("dialect", "form"), FORMS)
@pytest.mark.parametrize("padding", [0, MAX_PRELUDE, 2 * LONG_RECORD])
def test_its_size_and_encoding_do_not_matter(dialect: str, form: StreamForm, padding: int) -> None:
    """A long one is as whole as a short one."""
    for label in LABELS:
        for indent in INDENTS if padding == 0 else INDENTS[:1]:
            data = json.dumps({**CHAT, "padding": "x" * padding}, indent=indent).encode()
            assert tapped(dialect, form, label, data, [1000, 50_000]).complete, (label, indent)
            packed = gzip.compress(data)
            assert tapped(dialect, form, label, packed, [100], encoding="gzip").complete, (label, indent)


@pytest.mark.parametrize("label", LABELS[2:4])
@pytest.mark.parametrize("behind", ["", "data: [DONE]\n\n"])  # of 9router
@pytest.mark.parametrize("padding", [0, 2 * LONG_RECORD])
def test_its_usage_and_its_error_are_read(label: str, behind: str, padding: int) -> None:
    """As those of a whole answer that was asked for."""
    more = {"padding": "x" * padding}
    used = tapped("openai_chat", StreamForm.SSE, label, (json.dumps({**CHAT, **more}) + behind).encode(), [])
    assert (used.usage, used.usage_final, used.document) == (Usage(3, 0, 0, 2), True, True)
    failed = tapped("openai_chat", StreamForm.SSE, label, json.dumps({**more, "error": {"code": 503}}).encode(), [])
    assert failed.error is not None


@pytest.mark.parametrize(
    ("label", "text", "complete"),
    [
        ("application/json", '{"message":{"content":"Hi"}}', True),
        ("application/json", '{"message":{"content":"Hi"},"done":false}', False),
        ("application/json", '{"message":{"content":"Hi"}}\n{"message":{"content":"Ho"}}', False),
        ("application/json", "busy", True),
        ("application/json", "null", True),
        ("application/json", "", False),
        ("application/x-ndjson", '{"message":{"content":"Hi"}}', False),
        ("text/plain", '{"response":"Hi"}', False),
        ("text/plain", "busy", False),
        ("application/x-ndjson", '{"a":1}\n{"b":2}', False),
    ],
)
def test_ollama_s_own(label: str, text: str, complete: bool) -> None:
    """A part of Ollama's own stream says so, or is labelled as a stream; it needs its end."""
    for cuts in ([], [9], list(range(len(text)))):
        for end in ("", "\n" if text else ""):
            assert tapped("ollama", StreamForm.NDJSON, label, (text + end).encode(), cuts).complete is complete


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ('[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}]', True),
        ('[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}', False),
        ('[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]},', False),
        ("[", False),
        ("", False),
    ],
)
def test_google_s_array(text: str, complete: bool) -> None:
    """A closed array is whole, though no finish reason came."""
    assert tapped("google", StreamForm.JSON_ARRAY, "application/json", text.encode(), [7]).complete is complete


def test_events_are_no_document() -> None:
    """Neither a stream without its end marker nor JSON before events is."""
    for data in (b'data: {"choices":[]}\n\n', b'{"choices":[]}\n\ndata: {"choices":[]}\n\n', b": a comment\n\n", b""):
        assert not tapped("openai_chat", StreamForm.SSE, "text/event-stream", data, []).complete
