"""Reading a request's body: completely if it is short, as an outline if it is long."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import chain

from hivemind.providers.base import Facts, Headers
from hivemind.providers.dialect import Dialect
from hivemind.providers.encoding import Decoder, decoder_for
from hivemind.providers.outline import Outline
from hivemind.providers.prompt import LONGEST, is_object

SHORT = LONGEST
"""Largest decoded body in bytes that a dialect parses in one step, which takes 10 ms at worst."""
_STEP_PIECES = 4
"""Decoded pieces per step."""


def facts_in_steps(
    dialect: Dialect, path: str, query: str, headers: Headers, body: bytes
) -> Generator[None, None, Facts]:
    """Return :meth:`Dialect.facts` of a long or encoded body, in bounded memory and in steps; other work can run
    between them. Parts that can't be read are omitted, :attr:`Facts.unread` says why, and the size is an estimate."""
    if dialect.is_opaque(headers):
        return dialect.facts(path, query, headers, body)
    decoder = decoder_for(headers)
    if decoder is None and not is_object(body):
        return dialect.facts(path, query, headers, body)  # a form or a file, of which only the length is known
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
    """Return a short body, or the first pieces of a long one."""
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
