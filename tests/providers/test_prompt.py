"""The length of a prompt."""

from __future__ import annotations

import base64
import json

import pytest

from hivemind.providers.prompt import size_chars

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
