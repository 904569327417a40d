"""Lines of a journal that hold long bodies."""

from __future__ import annotations

import msgspec
import pytest

from hivemind.journal import codec as journal_format
from hivemind.journal.codec import line_of
from hivemind.journal.records import VERSION, RequestBody, ResponseBody

TEXT = 'Grüße, "世界" \\ \n \U0001f600 "body":"" ' * 20_000
HEADERS = (("x", '"body":""'),)
EVENTS = [
    RequestBody(1.0, 1, "POST", '/x?"body":""', HEADERS, TEXT),
    RequestBody(1.0, 1, "POST", "/x", (), "QUJD" * 200_000, "base64"),
    ResponseBody(1.0, 1, 2, 200, HEADERS, TEXT, "", "why not"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_a_long_body_is_encoded_in_pieces(event: RequestBody | ResponseBody, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is the one that encoding it in one go gives, and no piece of it holds the interpreter for long."""
    whole = msgspec.json.decode(msgspec.json.encode(event))
    encode = msgspec.json.Encoder().encode
    sizes = []

    def counting(value: object) -> bytes:
        data = encode(value)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(journal_format, "_encode", counting)
    line = msgspec.json.decode(line_of(event))
    assert (line.pop("v"), line.pop("event")) == (VERSION, type(event).__name__)
    assert line == whole
    assert len(sizes) > 2
    assert max(sizes) <= 4 * journal_format._PIECE
