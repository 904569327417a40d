"""Splitters of streams: any cuts give the same records, and these are what a plain reading finds."""

from __future__ import annotations

import json
from collections.abc import Callable

from fuzz.kit import choices, pieces, require, target

from hivemind.providers.sse import ArraySplitter, LineSplitter, Splitter, SseSplitter, fields


def _records(splitter: Splitter, parts: list[bytes]) -> list[bytes]:
    found = [record for part in parts for record in splitter.feed(part)]
    return found + splitter.end()


def _same(make: Callable[[], Splitter], data: bytes, seed: int) -> list[bytes]:
    whole = _records(make(), [data])
    cut = _records(make(), pieces(data, seed or 1))
    require(whole == cut, "cuts change the records", whole, cut)
    return whole


def plain_events(data: bytes) -> list[bytes]:
    """Return the blocks of an event stream, by the words of the standard."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    blocks, block = list[bytes](), list[bytes]()
    for line in [*text.split(b"\n"), b""]:
        if line:
            block.append(line)
        elif block:
            blocks.append(b"\n".join(block))
            block = []
    return blocks


@target("sse", [b"data: ", b"event: ", b"\n\n", b"\r\n", b"\r", b": ping\n\n", b"\xef\xbb\xbf", b"data:\n", b"[DONE]"])
def sse(data: bytes) -> None:
    """Blocks are those of the standard; of the comments between them some may be missing."""
    (seed,), text = choices(data, 1)
    found = _same(SseSplitter, text, seed)
    require(found == plain_events(text), "not the standard's events", found, plain_events(text))
    for block in found:
        name, value = fields(block)
        require(len(name) + len(value) <= len(block), "more than the block holds", block)


@target("ndjson", [b'{"a":1}', b"\n", b"\r\n", b"\n\n", b'"\\n"'])
def ndjson(data: bytes) -> None:
    """Records are the lines that aren't blank."""
    (seed,), text = choices(data, 1)
    found = _same(LineSplitter, text, seed)
    require(found == [line.strip() for line in text.split(b"\n") if line.strip()], "not the lines", found)


@target("json_array", [b"[{", b"},{", b"}]", b'"}"', b'\\"', b'"\\\\"', b'{"a":{"b":[]}}', b"\\u007d"])
def json_array(data: bytes) -> None:
    """Records are the array's objects."""
    (seed,), text = choices(data, 1)
    found = _same(ArraySplitter, text, seed)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    items = [value] if isinstance(value, dict) else value
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        require([json.loads(record) for record in found] == items, "not the objects", found)
