"""One recorded exchange, and what it means: which agent asked for what, and how it ended, by the proxy's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Struct

from hivemind.agent_names import LOOKS_LIKE_A_KEY, BadName, normalised
from hivemind.providers.base import Facts, Limits, StreamForm, Tap, TapState
from hivemind.providers.clients import Client, client_of
from hivemind.providers.errors import classify
from hivemind.providers.limits import read_limits
from hivemind.providers.paths import dialect_for, is_free
from hivemind.providers.profiles import profile_for
from hivemind.providers.taps import end_through, feed_through, form_of
from hivemind.records import replace
from hivemind.redaction.text import mask_values, redact
from hivemind.redaction.values import credentials_in, masked_path
from hivemind.scheduler.types import Failure, FailureKind, Usage
from hivemind.wire.call import sanitized_client, sanitized_facts
from hivemind.wire.identity import (
    PRIORITY_HEADER,
    Claims,
    Identity,
    claimed_name,
    fingerprint,
    identify,
    lane_credential,
)
from hivemind.wire.request_head import RequestPath, RequestRefused, fields, parse_path

Headers = list[tuple[bytes, bytes]]

LARGEST = 1 << 30
"""Bytes of a file, or of one flow in it, that are read."""
_LONGEST_PATH = 200
_REFUSED = (
    *("refused", "unreachable", "connection_failed", "cannot connect", "could not connect", "establish"),
    *("not_resolved", "name or service", "getaddrinfo", "nodename", "certificate", "tls", "ssl"),
)
_TIMED_OUT = ("timed out", "timed_out", "timeout")
_LEFT = ("aborted", "cancel", "client disconnect", "killed")
_WORDS = {
    FailureKind.CONNECT: "the upstream can't be reached",
    FailureKind.TIMEOUT: "no answer came in time",
    FailureKind.DISCONNECTED: "the connection ended before an answer",
    FailureKind.TRUNCATED: "the answer ended before its own end",
}


class UnreadableEntry(ValueError):
    """An entry, or a whole file, that isn't of the form it says; the text says what is wrong."""


class Hints(Struct):
    """What our own export says of an attempt beyond the format."""

    agent: str = ""
    ticket: int | None = None
    attempt: int = 0
    model: str = ""
    stream: bool = False
    size_chars: Annotated[int, msgspec.Meta(ge=0)] = 0
    tier: str = ""
    kind: FailureKind | None = None
    """How it failed."""
    end: str = ""
    """How the request ended; `left`: the client gave it up."""
    reason: str = ""
    """Why the proxy answered it itself."""
    usage: Usage | None = None


class Entry(Struct):
    """A request and what it was answered. Moments are seconds since the epoch."""

    method: str
    origin: str
    """As in `https://api.anthropic.com`: scheme, host and port, and no credential."""
    path: bytes
    """As it was asked for, without its query."""
    query: bytes
    headers: Headers
    """Names in lower case; so are those of the answer."""
    body: bytes
    began_at: float
    sent_at: float
    """After whatever queue the client had."""
    first_at: float | None
    """Of the answer's first byte; None: there was none."""
    ended_at: float
    status: int
    """0: there was no answer."""
    answer_headers: Headers = msgspec.field(default_factory=list)
    answer: bytes = b""
    whole: bool = True
    """False: the recorder didn't keep all of the answer."""
    error: str = ""
    """The recorder's own words on why there is no answer, or not all of it."""
    hints: Hints = msgspec.field(default_factory=Hints)
    timed: bool = True
    """False: when it ended isn't recorded, and `ended_at` is no later than that."""


def lower(headers: list[tuple[bytes, bytes]]) -> Headers:
    """Names in lower case, without HTTP/2's own (`:authority`)."""
    return [(name.lower(), value) for name, value in headers if not name.startswith(b":")]


class ParsedAttempt(Struct, frozen=True):
    """One attempt at a request of a model."""

    entry: Entry
    address: RequestPath
    provider: str
    lane: str
    """As of :func:`~hivemind.wire.identity.lane_credential`; the upstream's name is still to be given."""
    identity: Identity
    client: Client
    facts: Facts
    path: str
    """As it may be shown."""
    request: bytes
    """The same for every attempt at one request."""
    limits: Limits
    failure: Failure | None
    """None: it was answered, or the client left."""
    left: bool
    usage: Usage | None
    content: bool
    """Some of the answer came."""
    unseen: Sequence[str] = ()
    """What no recording of this kind holds, of :data:`~hivemind.journal.records.UNKNOWN`."""


def parse_entry(entry: Entry, claims: Claims) -> ParsedAttempt | None:
    """None: it isn't a request that makes a model generate something. `claims` knows the names of entries before."""
    place = parse_path(entry.path)
    dialect = dialect_for(place.path)
    # Recorders leave long bodies out; the path says what the request is for all the same.
    facts = dialect.facts(place.path, entry.query.decode("latin-1"), entry.headers, entry.body or b"{}")
    if dialect.name == "plain" or entry.method != "POST" or is_free(entry.method, place.raw_path, entry.body):
        return None
    secrets = credentials_in(entry.headers, entry.path + b"?" + entry.query)
    facts = sanitized_facts(_with_hints(facts, entry), secrets)
    client = sanitized_client(client_of(entry.headers), secrets)
    profile = profile_for(entry.origin)
    showable = place.path.isprintable() and len(place.path) <= _LONGEST_PATH
    identity = _identity(entry, place, client, facts, profile.auth_headers, secrets, claims)
    state = _read_answer(entry, dialect.tap(entry.answer_headers, facts))
    left = entry.hints.end == "left" or (not entry.status and _says(entry.error, _LEFT))
    failure = None if left else _failure(entry, facts, state, secrets)
    return ParsedAttempt(
        entry=entry,
        address=place,
        provider=profile.name,
        lane=lane_credential(entry.headers, entry.query, profile),
        identity=identity,
        client=client,
        facts=facts,
        path=masked_path(place.path, "", secrets) if showable else "",
        request=blake2b(place.raw_path + b"\0" + entry.body, digest_size=16).digest(),
        limits=read_limits(entry.answer_headers, entry.first_at or entry.ended_at),
        failure=failure,
        left=left,
        usage=entry.hints.usage or state.usage,
        content=entry.first_at is not None and 200 <= entry.status < 400 and (state.content_started or not failure),
    )


def _with_hints(facts: Facts, entry: Entry) -> Facts:
    """Fill in what is known of a request whose body wasn't recorded."""
    hints = entry.hints
    if entry.body:
        return facts
    streamed = form_of(entry.answer_headers, StreamForm.WHOLE) is StreamForm.SSE
    return replace(
        facts,
        model=facts.model or hints.model,
        stream=facts.stream or hints.stream or streamed,
        size_chars=hints.size_chars,
        tier=facts.tier or hints.tier,
    )


def _identity(
    entry: Entry,
    place: RequestPath,
    client: Client,
    facts: Facts,
    auth_headers: tuple[bytes, ...],
    secrets: tuple[str, ...],
    claims: Claims,
) -> Identity:
    """Return the identity that the proxy would find; a name that it would refuse isn't taken."""
    headers = fields(entry.headers)
    credential = fingerprint(headers, entry.query, auth_headers)
    try:
        named = normalised(entry.hints.agent) if entry.hints.agent else place.agent
        identity = identify(
            claims,
            client,
            facts.session,
            name=claimed_name(headers, named),
            credential=credential,
            priority=headers.get(PRIORITY_HEADER),
        )
        if any(each in identity.agent for each in secrets):
            raise BadName(LOOKS_LIKE_A_KEY)
        return identity
    except (BadName, RequestRefused):
        return Identity(f"key-{credential}", None, False, None, made_up=True)


def _read_answer(entry: Entry, tap: Tap) -> TapState:
    if 200 <= entry.status < 400 and entry.answer:
        feed_through(tap, entry.answer)
        end_through(tap)
    return tap.state


def _failure(entry: Entry, facts: Facts, state: TapState, secrets: tuple[str, ...]) -> Failure | None:
    kind = entry.hints.kind
    if not entry.status:
        return _without_answer(kind or _kind(entry.error))
    failure = state.error
    if entry.status >= 400:
        failure = classify(entry.status, entry.answer_headers, entry.answer, entry.first_at or entry.ended_at)
        failure = failure or Failure(FailureKind.CLIENT_ERROR, False, entry.status)
        failure = replace(failure, kind=kind or failure.kind)
    if failure is not None:
        return replace(failure, message=redact(mask_values(failure.message, secrets)))
    # An answer that the recorder didn't keep, or not all of, says nothing of how it ended.
    cut = facts.stream and bool(entry.answer) and entry.whole and not state.complete
    if cut or entry.error or kind is not None:
        return _without_answer(kind or FailureKind.TRUNCATED)
    return None


def _without_answer(kind: FailureKind) -> Failure:
    return Failure(kind, True, message=_WORDS.get(kind, kind.value.replace("_", " ")))


def _kind(error: str) -> FailureKind:
    """Return the kind of a failure by the recorder's own words."""
    if _says(error, _TIMED_OUT):
        return FailureKind.CONNECT if "connection_timed_out" in error.lower() else FailureKind.TIMEOUT
    return FailureKind.CONNECT if _says(error, _REFUSED) else FailureKind.DISCONNECTED


def _says(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


def grouped(tries: Iterable[ParsedAttempt]) -> list[list[ParsedAttempt]]:
    """Each request's attempts in order, the requests in the order in which they came. That an attempt is another one at
    a request its client says, or our own export does."""
    requests: list[list[ParsedAttempt]] = []
    failed: dict[tuple[object, ...], list[ParsedAttempt]] = {}
    """Requests whose last attempt failed, so that there may be another."""
    for tried in sorted(tries, key=lambda each: each.entry.began_at):
        hints = tried.entry.hints
        key: tuple[object, ...] = (tried.identity.agent, tried.lane, tried.entry.origin, tried.request)
        if hints.ticket is not None:
            key = ("ticket", hints.ticket)
        number = hints.attempt or (tried.client.retry_count or 0) + 1
        before = failed.pop(key, None) if number > 1 else None
        if before is not None and before[-1].entry.ended_at <= tried.entry.began_at + 0.001:
            before.append(tried)
        else:
            before = [tried]
            requests.append(before)
        if tried.failure is not None:
            failed[key] = before
    return requests
