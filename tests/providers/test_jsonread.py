"""Reading other people's JSON."""

from __future__ import annotations

import pytest
from msgspec import Raw

from hivemind.providers import json_fields

PAIR = json_fields.Shape("a b")


def test_a_field_of_another_type_costs_itself_alone() -> None:
    """What one field holds never hides its neighbour."""
    pair = PAIR.read(b'{"a": {"deep": [1]}, "b": "text", "unknown": null}')
    assert list(pair) == ["a", "b"]
    assert (json_fields.text(pair, "a"), json_fields.text(pair, "b")) == ("", "text")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'"x"', b'{"a": ' + b"[" * 100_000, b"{} x"])
def test_unreadable_is_empty(data: bytes) -> None:
    """Other shapes, broken, endless or binary input: no members, never an exception."""
    assert PAIR.read(data) == {}


def test_text_that_is_no_unicode() -> None:
    """A string of invalid bytes is no text."""
    assert json_fields.text({"a": Raw(b'"\xff\xfe"')}, "a") == ""


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (b"12", 12),
        (b"12.9", 12),
        (b'"12"', 12),
        (b"-1", None),
        (b"null", None),
        (b"1e300", None),
        (b'"nan"', None),
        (b"true", None),
        (b"", None),
    ],
)
def test_counts(raw: bytes, count: int | None) -> None:
    """Whole numbers from 0, in whatever way they are written."""
    assert json_fields.count({"a": Raw(raw)}, "a") == count


@pytest.mark.parametrize(
    ("raw", "flag"), [(b"true", True), (b"false", False), (b'"true"', None), (b"1", None), (b"", None)]
)
def test_flags(raw: bytes, flag: bool | None) -> None:
    """Only true booleans count."""
    assert json_fields.flag({"a": Raw(raw)}, "a") is flag


@pytest.mark.parametrize(
    ("raw", "filled", "length"),
    [
        (b"", False, 0),
        (b"null", False, 0),
        (b'""', False, 0),
        (b"[]", False, 0),
        (b"{}", False, 0),
        (b'"abc"', True, 3),
    ],
)
def test_filled_and_length(raw: bytes, filled: bool, length: int) -> None:
    """Absent, null and empty are the same; a string's length is without its quotes."""
    assert json_fields.filled({"a": Raw(raw)}, "a") is filled
    assert json_fields.length({"a": Raw(raw)}, "a") == length
