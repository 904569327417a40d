"""The HTTP requests of a load test: recorded ones, or synthetic ones in their place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from hivemind import __version__
from hivemind.journal.records import RequestBody
from hivemind.lab.loadtest.requests import RecordedRequest
from hivemind.lab.loadtest.synthetic import api_of, max_answer_tokens, path_of, synthetic_request
from hivemind.lab.loadtest.target import Target
from hivemind.providers.base import Facts
from hivemind.providers.clients import client_of
from hivemind.providers.detect import dialect_for
from hivemind.providers.dialect import Dialect
from hivemind.redaction.names import is_secret, query_fields
from hivemind.redaction.text import MASK
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import record
from hivemind.wire.headers import HOP_BY_HOP, OWN
from hivemind.wire.identity import CREDENTIAL_HEADERS
from hivemind.wire.target import parse_path

Headers = list[tuple[bytes, bytes]]

_NOT_REPEATED = HOP_BY_HOP | {b"host", b"content-length", b"content-encoding", b"expect"}
"""Headers of the recorded connection, and of an encoding that recorded bodies no longer have."""
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
    """It is the recorded request, not a synthetic one."""


class CredentialSource(Protocol):
    """:class:`hivemind.lab.loadtest.credentials.ApiKeys`."""

    def header(self, dialect: str, path: str) -> tuple[bytes, bytes] | None: ...


class Bodies:
    """The recorded bodies of the tickets in `wanted`, read from the journal when needed, so that few are in memory."""

    def __init__(self, events: Iterable[Event], wanted: Iterable[int]) -> None:
        self._events: Iterator[Event] = iter(events)
        self._wanted = set(wanted)
        self._found: dict[int, RequestBody] = {}

    def take(self, ticket: int) -> RequestBody | None:
        """Return the body of a ticket, at most once; None: there is none."""
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
    """Builds the requests for one target.

    `agent_header` is the header with the agent's name, empty for none; `hivemind`: the target is one, so it gets
    priorities too. `as_allowed`: synthetic requests allow answers as long as the recorded requests did, rather than as
    long as they were.
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

    def build(self, request: RecordedRequest) -> OutgoingRequest | None:
        """Return the HTTP request; None: it can't be synthesized."""
        recorded = self._bodies.take(request.ticket) if request.has_body else None
        body = None if recorded is None else _bytes_of(recorded)
        if recorded is None or body is None:
            return self._synthetic(request)
        path, query = _place_of(recorded)
        return self._message(request, recorded.method, path, query, _headers_of(recorded), body, real=True)

    def _synthetic(self, request: RecordedRequest) -> OutgoingRequest | None:
        if self._target.provider != "generic":
            # The target's API decides the path and the fields.
            request = replace(request, provider=self._target.provider, path=path_of(request))
        made = synthetic_request(request, max_answer_tokens(request, as_allowed=self._as_allowed))
        if made is None:
            return None
        headers = [*made.headers, (b"accept-encoding", b"identity"), (b"user-agent", _USER_AGENT)]
        return self._message(request, "POST", made.path, made.query, headers, made.body, real=False)

    def _message(
        self, request: RecordedRequest, method: str, path: str, query: str, headers: Headers, body: bytes, *, real: bool
    ) -> OutgoingRequest:
        dialect = dialect_for(path)
        key = self._keys.header(dialect.name, path)
        sent = [*headers, *([] if key is None else [key]), *self._own(request, headers)]
        facts = dialect.facts(path, query, sent, body)
        target = self._target.path(path) + (f"?{query}" if query else "")
        return OutgoingRequest(method.encode(), target.encode("utf-8"), sent, body, dialect, facts, real)

    def _own(self, request: RecordedRequest, headers: Headers) -> Headers:
        """Return the headers with agent, priority and token."""
        own: Headers = []
        if self._agent_header:
            # A client that names its sub-agents itself does so again.
            parent = request.agent.rpartition("/")[0]
            name = parent if parent and client_of(headers).agent else request.agent
            own.append((self._agent_header, name.encode("utf-8", "replace")))
        if self.hivemind and request.priority is not None:
            own.append((b"x-hivemind-priority", request.priority.name.lower().encode()))
        if self._token is not None:
            own.append((b"x-hivemind-token", self._token.encode()))
        return own


def can_be_sent(request: RecordedRequest) -> bool:
    """Return whether a request can be sent, recorded or synthetic."""
    return request.has_body or api_of(path_of(request)) is not None


def _bytes_of(recorded: RequestBody) -> bytes | None:
    """Return the body; None: it isn't valid in its encoding."""
    if recorded.encoding != "base64":
        return recorded.body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(recorded.body, validate=True)
    except (binascii.Error, ValueError):
        return None


def _place_of(recorded: RequestBody) -> tuple[str, str]:
    """Return path and query without our own prefixes and without masked values."""
    path, _, query = recorded.path.partition("?")
    path = parse_path(path.encode("utf-8", "replace")).raw_path.decode("utf-8", "replace")
    kept = [field for field, name, value in query_fields(query) if not is_secret(name) and MASK not in value]
    return path, "&".join(field for field in kept if field)


def _headers_of(recorded: RequestBody) -> Headers:
    """Return the headers to send again, without credentials and without our own."""
    kept: Headers = []
    for name, value in recorded.headers:
        lower = name.lower().encode("latin-1", "replace")
        secret = lower in CREDENTIAL_HEADERS or is_secret(name.lower()) or MASK in value
        if not secret and lower not in _NOT_REPEATED and not lower.startswith(OWN):
            kept.append((lower, value.encode("latin-1", "replace")))
    return kept
