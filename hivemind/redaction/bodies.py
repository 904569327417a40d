"""Bodies without credentials, as they may be written down: a request's own, those it lends, and those known by form.

Takes a while for a long body, but never holds the interpreter long; meant for a thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator

from hivemind.redaction.forms import bytes_finder
from hivemind.redaction.text import MASK
from hivemind.redaction.values import SHORTEST

_WINDOW = 16 << 10
"""Bytes that are searched for keys in one go, some milliseconds' work at worst: other threads have to wait for the end
of each."""
_OVERLAP = 256
"""More than it takes to know a key as one; the longest key goes on beyond it."""
_REST_EVERY = 64 << 10
_REST_S = 0.0002
"""Pause after so many bytes, so that other threads have their turn."""
_BLOCK = 1 << 20
"""Bytes that are searched for one string in one go."""
_LENT = re.compile(
    rb'"(?:[\w-]{0,64}authori[sz]ation(?:[_-]token)?|(?:x-|x-goog-)?api-key)"\s*+:\s*+"((?:[^"\\]++|\\.){1,65536}+)"',
    re.IGNORECASE,
)
"""A credential that a request lends the provider, for a tool's server: `authorization_token` of Anthropic's
`mcp_servers`, `authorization` and `headers` of OpenAI's `mcp` tools."""
_LENT_HINTS = (b"uthori", b"UTHORI", b'pi-key"', b'PI-Key"', b'PI-KEY"', b'pi-Key"')
"""One of these is in each such field, and a few bytes after its first quotation mark."""
_NAME_LENGTH = 64
_BEARER = re.compile(rb"(?:\b|(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4}))bearer\s{1,8}+([\w.~+/=-]{8,65536}+)", re.IGNORECASE)


def redact_body(body: bytes, secrets: Iterable[str]) -> tuple[bytes, int]:
    """A decoded body, JSON or not, with each credential in it replaced by asterisks, and how many there were.

    `secrets` are those of the request itself. What was JSON still is: no mask takes a quotation mark with it.
    """
    masked = 0
    # Digits alone may as well be a number of the conversation's, and a mask there would make it unreadable.
    found = {each.encode() for each in secrets if len(each) >= SHORTEST and not each.isdigit()}
    for secret in sorted(found, key=len, reverse=True):
        if any(True for _ in _places(body, secret)):
            masked += 1
            body = body.replace(secret, MASK.encode())
    body, lent = _masked(body, sorted(_lent(body)))
    body, known = _masked(body, _keys(body))
    return body, masked + lent + known


def _masked(body: bytes, spans: Iterable[tuple[int, int]]) -> tuple[bytes, int]:
    """The body without these, which may overlap, and how many they are."""
    parts: list[bytes] = []
    done = count = 0
    for start, end in spans:
        if start >= done:
            parts += [body[done:start], MASK.encode()]
            count += 1
        done = max(done, end)
    return (b"".join((*parts, body[done:])), count) if count else (body, 0)


def _keys(body: bytes) -> Iterator[tuple[int, int]]:
    """Where keys stand that are known by their form."""
    finder, done = bytes_finder(), 0
    for start in range(0, len(body), _WINDOW):
        if start and start % _REST_EVERY == 0:
            time.sleep(_REST_S)
        within, beyond = start + _WINDOW, min(len(body), start + _WINDOW + _OVERLAP)
        found: list[tuple[int, int]] = []
        at = max(start, done)
        while (match := finder.pattern.search(body, at, beyond)) and match.start() < within:
            # Searched for within the window, read to its end wherever that is.
            whole = finder.pattern.match(body, match.start()) or match
            found.append(finder.span(whole))
            at = whole.end()
        piece = body[max(start, done) : beyond]
        if b"bearer" in piece.lower():
            at = max(start, done)
            while (match := _BEARER.search(body, at, beyond)) and match.start() < within:
                whole = _BEARER.match(body, match.start()) or match
                found.append(whole.span(1))
                at = whole.end()
        found.sort()
        yield from found
        done = max((done, *(end for _, end in found)))


def _lent(body: bytes) -> set[tuple[int, int]]:
    """Where credentials stand that the request lends."""
    spans = set()
    for hint in _LENT_HINTS if len(body) > _BLOCK else filter(body.__contains__, _LENT_HINTS):
        for place in _places(body, hint):
            start = body.rfind(b'"', max(0, place - _NAME_LENGTH), place)
            match = _LENT.match(body, start) if start >= 0 else None
            if match:
                spans.add(match.span(1))
    return spans


def _places(body: bytes, needle: bytes) -> Iterator[int]:
    """Where it stands, looked for a block at a time."""
    for start in range(0, len(body), _BLOCK):
        end = start + _BLOCK + len(needle) - 1
        place = body.find(needle, start, end)
        while place >= 0:
            yield place
            place = body.find(needle, place + 1, end)
