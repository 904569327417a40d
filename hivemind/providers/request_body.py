"""Reading a request's body: completely if it is short, as an outline if it is long."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import chain

from hivemind.providers.base import Facts, Headers
from hivemind.providers.dialect import Dialect
from hivemind.providers.encoding import decoder_for
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
    decoder = decoder_for(headers)
    if dialect.is_opaque(headers) or (decoder is None and not is_object(body)):
        return dialect.facts(path, query, headers, body)  # a form or a file, of which only the length is known
    pieces = iter((body,)) if decoder is None else decoder.steps(body)
    short = yield from _short(pieces)
    if isinstance(short, bytes):
        if decoder is None or not decoder.failed:
            return dialect.request_facts(path, query, short or b"{}")
        return replace(dialect.request_facts(path, query, b"{}"), size_chars=len(body), unread=decoder.failed)
    outline = Outline()
    yield from outline.look_at(chain(short, pieces))
    facts = dialect.request_facts(path, query, outline.end())
    undecoded = decoder.failed if decoder is not None else ""
    if undecoded or outline.failed:
        why = undecoded or (outline.failed if outline.is_json else "")
        return replace(facts, size_chars=max(outline.size, len(body)), unread=why)
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
