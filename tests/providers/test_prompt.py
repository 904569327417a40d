"""The length of a prompt."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hivemind.providers.anthropic import Anthropic
from hivemind.providers.bedrock import Bedrock
from hivemind.providers.dialect import Dialect
from hivemind.providers.google import Google
from hivemind.providers.openai import OpenAIChat, OpenAIResponses
from hivemind.providers.outline import PICTURE_CHARS, size_chars

PAYLOAD = base64.b64encode(bytes(range(256)) * 64).decode()
ZEROS = "A" * len(PAYLOAD)
N = len(PAYLOAD) - PICTURE_CHARS

BODIES = {
    "anthropic": ({"messages": [{"source": {"type": "base64", "media_type": "image/png", "data": PAYLOAD}}]}, N),
    "openai": ({"messages": [{"image_url": {"url": f"data:image/png;base64,{PAYLOAD}"}}]}, N),
    "openai sound": ({"messages": [{"input_audio": {"data": PAYLOAD, "format": "wav"}}]}, N),
    "google": ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": PAYLOAD}}]}]}, N),
    "ollama": ({"messages": [{"images": [PAYLOAD, PAYLOAD, PAYLOAD]}], "base64": 1}, 3 * N),
    "two": ({"a": {"data": PAYLOAD}, "b": f"data:x/y;base64,{PAYLOAD}", "c": "base64"}, 2 * N),
    "data of words": ({"source": {"type": "base64", "data": "these are words, not a payload " * 20}}, 0),
    "short": ({"source": {"type": "base64", "data": "QUJD"}, "images": [], "data": 5}, 0),
    "quoted": ({"text": json.dumps({"type": "base64", "data": PAYLOAD})}, N + 1),
    "a generated image": ({"input": [{"type": "image_generation_call", "result": ZEROS}]}, N),
    "a file": ({"input": [{"type": "input_file", "file_data": ZEROS}, {"b64_json": ZEROS}]}, 2 * N),
    "anywhere": ({"tool": {"screen": [PAYLOAD, f"see {PAYLOAD}."]}}, 2 * N),
    "a small one": ({"source": {"type": "base64", "data": PAYLOAD[:3000]}}, 0),
    "a large one": ({"data": "A" * 900_000}, 900_000 - PICTURE_CHARS),
    "words without spaces": ({"text": "x" * 20_000, "more": "lorem" * 4000}, 0),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", BODIES)
def test_payloads_are_taken_off(name: str, indent: int | None) -> None:
    """Images and sound count as a picture, not as text, wherever each API puts them and however the JSON is spaced."""
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
    "unit",
    [b" ", b'"data",', b";base64," + b"A" * 256, b"A" * 256 + b'","', b"A" * 999 + b" ", b"1,", b"A" * 999 + b","],
)
def test_work_is_bounded(unit: bytes) -> None:
    """Whatever a body is made of, none of its bytes is looked at more than a few times."""
    body = _CountedBody(b'{"data":["' + unit * (1_000_000 // len(unit)))
    size_chars(body)
    assert body.looked_at < 4 * len(body)


class _CountedBody(bytes):
    """Counts how many of its bytes are looked at. Runs of base64 come on top, but none of them is looked at twice."""

    looked_at = 0

    def rfind(self, sought: Any, start: Any = None, end: Any = None) -> int:
        self.looked_at += len(self[start:end])
        return super().rfind(sought, start, end)


Body = dict[str, object]
LONG, OTHER = "word " * 8_000, "work " * 8_000
KEEP = {"cache_control": {"type": "ephemeral"}}


def alike(dialect: Dialect, *bodies: Body) -> bool:
    """Whether these requests have the same prefix, and one."""
    prefixes = {dialect.request_facts("/v1/messages", "", json.dumps(body).encode()).prefix for body in bodies}
    return len(prefixes) == 1 and 0 not in prefixes


def anthropic(model: str = "m", system: str = LONG, say: str = "hi", **kept: object) -> Body:
    blocks = [{"type": "text", "text": system, **(kept or KEEP)}]
    return {"model": model, "system": blocks, "messages": [{"role": "user", "content": say}], "max_tokens": 9}


def chat(system: str = LONG, say: str = "hi") -> Body:
    return {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": say}]}


def google(system: str = LONG, say: str = "hi", **more: object) -> Body:
    return {"systemInstruction": {"parts": [{"text": system}]}, "contents": [{"parts": [{"text": say}]}], **more}


def converse(system: str = LONG, say: str = "hi", mark: str = "cachePoint") -> Body:
    blocks = [{"text": system}, {mark: {"type": "default"}}]
    return {"system": blocks, "messages": [{"role": "user", "content": [{"text": say}]}]}


@pytest.mark.parametrize(
    ("dialect", "bodies", "same"),
    [
        (Anthropic(), (anthropic(), anthropic(say="ho")), True),
        (Anthropic(), (anthropic(), anthropic(model="n")), False),
        (Anthropic(), (anthropic(), anthropic(system=OTHER)), False),
        (Anthropic(), (anthropic(say=LONG), anthropic(say=OTHER)), False),
        (Anthropic(), (anthropic(say=LONG + "a"), anthropic(say=LONG + "b")), True),  # grown, or another end
        (Anthropic(), (anthropic(system="short"),), False),
        (Anthropic(), (anthropic(none=1),), False),  # nothing asks to keep it
        (Google(), (google(), google(say="ho")), True),
        (Google(), (google(), google(system=OTHER)), False),
        (Google(), (google(cachedContent="cachedContents/1"),), False),  # it was written before
        (Bedrock(), (converse(), converse(say="ho")), True),
        (Bedrock(), (converse(mark="none"),), False),
        (Bedrock(), (anthropic(), anthropic(say="ho")), True),  # invoke
        (OpenAIChat(), (chat(), chat(say="ho")), True),
        (OpenAIChat(), (chat(), chat(system=OTHER)), False),
        (OpenAIResponses(), ({"instructions": LONG, "input": "a"}, {"instructions": LONG, "input": "b"}), True),
        (OpenAIResponses(), ({"instructions": LONG, "input": []}, {"instructions": OTHER, "input": []}), False),
    ],
)
def test_prompts_that_begin_alike_are_known(
    dialect: Dialect, bodies: tuple[dict[str, object], ...], same: bool
) -> None:
    """By instructions and tools, and by the beginning of messages where that is long itself."""
    assert alike(dialect, *bodies) is same
