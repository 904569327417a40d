"""A request as the proxy understood it, ready to be sent, and what of it may be stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from hashlib import sha256

from msgspec import Struct, field

from hivemind.providers.base import Facts
from hivemind.providers.clients import Client
from hivemind.providers.dialect import Dialect
from hivemind.providers.encoding import decode_body
from hivemind.providers.openai import asking_usage
from hivemind.providers.paths import is_answered
from hivemind.providers.profiles import family
from hivemind.records import replace
from hivemind.redaction.bodies import lent_in, redact_body
from hivemind.redaction.text import identifier, label, mask_any_length, mask_values
from hivemind.redaction.values import is_secret, longest_first, masked_path, query_fields
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Failure, FailureKind, Request
from hivemind.settings import Origin
from hivemind.store.checkpoints import Checkpoint, as_text
from hivemind.text.deadlines import moment_of
from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    EncodedHead,
    NotTrusted,
    Upstream,
    UpstreamError,
    UpstreamRequest,
    UpstreamTimeout,
)
from hivemind.wire.fleet_lanes import place_of
from hivemind.wire.identity import Identity
from hivemind.wire.links import Links
from hivemind.wire.request_head import Headers, without

_MOST_SEARCHED = 1 << 20
"""Bytes of a request's body in which credentials that it lends are looked for at once."""
_LONGEST_NAME = 256
_LONGEST_PATH = 200
"""Characters of the longest path of any known API."""


class Route(Struct, eq=False):
    """An open upstream and its lane. Its profile may turn out to be another one than its URL made it look."""

    origin: Origin
    upstream: Upstream
    lane: LaneConfig
    secrets: tuple[str, ...] = ()
    """Credentials for the outbound proxy, which may repeat them in its errors."""
    on_head: Callable[[int, Headers], object] | None = None
    """Called with status and headers of each reply as long as it isn't known what answers there."""
    answered: set[tuple[str, str]] = field(default_factory=set)
    """Dialects and models of which it has given an answer."""


class Recognition(Struct):
    """Who sent a request, and how its model and session are called where they are shown; kept for equal requests."""

    key: object = None
    """What that follows from."""
    identity: Identity | None = None
    model: str = ""
    session: str = ""


class CallHead(Struct, frozen=True):
    """What the head of a request says, whatever its body holds. Clients repeat their heads, so it is read once."""

    method: bytes
    target: bytes
    headers: Headers
    """Those to send upstream."""
    about_body: Headers
    """Those that came which describe the body."""
    path: str
    """As :class:`.request_head.RequestPath` has it, of which :attr:`shown_path` is as much as may be shown."""
    query: str
    route: Route
    dialect: Dialect
    client: Client
    lane: str
    """Key of the lane: upstream and credential."""
    name: str = ""
    """The agent's name that is claimed."""
    credential: str = ""
    """Fingerprint of the credential."""
    priority: bytes | None = None
    """The priority asked for, as it came."""
    deadline: str = ""
    """By when its turn has to come, as its header states it; empty: it has no deadline."""
    holds: bool | None = None
    """Whether its answer is to be held until it is whole; None: as the agent's settings say."""
    secrets: tuple[str, ...] = ()
    """The credentials that the request came with, the longest first: masked in whatever is shown or written of it."""
    reads_short: bool = False
    """A short body is read at once: it isn't compressed, and the name needs no tables of Unicode's."""
    free: bool = False
    """It costs nothing, unless it has a body that its method should not have."""
    shown_path: str = ""
    links: Links = field(default_factory=Links)
    """What links in answers become."""
    encoded_head: EncodedHead = field(default_factory=EncodedHead)
    """The head as it goes upstream."""
    last: Recognition = field(default_factory=Recognition)
    """The newest request with this head."""


class Call(Struct, frozen=True):
    """A request for an upstream, and what is known about it."""

    head: CallHead
    body: bytes
    facts: Facts
    identity: Identity
    asks_usage: bool = False
    """Its stream is asked for its usage, which the client doesn't get."""

    @property
    def holds(self) -> bool:
        """Whether its answer, if it is a stream, is held until it is whole."""
        return self.identity.holds if self.head.holds is None else self.head.holds

    @property
    def free(self) -> bool:
        """Whether it costs nothing, so that it is relayed without a ticket, even where its agent's budget is used
        up."""
        head, body = self.head, self.body
        return head.free and not (body and (head.method not in (b"POST", b"PATCH") or is_answered(head.path, body)))

    def work_name(self, name: str) -> str:
        """Return under which name work of this id is remembered, by every proxy of a fleet: each upstream has its own
        ids."""
        if len(name) > _LONGEST_NAME:
            name = sha256(name.encode()).hexdigest()
        return f"{place_of(self.head.route.origin.url)} {name}"

    def outgoing(self, committed: bool, silent_s: float) -> UpstreamRequest:
        """Return the request to send, to which nothing may come for `silent_s`; a response that was begun without an
        encoding can only continue without one, and of one that is encoded nothing can be taken out."""
        head, body = self.head, self.body
        headers, encoded = head.headers, head.encoded_head
        if self.asks_usage:
            body = asking_usage(body)
        if committed or self.asks_usage:
            headers = [*without(headers, b"accept-encoding"), (b"accept-encoding", b"identity")]
            encoded = EncodedHead()
        again = not self.facts.continues_state
        return UpstreamRequest(head.method, head.target, headers, body, again, encoded, silent_s)

    @property
    def computed_on(self) -> bool:
        """Whether its upstream computes the answer to the last token though nobody waits for it."""
        stops = self.head.route.origin.profile.stops
        return stops == "never" or (stops == "streams" and not self.facts.stream)

    def failure_of(self, error: UpstreamError) -> Failure:
        """Return what an attempt that ended without a whole response counts as.

        A request that continues state on the server is retried only if it surely never arrived.
        """
        kind = FailureKind.TRUNCATED
        if isinstance(error, ConnectFailed):
            kind = FailureKind.CONNECT
        elif isinstance(error, Disconnected):
            kind = FailureKind.DISCONNECTED
        elif isinstance(error, UpstreamTimeout):
            kind = FailureKind.TIMEOUT
        retryable = kind is FailureKind.CONNECT or not self.facts.continues_state
        if isinstance(error, NotTrusted):
            retryable = False
        return Failure(kind, retryable, message=str(error))

    def without_credentials(self, failure: Failure) -> Failure:
        """Return the failure as it may be shown: its message is the upstream's, which may quote what it was sent."""
        if not failure.message:
            return failure
        head, body = self.head, self.body
        if len(body) > _MOST_SEARCHED:  # what lends a credential is beside the conversation, which is in the middle
            body = body[: _MOST_SEARCHED // 2] + b"\n" + body[-_MOST_SEARCHED // 2 :]
        message = mask_values(failure.message, longest_first((*head.secrets, *lent_in(body))))
        return replace(failure, message=mask_any_length(message, head.route.secrets))


def sanitized_facts(facts: Facts, secrets: tuple[str, ...]) -> Facts:
    """Return the facts with names that may be shown and stored: bounded, printable, without these secrets or keys of
    known forms. The request itself goes upstream unchanged."""
    model, session = label(facts.model, secrets), identifier(facts.session, secrets)
    return facts if (model, session) == (facts.model, facts.session) else replace(facts, model=model, session=session)


def sanitized_client(client: Client, secrets: tuple[str, ...]) -> Client:
    """Return the client with ids that may be shown and stored, as :func:`sanitized_facts` does."""
    session, agent, parent = (identifier(each, secrets) for each in (client.session, client.agent, client.parent))
    return replace(client, session=session, agent=agent, parent=parent)


def scheduler_request(call: Call, waited_s: float = 0.0) -> Request:
    """Return the request as the scheduler sees it, after earlier tries for `waited_s`; a stream's client is kept alive,
    so its patience has no end."""
    head, facts, identity = call.head, call.facts, call.identity
    return Request(
        agent=identity.agent,
        lane=head.lane,
        model=facts.model,
        family=family(facts.model),
        size_chars=facts.size_chars,
        max_output_tokens=facts.max_output_tokens,
        stream=facts.stream,
        priority=identity.priority,
        patience_s=None if facts.stream else head.client.patience_s,
        client=head.client.name,
        parent=identity.parent,
        path=head.shown_path,
        made_up=identity.made_up,
        tier=facts.tier,
        prefix=facts.prefix,
        waited_s=waited_s,
        deadline_s=_left_s(head.deadline, waited_s) if head.deadline else None,
    )


def _left_s(deadline: str, waited_s: float) -> float | None:
    """Return the seconds until a deadline; a span of time counts from when the client first sent the request."""
    now = time.time()
    at = moment_of(deadline, now - waited_s)
    return None if at is None else at - now


def path_to_show(raw_path: bytes, secrets: tuple[str, ...]) -> str:
    """Return the path as the upstream's API defines it, masked; empty where it is too long for any known API."""
    text = raw_path.decode("latin-1")
    return masked_path(text, "", secrets) if len(raw_path) <= _LONGEST_PATH and text.isprintable() else ""


def path_of(call: Call, own: Iterable[str] = ()) -> str:
    """Return the path as the agent sent it, with its query, without credentials; `own` are the proxy's own."""
    path, _, query = call.head.target.decode("latin-1").partition("?")
    path = path.removeprefix(call.head.route.origin.base_path)
    kept = "&".join(field for field, name, _ in query_fields(query) if field and not is_secret(name))
    return masked_path(path, kept, longest_first((*own, *call.head.secrets)))


def with_conversation(
    checkpoint: Checkpoint, call: Call, limit: int, own: Iterable[str] = ()
) -> tuple[Checkpoint, bytes | None]:
    """Return the checkpoint and its conversation: the request's body, decoded, without the credentials that the request
    came with or lends the provider, or that are recognised by their form.

    Takes a while for a long body, but never holds the interpreter long; meant for a thread.
    """
    lower = [(name.lower(), value) for name, value in call.head.headers]
    body = decode_body(lower, call.body, limit)
    if not body:
        why = f"it can't be unpacked, or is larger than checkpoint.max_mb ({limit >> 20}) allows" if call.body else ""
        return replace(checkpoint, left_out=why or "the request had no body"), None
    body, masked = redact_body(body, (*own, *call.head.secrets))
    if not _looks_like_json(body):
        body = as_text(body)
        checkpoint = replace(checkpoint, encoding="base64")
    return replace(checkpoint, masked=masked, conversation_bytes=len(body)), body


def _looks_like_json(body: bytes) -> bool:
    """Return whether a body has the two ends of a JSON document; other dialects send forms or audio."""
    ends = body[:64].lstrip()[:1] + body[-64:].rstrip()[-1:]
    return ends in (b"{}", b"[]")
