"""A request as the proxy understood it, ready to be sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hivemind.providers.base import Facts
from hivemind.providers.clients import Client
from hivemind.providers.dialect import Dialect
from hivemind.providers.profiles import family
from hivemind.redaction.heads import masked_path
from hivemind.redaction.text import identifier, label, mask_any_length, mask_values
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Failure, FailureKind, Request, record
from hivemind.settings import Origin
from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    NotTrusted,
    Upstream,
    UpstreamError,
    UpstreamTimeout,
)
from hivemind.wire.headers import Headers, without
from hivemind.wire.identity import Identity

_LONGEST_PATH = 200
"""Characters of the longest path of any known API."""


@dataclass(frozen=True, slots=True)
class Route:
    """An open upstream and its lane."""

    origin: Origin
    upstream: Upstream
    lane: LaneConfig
    secrets: tuple[str, ...] = ()
    """Credentials for the outbound proxy, which may repeat them in its errors."""


@record
class Call:
    """A request for an upstream, and what is known about it."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    route: Route
    dialect: Dialect
    facts: Facts
    client: Client
    identity: Identity
    lane: str
    """Key of the lane: upstream and credential."""
    secrets: tuple[str, ...] = ()
    """The credentials that the request came with, the longest first: masked in whatever is shown or written of it."""
    free: bool = False
    """It costs nothing, so it is relayed without a ticket, even where its agent's budget is used up."""

    def headers_for(self, committed: bool) -> Headers:
        """Return the headers to send; a response that was begun without an encoding can only continue without one."""
        if not committed:
            return self.headers
        return [*without(self.headers, b"accept-encoding"), (b"accept-encoding", b"identity")]

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
        return replace(failure, message=mask_any_length(mask_values(failure.message, self.secrets), self.route.secrets))


def sanitized(facts: Facts, client: Client, secrets: tuple[str, ...]) -> tuple[Facts, Client]:
    """Return both with names that may be shown and stored: bounded, printable, without these secrets or keys of known
    forms. The request itself goes upstream unchanged."""
    model, session = label(facts.model, secrets), identifier(facts.session, secrets)
    if model != facts.model or session != facts.session:
        facts = replace(facts, model=model, session=session)
    if client.session or client.agent or client.parent:
        ids = [identifier(each, secrets) for each in (client.session, client.agent, client.parent)]
        if ids != [client.session, client.agent, client.parent]:
            client = replace(client, session=ids[0], agent=ids[1], parent=ids[2])
    return facts, client


def scheduler_request(call: Call) -> Request:
    """Return the request as the scheduler sees it; a stream's client is kept alive, so its patience has no end."""
    facts, identity = call.facts, call.identity
    return Request(
        agent=identity.agent,
        lane=call.lane,
        model=facts.model,
        family=family(facts.model),
        size_chars=facts.size_chars,
        max_output_tokens=facts.max_output_tokens,
        stream=facts.stream,
        priority=identity.priority,
        patience_s=None if facts.stream else call.client.patience_s,
        client=call.client.name,
        parent=identity.parent,
        path=_display_path(call),
    )


def _display_path(call: Call) -> str:
    """Return the path as the upstream's API defines it, masked and without query; empty where it is too long for any
    known API."""
    path, base = call.target.partition(b"?")[0], call.route.origin.base_path
    if len(path) > _LONGEST_PATH + len(base):
        return ""
    shown = _masked_path(path, base)
    if call.secrets and shown:
        shown = masked_path(shown, "", call.secrets) if "%" in shown else mask_values(shown, call.secrets)
    return shown


@lru_cache(maxsize=1024)  # paths repeat, and looking for secrets takes longer than all else that is done with them
def _masked_path(path: bytes, base: str) -> str:
    text = path.decode("latin-1").removeprefix(base)
    return masked_path(text) if text.isprintable() else ""
