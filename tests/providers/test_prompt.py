"""The length of a prompt."""

from __future__ import annotations

import base64
import json
import re
import timeit
from typing import Any

import pytest

from hivemind.providers import outline
from hivemind.providers.outline import size_chars

PAYLOAD = base64.b64encode(bytes(range(256)) * 8).decode()
N = len(PAYLOAD)

BODIES = {
    "anthropic": ({"messages": [{"source": {"type": "base64", "media_type": "image/png", "data": PAYLOAD}}]}, N),
    "openai": ({"messages": [{"image_url": {"url": f"data:image/png;base64,{PAYLOAD}"}}]}, N),
    "openai sound": ({"messages": [{"input_audio": {"data": PAYLOAD, "format": "wav"}}]}, N),
    "google": ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": PAYLOAD}}]}]}, N),
    "ollama": ({"messages": [{"images": [PAYLOAD, PAYLOAD, PAYLOAD]}], "base64": 1}, 3 * N),
    "two": ({"a": {"data": PAYLOAD}, "b": f"data:x/y;base64,{PAYLOAD}", "c": "base64"}, 2 * N),
    "data of words": ({"source": {"type": "base64", "data": "these are words, not a payload " * 20}}, 0),
    "short": ({"source": {"type": "base64", "data": "QUJD"}, "images": [], "data": 5}, 0),
    "quoted": ({"text": json.dumps({"type": "base64", "data": PAYLOAD})}, 0),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", BODIES)
def test_payloads_are_taken_off(name: str, indent: int | None) -> None:
    """Images and sound don't count as text, wherever each API puts them and however the JSON is spaced."""
    body, payload = BODIES[name]
    encoded = json.dumps(body, indent=indent).encode()
    assert size_chars(encoded) == len(encoded) - payload


@pytest.mark.parametrize("body", [b"", b"base64", b'base64 "data": "' + b"A" * 300, b"x;base64,", b'"images":["'])
def test_broken_bodies(body: bytes) -> None:
    """A body that ends in the middle keeps its whole length."""
    assert size_chars(body) == len(body)


def test_plain_text() -> None:
    """A body without payloads counts as it is."""
    assert size_chars(b'{"messages": "hello"}') == 21


@pytest.mark.parametrize(
    ("start", "unit", "looks"),
    [
        (b'{"base64":1,"data":', b" ", 3),
        (b'{"base64":[', b'"data",', 2001),
        (b'{"a":"', b";base64," + b"A" * 256, 1),
        (b'{"base64":1,"images":["', b"A" * 256 + b'","', 2001),
    ],
)
def test_work_is_bounded(start: bytes, unit: bytes, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys or data URLs a body has, and whatever follows them, few places are looked at closely."""
    count = 0

    class Counting:
        def __init__(self, pattern: re.Pattern[bytes]) -> None:
            self._pattern = pattern

        def match(self, *where: Any) -> re.Match[bytes] | None:
            nonlocal count
            count += 1
            return self._pattern.match(*where)

        def fullmatch(self, *where: Any) -> re.Match[bytes] | None:
            nonlocal count
            count += 1
            return self._pattern.fullmatch(*where)

    for name in ("_OPENING", "_BASE64"):
        monkeypatch.setattr(outline, name, Counting(getattr(outline, name)))
    body = start + unit * (900_000 // len(unit))
    assert size_chars(body) <= len(body)
    assert 0 < count <= looks


def test_spaces_take_no_more_than_their_number() -> None:
    """Twice the spaces after a key take about twice the time, and not four times."""

    def time_of(spaces: int) -> float:
        body = b'{"base64":1,"data":' + b" " * spaces + b"1}"
        return min(timeit.repeat(lambda: size_chars(body), number=1, repeat=7))

    assert time_of(400_000) < 3 * time_of(200_000) + 0.001
