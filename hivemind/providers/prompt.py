"""The length of a prompt, from which its tokens are estimated."""

from __future__ import annotations

import re

_HINTS = (b"base64", b"inlineData", b"inline_data", b"input_audio", b'"images"')
_DATA_URL = b";base64,"
_KEYS = (b'"data"', b'"images"')
_OPENING = re.compile(rb'\s*:\s*\[?\s*"')
_NEXT_ITEM = re.compile(rb'"\s*,\s*"')
_BASE64 = re.compile(rb"[A-Za-z0-9+/_\\-]+={0,2}")
_SAMPLE = 256
"""Bytes from which base64 is recognised; a shorter payload isn't worth taking off."""


def size_chars(body: bytes) -> int:
    """Length of a JSON body without its base64 payloads (images, documents, sound), which cost by other rules.

    Payloads follow a data URL's head, or stand under the keys `data` (Anthropic, Google, OpenAI's sound) and `images`
    (Ollama). They are found by plain search, since a body may be tens of megabytes.
    """
    if not any(hint in body for hint in _HINTS):
        return len(body)
    payloads = _after_data_urls(body)
    for key in _KEYS:
        payloads += _under_key(body, key)
    return len(body) - payloads


def _after_data_urls(body: bytes) -> int:
    total = 0
    at = body.find(_DATA_URL)
    while at >= 0:
        start = at + len(_DATA_URL)
        length = _payload(body, start)
        total += length
        at = body.find(_DATA_URL, start + length)
    return total


def _under_key(body: bytes, key: bytes) -> int:
    total = 0
    at = body.find(key)
    while at >= 0:
        at += len(key)
        opening = _OPENING.match(body, at)
        while opening:
            length = _payload(body, opening.end())
            total += length
            at = opening.end() + length
            opening = _NEXT_ITEM.match(body, at) if length else None
        at = body.find(key, at)
    return total


def _payload(body: bytes, start: int) -> int:
    """Length of the base64 text that starts here and ends with its string; 0 where it isn't base64."""
    if not _BASE64.fullmatch(body, start, min(start + _SAMPLE, len(body))):
        return 0
    end = body.find(b'"', start)
    return end - start if end >= 0 else 0
