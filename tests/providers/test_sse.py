"""Splitting streams into records."""

from __future__ import annotations

import json

import pytest

from hivemind.providers import sse
from hivemind.providers.sse import ArraySplitter, LineSplitter, Splitter, SseSplitter, fields


def cut(splitter: Splitter, data: bytes, step: int) -> list[bytes]:
    records = [record for at in range(0, len(data), step) for record in splitter.feed(data[at : at + step])]
    return records + splitter.end()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("step", [1, 2, 5, 1000])
def test_every_line_ending(end: str, step: int) -> None:
    """LF, CRLF and CR are the same, cut anywhere, also between CR and LF; blank lines and a BOM are no events."""
    lines = ["\ufeff", ": hello", "", "event: a", "data: 1", "", "", "data: 2", "data: 3", "", "data: [DONE]", "", ""]
    data = end.join(lines).replace("\ufeff" + end, "\ufeff").encode()
    assert [fields(block) for block in cut(SseSplitter(), data, step)] == [
        (b"", b""),
        (b"a", b"1"),
        (b"", b"2\n3"),
        (b"", b"[DONE]"),
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (b"data: x", (b"", b"x")),
        (b"data:x", (b"", b"x")),
        (b"data:  x", (b"", b" x")),
        (b"data", (b"", b"")),
        (b"event: ping\ndata: {}", (b"ping", b"{}")),
        (b"id: 7\nretry: 10\nevent:e\ndata: a: b", (b"e", b"a: b")),
        (b": comment\ndata: x", (b"", b"x")),
        (b'{"a": 1}', (b"", b"")),
        (b'error: {"code":\ndata: x', (b"error", b'{"code":')),
        (b'{"error": 1}', (b"error", b'{"error": 1}')),
    ],
)
def test_fields(block: bytes, expected: tuple[bytes, bytes]) -> None:
    """Name and data of one block, by the rules of the standard: one space after the colon belongs to no value.
    An error without a field of the standard is an event too."""
    assert fields(block) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("step", [3, 5000, 50_000])
def test_comments_between_events(end: str, step: int) -> None:
    """Thousands of comments give nothing, and take nothing from the events among them."""
    lines = [": keepalive", "", "event: a", ": inside", "data: 1", "", ":", ""] + [":", ""] * 4000 + ["data: 2", "", ""]
    blocks = cut(SseSplitter(), end.join(lines).encode(), step)
    assert [event for block in blocks if any(event := fields(block))] == [(b"a", b"1"), (b"", b"2")]
    if step > 8192:  # of what is left when each CRLF is one byte
        assert len(blocks) < 1000


def test_an_event_without_its_blank_line_comes_at_the_end() -> None:
    """Servers that leave the last blank line out are understood when the stream ends."""
    splitter = SseSplitter()
    assert splitter.feed(b"data: 1\n\ndata: [DONE]\n") == [b"data: 1"]
    assert splitter.end() == [b"data: [DONE]"]
    assert splitter.end() == []


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_lines(step: int) -> None:
    """NDJSON gives its lines; keepalive spaces and empty lines give nothing."""
    data = b' {"a": 1}\r\n\n  \n{"b": 2}'
    assert cut(LineSplitter(), data, step) == [b'{"a": 1}', b'{"b": 2}']


TRICKY = [{"a": '}{"\\', "b": [{"c": "\u00e9]"}]}, {}, {"d": "\\\\"}, {"e": [1, 2, {"f": {}}]}]


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_array(step: int, indent: int | None) -> None:
    """A JSON array gives its objects, whatever braces, quotes and backslashes their strings hold."""
    data = json.dumps(TRICKY, indent=indent).encode()
    assert [json.loads(record) for record in cut(ArraySplitter(), data, step)] == TRICKY


def test_a_bare_object_is_an_array_of_one() -> None:
    """An error that comes without the array around it is seen."""
    assert cut(ArraySplitter(), b'{"error": {}}', 4) == [b'{"error": {}}']


@pytest.mark.parametrize("splitter", [SseSplitter, LineSplitter, ArraySplitter])
def test_a_record_too_large_is_dropped(splitter: type[Splitter], monkeypatch: pytest.MonkeyPatch) -> None:
    """One record beyond the bound is lost, in little memory; the next is found."""
    monkeypatch.setattr(sse, "MAX_RECORD", 100)
    separator = b"" if splitter is ArraySplitter else b"\n\n"
    huge = b'{"a": "' + b"x" * 350 + b'"}'
    records = cut(splitter(), separator.join([huge, b'{"b": 1}', b""]), 10)
    assert records == [b'{"b": 1}']
