"""Outlines of long JSON objects: what they keep, in any pieces, and how little they do at a time."""

from __future__ import annotations

import base64
import json

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemind.providers import outline
from hivemind.providers.outline import SLICE, Outline, size_chars

PAYLOAD = base64.b64encode(bytes(range(256)) * 64).decode()


def outlined(data: bytes, step: int = SLICE) -> Outline:
    made = Outline()
    for at in range(0, len(data), step):
        made.feed(data[at : at + step])
    return made


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"{', "x" * 300]),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
    max_leaves=12,
)


@settings(derandomize=True, deadline=None, max_examples=examples(200))
@given(st.dictionaries(st.text(max_size=6), JSON, max_size=5), st.integers(1, 40), st.sampled_from([None, 2]))
def test_short_objects_stay_whole(value: dict[str, object], step: int, indent: int | None) -> None:
    """An object without anything long says the same as its outline, cut anywhere."""
    made = outlined(json.dumps(value, indent=indent, ensure_ascii=False).encode(), step)
    assert json.loads(made.end()) == value
    assert not made.failed


@pytest.mark.parametrize("step", [1, 7, 1000, SLICE])
def test_long_strings_are_left_out(step: int) -> None:
    """What stands around a long string stays, whatever escapes the string has."""
    long = 'quoted " and \\ and \n' * 100
    value = {"a": 1, "b": [{"c": long, "d": "e"}, long], long: 2, "z": {"y": long + "é"}}
    expected = {"a": 1, "b": [{"c": "...", "d": "e"}, "..."], "...": 2, "z": {"y": "..."}}
    assert json.loads(outlined(json.dumps(value).encode(), step).end()) == expected


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(st.lists(JSON, max_size=30), st.integers(50, 4000))
def test_what_is_passed_over_ends_where_it_ends(items: list[object], step: int) -> None:
    """A long member is passed over without a look at each of its parts, and the one after it is found."""
    value = {"a": ["x" * 900] * 80 + items * 30, "model": "m"}
    assert json.loads(outlined(json.dumps(value, ensure_ascii=False).encode(), step).end()) == {"model": "m"}


@pytest.mark.parametrize("step", [100, SLICE])
def test_long_members_are_left_out(step: int) -> None:
    """A conversation goes, and what is known by the members before and after it stays."""
    value = {"model": "m", "messages": [{"role": "user", "content": "hello"}] * 5000, "stream": True}
    made = outlined(json.dumps(value).encode(), step)
    assert json.loads(made.end()) == {"model": "m", "stream": True}
    assert made.size == len(json.dumps(value))


def test_an_outline_is_bounded() -> None:
    """However many members there are, no more of them stay than fit."""
    made = outlined(b"{" + b",".join(b'"%d":"%s"' % (at, b"x" * 200) for at in range(5000)) + b"}")
    assert 200_000 < len(made.end()) <= outline.LONGEST + 2
    json.loads(made.end())


@pytest.mark.parametrize(
    "data", [b"", b"  ", b"[1, 2]", b'"text"', b"--boundary\r\n", b"{", b'{"a', b'{"a": "\\', b"}{", b"{]}{}"]
)
def test_garbage(data: bytes) -> None:
    """What isn't a whole object gives what can be told of it, and no error."""
    for step in (1, 100):
        outlined(data, step).end()


def test_what_is_no_object_is_not_looked_at() -> None:
    """A form or a file, megabytes long perhaps, is left alone after its first byte."""
    made = outlined(b"--boundary" + b'{"[' * 100)
    assert (made.failed, made.end()) == ("the body isn't a JSON object", b"{}")


BODIES: dict[str, object] = {
    "anthropic": {"messages": [{"source": {"type": "base64", "media_type": "image/png", "data": PAYLOAD}}] * 3},
    "openai": {"messages": [{"image_url": {"url": f"data:image/png;base64,{PAYLOAD}"}}]},
    "google": {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": PAYLOAD}}]}]},
    "ollama": {"messages": [{"images": [PAYLOAD, PAYLOAD, PAYLOAD]}], "base64": PAYLOAD},
    "words": {"source": {"type": "base64", "data": "these are words, not a payload " * 20}},
}


@pytest.mark.parametrize("step", [3, 250, SLICE])
@pytest.mark.parametrize("name", BODIES)
def test_payloads_are_counted_as_in_short_bodies(name: str, step: int) -> None:
    """A picture doesn't count as text, be the body read at once or as an outline."""
    data = json.dumps(BODIES[name]).encode()
    made = outlined(data, step)
    assert made.size - made.payload == size_chars(data)


HOSTILE = {
    "keys": (b"{", b'"a":1,'),
    "brackets": (b'{"a":', b"[{"),
    "strings": (b'{"a":[', b'"",'),
    "escapes": (b'{"a":[', b'"\\"",'),
    "one string": (b'{"a":"', b"\\\\"),
    "commas": (b"{", b","),
    "payload keys": (b'{"a":[', b'"data",'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_gives_way_often_and_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step looks at more than a bounded number of parts, and a body that is nothing but parts is given up."""
    start, unit = HOSTILE[name]
    data = start + unit * (4_000_000 // len(unit))
    monkeypatch.setattr(outline, "MOST_TOKENS", 50_000)
    seen: list[int] = []

    class Counting(Outline):
        def feed(self, data: bytes) -> int:
            seen.append(super().feed(data))
            return seen[-1]

    made = Counting()
    most = 0
    for _ in made.look_at((data,)):
        most = max(most, sum(seen))
        seen.clear()
    assert most <= outline.STEP_TOKENS + 5 * SLICE
    assert made.failed or name == "one string"
    assert len(made.end()) <= outline.LONGEST + 2
