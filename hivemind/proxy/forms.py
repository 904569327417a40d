"""Keys and tokens in a text that nobody announced: known by their form alone."""

from __future__ import annotations

import re
import time

from .credentials import MASK

_WINDOW = 64 << 10
"""Bytes that are searched in one go, a millisecond's work: other threads have to wait for the end of each."""
_OVERLAP = 256
"""More than it takes to know a key as one; the longest key goes on beyond it."""
_REST_S = 0.0002
"""Between two of them, so that whoever waits has its turn."""
_KEYS = re.compile(
    rb"()\b(?:sk-[\w-]{8,}|AIza[\w-]{16,}|(?:gsk_|hf_|r8_|xai-|pplx-|gh[a-z]_|glpat-)[A-Za-z0-9]{20,}"
    rb"|github_pat_\w{20,}|nvapi-[\w-]{20,}|ya29\.[\w-]{20,}|eyJ[\w-]{8,4096}\.[\w-]{8,}(?:\.[\w-]*)*)"
    rb"|(\b(?i:bearer)\s{1,8})[\w.~+/=-]{8,}"
    rb"|(://)[^\s/@'\"\\]{1,256}(?=@)"
)
"""What :func:`hivemind.logs.redact` knows by its form, but for headers' names: in a JSON text it takes no quotation
mark and no backslash with it, so that the text can still be read."""

_HINTS = (b"sk-", b"AIza", b"xai-", b"pplx-", b"glpat-", b"nvapi-", b"ya29.", b"eyJ", b"://")
_UNDERSCORED = re.compile(rb"_(?:(?<=gsk_)|(?<=hf_)|(?<=r8_)|(?<=gh[a-z]_)|(?<=pat_))\w{20}")
"""One of these, or `bearer`, is in each. They are looked for at many times the speed of the pattern, and in most texts
there is none."""


def without_keys(body: bytes) -> bytes:
    """The body with whatever looks like a key masked. Takes a while for a long one; meant for a thread."""
    parts, done = [], 0
    for start in range(0, len(body), _WINDOW):
        if start:
            time.sleep(_REST_S)
        if not _may_hold_any(body[start : start + _WINDOW + _OVERLAP]):
            continue
        at = max(start, done)
        while found := _KEYS.search(body, at, min(len(body), start + _WINDOW + _OVERLAP)):
            if found.start() >= start + _WINDOW:
                break
            whole = _KEYS.match(body, found.start()) or found
            kept = whole[1] or whole[2] or whole[3] or b""
            parts += [body[done : whole.start()], kept, MASK.encode()]
            done = at = whole.end()
    return b"".join((*parts, body[done:])) if parts else body


def _may_hold_any(piece: bytes) -> bool:
    if any(map(piece.__contains__, _HINTS)) or b"bearer" in piece.lower():
        return True
    return _UNDERSCORED.search(piece) is not None
