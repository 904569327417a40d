"""Tolerant reading of JSON: it agrees with a strict reader wherever that reads something, and never raises."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from fuzz.kit import choices, pieces, require, target

from hivemind.providers import json_fields
from hivemind.providers.json_fields import Shape
from hivemind.providers.outline import LONGEST, LONGEST_STRING, SLICE, Outline, size_chars

_TOKENS = (
    *(b'{"model":"m"}', b'"stream":true', b'"max_tokens":', b"null", b'"usage":{', b'"inner":{', b'"list":[{', b"}]"),
    *(b"1e999", b"-1", b"0.5", b"1000000000000", b"\\u0000", b"\\ud800", b'\\"', b"\xff", b"[[[[", b'""', b"{}", b"[]"),
    *(b'"data":"', b'"images":["', b";base64,", b"A" * 300, b"x" * 1100, b'":"'),
)
_INNER = Shape("tokens:count name:text flag raw")
_SHAPE = Shape("model:text stream:flag max_tokens:count other list", inner=_INNER)
_PLAIN = Shape("model stream max_tokens other list inner")


def strictly(data: bytes) -> dict[str, Any] | None:
    """Return the object that these bytes are, if they are one without names that occur twice."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@target("json_fields", _TOKENS)
def fields(data: bytes) -> None:
    """Members have the value that they have, or none, whatever the types of the others."""
    usual, raw, value = _SHAPE.read(data), _PLAIN.read(data), strictly(data)
    model, stream = json_fields.text(usual, "model"), json_fields.flag(usual, "stream")
    tokens = json_fields.count(usual, "max_tokens")
    require(model == json_fields.text(raw, "model"), "the model depends on the shape", model)
    require(stream == json_fields.flag(raw, "stream"), "the flag depends on the shape", stream)
    require(tokens == json_fields.count(raw, "max_tokens"), "the count depends on the shape", tokens)
    require(tokens is None or 0 <= tokens < json_fields.MOST, "not a count", tokens)
    number = json_fields.number(raw, "other")
    require(number is None or math.isfinite(number), "not finite", number)
    require(json_fields.total(raw, "other", "max_tokens") >= 0, "a negative sum")
    require(json_fields.length(raw, "model", "other") >= 0, "a negative length")
    inner = _INNER.within(usual, "inner")
    require(type(json_fields.text(inner, "name")) is str, "not a text")
    require(len(json_fields.objects(raw, "list")) <= json_fields.MOST_ITEMS, "too many items")
    require(len(_INNER.items(raw, "list")) <= json_fields.MOST_ITEMS, "too many items")
    if value is None:
        return
    if isinstance(value.get("model"), str):
        require(model == value["model"], "another model", model, value["model"])
    if isinstance(value.get("stream"), bool):
        require(stream is value["stream"], "another flag", stream)
    wanted = value.get("max_tokens")
    if type(wanted) is int and 0 <= wanted < json_fields.MOST:
        require(tokens == wanted, "another count", tokens, wanted)
    if isinstance(value.get("inner"), dict) and isinstance(value["inner"].get("name"), str):
        require(json_fields.text(inner, "name") == value["inner"]["name"], "another name")


def _outlined(parts: list[bytes]) -> Outline:
    made = Outline()
    for _ in made.look_at(parts):
        pass
    return made


@target("outline", _TOKENS, longest=20_000)
def outline(data: bytes) -> None:
    """An outline is JSON where the body is, has only members of it, and doesn't depend on cuts."""
    (seed, times), text = choices(data, 2)
    if times > 40:  # longer than a slice
        at = len(text) // 2
        text = text[:at] + text[at // 2 : at] * (SLICE // max(1, at) + 2) + text[at:]
    whole, cut = _outlined([text]), _outlined(pieces(text, seed or 1))
    kept = whole.end()
    require(len(kept) <= LONGEST + 2, "a long outline", len(kept))
    require(0 <= size_chars(text) <= len(text), "not a part of the length", size_chars(text))
    value = strictly(text)
    if value is None:
        return
    require(not whole.failed, "gave up", whole.failed)
    found = strictly(kept)
    require(found is not None, "the outline isn't JSON", kept)
    require(strictly(cut.end()) == found, "cuts change the outline", kept, cut.end())
    require((cut.size, cut.failed) == (whole.size, whole.failed), "cuts change what it says", cut, whole)
    if len(text) < LONGEST_STRING:
        require(found == value, "a short body isn't whole", found, value)
    for name, member in (found or {}).items():
        require(name == "..." or _like(member, value.get(name)), "another member", name)


def _like(kept: object, given: object) -> bool:
    """Return whether a value is another one, but for strings that were left out."""
    if kept == "..." and isinstance(given, str):
        return True
    if isinstance(kept, list) and isinstance(given, list):
        return len(kept) == len(given) and all(map(_like, kept, given))
    if isinstance(kept, dict) and isinstance(given, dict):
        return all(name == "..." or (name in given and _like(each, given[name])) for name, each in kept.items())
    return kept == given
