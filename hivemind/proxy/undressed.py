"""A request without its credentials, as it may be written down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hivemind.agents.checkpoints import Checkpoint, as_text
from hivemind.logs import redact
from hivemind.providers.encoding import decode_body

from .call import Call
from .credentials import MASK, SHORTEST, credentials_in, is_secret, less, query_fields

_BLOCK = 1 << 20
"""Bytes that are searched in one go: other threads have to wait for the end of each."""
_FIELD = re.compile(
    rb'"(?:[\w-]*authori[sz]ation(?:[_-]token)?|(?:x-|x-goog-)?api-key)"\s*:\s*"((?:[^"\\]|\\.)+)"', re.IGNORECASE
)
"""A credential that a request lends the provider, for a tool's server: `authorization_token` of Anthropic's
`mcp_servers`, `authorization` and `headers` of OpenAI's `mcp` tools."""
_HINTS = (b"uthori", b"UTHORI", b'pi-key"', b'PI-Key"', b'PI-KEY"', b'pi-Key"')
"""One of these is in each such field, and a few bytes after its first quotation mark."""
_NAME_LENGTH = 64


def path_of(call: Call, own: Iterable[str] = ()) -> str:
    """The path as an agent asks for it, with its query, and no credential; `own` are the proxy's."""
    path, mark, query = call.target.decode("latin-1").partition("?")
    path = path.removeprefix(call.route.origin.base_path)
    fields = [
        field
        for field, name, value in query_fields(query)
        if not is_secret(name) and redact(f"?{name}={value}") == f"?{name}={value}"
    ]
    secrets = [*own, *credentials_in(call.headers, call.target)]
    return less(redact(path) + (mark + "&".join(fields) if mark and any(fields) else ""), secrets)


def as_kept(checkpoint: Checkpoint, call: Call, limit: int, own: Iterable[str] = ()) -> tuple[Checkpoint, bytes | None]:
    """The checkpoint and the conversation that goes with it: the request's body, decoded, and without the credentials
    that the request came with or lends the provider.

    Takes a while for a long one, but never holds the interpreter long; meant for a thread.
    """
    lower = [(name.lower(), value) for name, value in call.headers]
    body = decode_body(lower, call.body, limit)
    if not body:
        why = f"it can't be unpacked, or is larger than checkpoint.max_mb ({limit >> 20}) allows" if call.body else ""
        return replace(checkpoint, left_out=why or "the request had no body"), None
    body, masked = undressed(body, (*own, *credentials_in(call.headers, call.target)))
    if not _looks_like_json(body):
        body = as_text(body)
        checkpoint = replace(checkpoint, encoding="base64")
    return replace(checkpoint, masked=masked, conversation_bytes=len(body)), body


def undressed(body: bytes, secrets: Iterable[str]) -> tuple[bytes, int]:
    """A decoded body without these, and without those that it lends the provider; and how many they were."""
    masked = 0
    # Digits alone may as well be a number of the conversation's, and a mask there would make it unreadable.
    found = {each.encode() for each in secrets if len(each) >= SHORTEST and not each.isdigit()}
    for secret in sorted(found, key=len, reverse=True):
        if any(True for _ in _places(body, secret)):
            masked += 1
            body = body.replace(secret, MASK.encode())
    body, lent = _without_lent(body)
    return body, masked + lent


def _without_lent(body: bytes) -> tuple[bytes, int]:
    """Without those that it lends, and how many they were."""
    spans = set()
    for hint in _HINTS if len(body) > _BLOCK else filter(body.__contains__, _HINTS):
        for place in _places(body, hint):
            start = body.rfind(b'"', max(0, place - _NAME_LENGTH), place)
            match = _FIELD.match(body, start) if start >= 0 else None
            if match:
                spans.add(match.span(1))
    parts, done = [], 0
    for start, end in sorted(spans):
        parts += [body[done:start], MASK.encode()]
        done = end
    return b"".join((*parts, body[done:])) if spans else body, len(spans)


def _places(body: bytes, needle: bytes) -> Iterator[int]:
    """Where it stands, looked for a block at a time."""
    for start in range(0, len(body), _BLOCK):
        end = start + _BLOCK + len(needle) - 1
        place = body.find(needle, start, end)
        while place >= 0:
            yield place
            place = body.find(needle, place + 1, end)


def _looks_like_json(body: bytes) -> bool:
    """A look at its two ends: the dialects whose bodies aren't JSON have forms or sound."""
    ends = body[:64].lstrip()[:1] + body[-64:].rstrip()[-1:]
    return ends in (b"{}", b"[]")
