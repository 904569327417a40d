"""Bodies without credentials, fit to be stored: a request's own, those it lends, and those recognised by their form.

Takes a while for a long body, but never holds the interpreter long; meant for a thread.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator

from hivemind.redaction.forms import bytes_finder
from hivemind.redaction.text import MASK
from hivemind.redaction.values import SCHEME, SHORTEST, longest_first

_WINDOW = 16 << 10
"""Bytes that are searched for keys at once, some milliseconds' work at worst, in which other threads can't run."""
_OVERLAP = 256
"""More than it takes to recognise a key; the longest key extends beyond it."""
_REST_EVERY = 64 << 10
_REST_S = 0.0002
"""Pause after so many bytes, so that other threads run."""
_BLOCK = 1 << 20
"""Bytes that are searched for one string at once."""
_LENT = re.compile(
    rb'"(?:[\w-]{0,64}authori[sz]ation(?:[_-]token)?|(?:x-|x-goog-)?api-key)"\s*+:\s*+"((?:[^"\\]++|\\.){1,65536}+)"',
    re.IGNORECASE,
)
"""A credential that a request lends the provider, for a tool's server: `authorization_token` of Anthropic's
`mcp_servers`, `authorization` and `headers` of OpenAI's `mcp` tools."""
_LENT_HINTS = (b"uthori", b"UTHORI", b'pi-key"', b'PI-Key"', b'PI-KEY"', b'pi-Key"')
"""Each such field contains one of these, a few bytes after its first quotation mark."""
_NAME_LENGTH = 64
_BEARER = re.compile(rb"(?:\b|(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4}))bearer\s{1,8}+([\w.~+/=-]{8,65536}+)", re.IGNORECASE)


def redact_body(body: bytes, secrets: Iterable[str]) -> tuple[bytes, int]:
    """Return a decoded body, JSON or not, with each credential masked, and their number.

    `secrets` are those of the request itself. JSON stays JSON: no mask replaces a quotation mark.
    """
    spans = sorted(_lent(body))
    lent_values = lent_in(body, spans)
    body, masked = _mask_spans(body, spans)
    # Digits alone may also be a number in the conversation, which a mask would make invalid JSON.
    found = {each.encode() for each in (*secrets, *lent_values) if len(each) >= SHORTEST and not each.isdigit()}
    for secret in sorted(found, key=len, reverse=True):
        if any(True for _ in _places(body, secret)):
            masked += 1
            body = body.replace(secret, MASK.encode())
    body, known = _mask_spans(body, _keys(body))
    return body, masked + known


def _mask_spans(body: bytes, spans: Iterable[tuple[int, int]]) -> tuple[bytes, int]:
    """Return the body with these spans masked, which may overlap, and their number."""
    parts: list[bytes] = []
    done = count = 0
    for start, end in spans:
        if start >= done:
            parts += [body[done:start], MASK.encode()]
            count += 1
        done = max(done, end)
    return (b"".join((*parts, body[done:])), count) if count else (body, 0)


def _keys(body: bytes) -> Iterator[tuple[int, int]]:
    """Return the spans of keys that are recognised by their form."""
    finder, done = bytes_finder(), 0
    for start in range(0, len(body), _WINDOW):
        if start and start % _REST_EVERY == 0:
            time.sleep(_REST_S)
        at, within = max(start, done), start + _WINDOW
        beyond = min(len(body), within + _OVERLAP)
        found = [finder.span(match) for match in _matches(finder.pattern, body, at, within, beyond)]
        if b"bearer" in body[at:beyond].lower():
            found += [match.span(1) for match in _matches(_BEARER, body, at, within, beyond)]
        found.sort()
        yield from found
        done = max((done, *(end for _, end in found)))


def _matches(pattern: re.Pattern[bytes], body: bytes, at: int, within: int, beyond: int) -> Iterator[re.Match[bytes]]:
    """Yield the matches that begin before `within`, each complete, wherever it ends."""
    while (match := pattern.search(body, at, beyond)) and match.start() < within:
        whole = pattern.match(body, match.start()) or match
        yield whole
        at = whole.end()


def lent_in(body: bytes, spans: Iterable[tuple[int, int]] | None = None) -> tuple[str, ...]:
    """Return the credentials that a request with this body lends the provider, which answers may repeat; `spans`: where
    they stand, if that is known."""
    found = _lent(body) if spans is None else spans
    values = (SCHEME.sub("", body[start:end].decode("utf-8", "replace"), count=1) for start, end in found)
    return longest_first(values)


def _lent(body: bytes) -> set[tuple[int, int]]:
    """Return the spans of credentials that the request lends the provider."""
    spans = set()
    for hint in _LENT_HINTS if len(body) > _BLOCK else filter(body.__contains__, _LENT_HINTS):
        for place in _places(body, hint):
            start = body.rfind(b'"', max(0, place - _NAME_LENGTH), place)
            match = _LENT.match(body, start) if start >= 0 else None
            if match:
                spans.add(match.span(1))
    return spans


def _places(body: bytes, needle: bytes) -> Iterator[int]:
    """Return the places of a string, searched for a block at a time."""
    for start in range(0, len(body), _BLOCK):
        end = start + _BLOCK + len(needle) - 1
        place = body.find(needle, start, end)
        while place >= 0:
            yield place
            place = body.find(needle, place + 1, end)
