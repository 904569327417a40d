"""The length of a prompt, from which its tokens are estimated."""

from __future__ import annotations

import re

_HINTS = (b"base64", b"inlineData", b"inline_data", b"input_audio", b'"images"')
_DATA_URL = b";base64,"
_KEYS = (b'"data"', b'"images"')
# Possessive, since backtracking over a run of spaces would take quadratic time.
_OPENING = re.compile(rb'\s*+:\s*+\[?+\s*+"')
_NEXT_ITEM = re.compile(rb'"\s*+,\s*+"')
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\\-]++={0,2}+")
_BEGINNING = 64
SAMPLE = 256
"""Shortest base64 payload in bytes that is subtracted."""
LONGEST = 1024 * 1024
"""Largest body in bytes that is searched here."""
_MOST_PAYLOADS = 2000
"""Most payloads of each kind that are found; the rest counts as text."""


def size_chars(body: bytes) -> int:
    """Return the length of a JSON body without its base64 payloads (images, documents, sound), which are priced by
    other rules. Payloads follow a data URL's head, or are values of the keys `data` (Anthropic, Google, OpenAI's
    sound) and `images` (Ollama). They are found by plain search; :class:`.outline.Outline` counts those of bodies
    beyond a megabyte.
    """
    if len(body) > LONGEST and not is_object(body):
        return len(body)
    if not any(hint in body for hint in _HINTS):
        return len(body)
    payloads = _after_data_urls(body)
    for key in _KEYS:
        payloads += _under_key(body, key)
    return len(body) - payloads


def is_object(body: bytes) -> bool:
    """Whether a long body begins as a JSON object, possibly after many spaces."""
    return body[:_BEGINNING].lstrip()[:1] in (b"", b"{")


def payload_in(head: bytes, length: int, under_key: bool) -> int:
    """Return how many bytes of a string with this length and start are base64. `under_key`: it is the value of a
    payload key."""
    if length < SAMPLE:
        return 0
    start = head.find(_DATA_URL) + len(_DATA_URL)
    if start < len(_DATA_URL):
        if not under_key:
            return 0
        start = 0
    return length - start if _BASE64.fullmatch(head, start, start + SAMPLE) else 0


def _after_data_urls(body: bytes) -> int:
    total = 0
    at = body.find(_DATA_URL)
    for _ in range(_MOST_PAYLOADS):
        if at < 0:
            break
        start = at + len(_DATA_URL)
        length = _payload(body, start)
        if length < 0:
            break
        total += length
        at = body.find(_DATA_URL, start + length)
    return total


def _under_key(body: bytes, key: bytes) -> int:
    total = 0
    looked = 0
    at = body.find(key)
    while at >= 0 and looked < _MOST_PAYLOADS:
        looked += 1
        at += len(key)
        opening = _OPENING.match(body, at)
        while opening and looked < _MOST_PAYLOADS:
            looked += 1
            length = max(0, _payload(body, opening.end()))
            total += length
            at = opening.end() + length
            opening = _NEXT_ITEM.match(body, at) if length else None
        at = body.find(key, at)
    return total


def _payload(body: bytes, start: int) -> int:
    """Return the length of the base64 text from here to the end of its string; 0 if it isn't base64, -1 if the
    string doesn't end."""
    if not _BASE64.fullmatch(body, start, min(start + SAMPLE, len(body))):
        return 0
    end = body.find(b'"', start)
    return end - start if end >= 0 else -1
