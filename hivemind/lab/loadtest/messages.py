"""What goes over the wire: the recorded request, or one made up in its place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from hivemind import __version__
from hivemind.journal.records import RequestBody
from hivemind.lab.loadtest.plan import RecordedRequest
from hivemind.lab.loadtest.synthetic import can_synthesize, max_answer_tokens, path_of, synthetic_request
from hivemind.lab.loadtest.target import Target
from hivemind.providers.base import Dialect, Facts
from hivemind.providers.clients import client_of
from hivemind.providers.detect import dialect_for
from hivemind.redaction.names import is_secret, query_fields
from hivemind.redaction.text import MASK
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import record
from hivemind.wire.headers import HOP_BY_HOP, OWN
from hivemind.wire.identity import CREDENTIAL_HEADERS, address

Headers = list[tuple[bytes, bytes]]

_NOT_AGAIN = HOP_BY_HOP | {b"host", b"content-length", b"content-encoding", b"expect"}
"""They are of the connection that was; a recorded body is unpacked."""
_USER_AGENT = b"hivemind-replay/" + __version__.encode()


@record
class OutgoingRequest:
    """A request, ready to be sent."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    dialect: Dialect
    facts: Facts
    real: bool
    """It is what was recorded, not made up."""


class CredentialSource(Protocol):
    """:class:`hivemind.lab.loadtest.credentials.ApiKeys`."""

    def header(self, dialect: str, path: str) -> tuple[bytes, bytes] | None: ...


class Bodies:
    """The recorded requests, looked for in the journal as they are needed, so that few are in memory.

    `wanted` are the tickets that will be asked for.
    """

    def __init__(self, events: Iterable[Event], wanted: Iterable[int]) -> None:
        self._events: Iterator[Event] = iter(events)
        self._wanted = set(wanted)
        self._found: dict[int, RequestBody] = {}

    def take(self, ticket: int) -> RequestBody | None:
        """That of a ticket, once; None: there is none."""
        if ticket not in self._wanted:
            return None
        self._wanted.discard(ticket)
        if ticket in self._found:
            return self._found.pop(ticket)
        for event in self._events:
            if type(event) is RequestBody and not event.left_out:
                if event.ticket == ticket:
                    return event
                if event.ticket in self._wanted:
                    self._found[event.ticket] = event
        return None


class MessageBuilder:
    """Makes messages for one target.

    `agent_header` is the header that tells it which agent asks, empty: none; `hivemind`: it is one, so that priorities
    mean something to it. `as_allowed`: answers may be as long as the recorded requests allowed, rather than as they
    were.
    """

    def __init__(
        self,
        target: Target,
        keys: CredentialSource,
        bodies: Bodies,
        *,
        agent_header: str = "",
        token: str | None = None,
        hivemind: bool = False,
        as_allowed: bool = False,
    ) -> None:
        self._target = target
        self._keys = keys
        self._bodies = bodies
        self._agent_header = agent_header.lower().encode()
        self._token = token
        self.hivemind = hivemind
        self._as_allowed = as_allowed

    def make(self, ask: RecordedRequest) -> OutgoingRequest | None:
        """None: it can't be made up."""
        recorded = self._bodies.take(ask.ticket) if ask.has_body else None
        body = None if recorded is None else _bytes_of(recorded)
        if recorded is None or body is None:
            return self._synthetic(ask)
        path, query = _place_of(recorded)
        return self._message(ask, recorded.method, path, query, _headers_of(recorded), body, real=True)

    def _synthetic(self, ask: RecordedRequest) -> OutgoingRequest | None:
        if self._target.provider != "generic":
            # What its models are called, and which fields it knows, is its own matter.
            ask = replace(ask, provider=self._target.provider, path=path_of(ask))
        made = synthetic_request(ask, max_answer_tokens(ask, as_allowed=self._as_allowed))
        if made is None:
            return None
        headers = [*made.headers, (b"accept-encoding", b"identity"), (b"user-agent", _USER_AGENT)]
        return self._message(ask, "POST", made.path, made.query, headers, made.body, real=False)

    def _message(
        self, ask: RecordedRequest, method: str, path: str, query: str, headers: Headers, body: bytes, *, real: bool
    ) -> OutgoingRequest:
        dialect = dialect_for(path)
        key = self._keys.header(dialect.name, path)
        sent = [*headers, *([] if key is None else [key]), *self._own(ask, headers)]
        facts = dialect.facts(path, query, sent, body)
        target = self._target.path(path) + (f"?{query}" if query else "")
        return OutgoingRequest(method.encode(), target.encode("utf-8"), sent, body, dialect, facts, real)

    def _own(self, ask: RecordedRequest, headers: Headers) -> Headers:
        """Who asks, and how urgent it is."""
        own: Headers = []
        if self._agent_header:
            # A client that names its sub-agents itself does so again.
            name = ask.agent.rpartition("/")[0] if client_of(headers).agent and "/" in ask.agent else ask.agent
            own.append((self._agent_header, name.encode("utf-8", "replace")))
        if self.hivemind and ask.priority is not None:
            own.append((b"x-hivemind-priority", ask.priority.name.lower().encode()))
        if self._token is not None:
            own.append((b"x-hivemind-token", self._token.encode()))
        return own


def can_be_sent(ask: RecordedRequest) -> bool:
    """Whether there is anything to send for it."""
    return ask.has_body or can_synthesize(path_of(ask))


def _bytes_of(recorded: RequestBody) -> bytes | None:
    """None: what is recorded isn't what its encoding says."""
    if recorded.encoding != "base64":
        return recorded.body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(recorded.body, validate=True)
    except (binascii.Error, ValueError):
        return None


def _place_of(recorded: RequestBody) -> tuple[str, str]:
    """Path and query, without our own prefixes and without what was masked."""
    path, _, query = recorded.path.partition("?")
    path = address(path.encode("utf-8", "replace")).raw_path.decode("utf-8", "replace")
    kept = [field for field, name, value in query_fields(query) if not is_secret(name) and MASK not in value]
    return path, "&".join(field for field in kept if field)


def _headers_of(recorded: RequestBody) -> Headers:
    """Those that may be sent again: credentials come anew, and who asks is told anew."""
    kept: Headers = []
    for name, value in recorded.headers:
        lower = name.lower().encode("latin-1", "replace")
        secret = lower in CREDENTIAL_HEADERS or is_secret(name.lower()) or MASK in value
        if not secret and lower not in _NOT_AGAIN and not lower.startswith(OWN):
            kept.append((lower, value.encode("latin-1", "replace")))
    return kept
