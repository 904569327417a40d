"""Reading a request's body: all of it where it's short, its outline where it's long."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import chain

from hivemind.providers.base import Dialect, Facts, Headers
from hivemind.providers.encoding import Decoder, decoder_for
from hivemind.providers.outline import Outline
from hivemind.providers.prompt import LONGEST, is_object

SHORT = LONGEST
"""Bytes of a body, decoded, that a dialect reads in one go, which takes 10 ms at worst."""
_STEP_PIECES = 4
"""Decoded pieces of one step."""


def facts_in_steps(
    dialect: Dialect, path: str, query: str, headers: Headers, body: bytes
) -> Generator[None, None, Facts]:
    """What :meth:`Dialect.facts` says of a body that is long or encoded, read in little memory and in steps: give way
    at each. What can't be read is left out, and :attr:`Facts.unread` says why; the size is then estimated."""
    if dialect.is_opaque(headers):
        return dialect.facts(path, query, headers, body)
    decoder = decoder_for(headers)
    if decoder is None and not is_object(body):
        return dialect.facts(path, query, headers, body)  # a form or a file, which says nothing but its length
    others = [pair for pair in headers if pair[0] != b"content-encoding"]
    pieces = iter((body,)) if decoder is None else decoder.steps(body)
    short = yield from _short(pieces)
    if decoder is not None and decoder.failed and isinstance(short, bytes):
        return _unread(dialect.facts(path, query, others, b"{}"), decoder, None, body)
    if isinstance(short, bytes):
        return dialect.facts(path, query, others, short or b"{}")
    outline = Outline()
    yield from outline.look_at(chain(short, pieces))
    facts = dialect.facts(path, query, others, outline.end())
    if outline.failed or (decoder is not None and decoder.failed):
        return _unread(facts, decoder, outline, body)
    return replace(facts, size_chars=outline.size - outline.payload)


def _short(pieces: Iterator[bytes]) -> Generator[None, None, bytes | list[bytes]]:
    """The whole of a short body, or the first pieces of a long one."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > SHORT:
            return parts
        if len(parts) % _STEP_PIECES == 0:
            yield
    return b"".join(parts)


def _unread(facts: Facts, decoder: Decoder | None, outline: Outline | None, body: bytes) -> Facts:
    why = decoder.failed if decoder is not None else ""
    seen = 0
    if outline is not None:
        seen = outline.size
        why = why or (outline.failed if outline.is_json else "")
    return replace(facts, size_chars=max(seen, len(body)), unread=why)
