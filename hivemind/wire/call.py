"""One request as the proxy understood it, ready to be tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hivemind.providers.base import Dialect, Facts
from hivemind.providers.clients import Client
from hivemind.providers.profiles import family
from hivemind.redaction.heads import masked_path
from hivemind.redaction.text import concealed, identifier, label, less
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
"""Of the APIs that we know none has a longer one."""


@dataclass(frozen=True, slots=True)
class Route:
    """An upstream that is open."""

    origin: Origin
    upstream: Upstream
    lane: LaneConfig
    secrets: tuple[str, ...] = ()
    """Credentials of the proxy that the way to it goes through, which may repeat them in what it says."""


@record
class Call:
    """What goes upstream, and what is known about it."""

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
    """The values of the credentials that the request came with, the longest first: nothing that is shown or written of
    it may have them."""
    free: bool = False
    """It costs nothing, so it is passed on without a ticket, whatever its agent may still use."""

    def headers_for(self, committed: bool) -> Headers:
        """A response that was begun without an encoding can only go on without one."""
        if not committed:
            return self.headers
        return [*without(self.headers, b"accept-encoding"), (b"accept-encoding", b"identity")]

    def failure_of(self, error: UpstreamError) -> Failure:
        """What an attempt that ended without a whole response means.

        A request that continues state on the server goes out again only if it surely never arrived.
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
        """The failure as it may be shown: its words are the upstream's, which may quote what it was sent."""
        if not failure.message:
            return failure
        return replace(failure, message=concealed(less(failure.message, self.secrets), self.route.secrets))


def described(facts: Facts, client: Client, secrets: tuple[str, ...]) -> tuple[Facts, Client]:
    """Both with the names in them as they may be shown and remembered: bounded, printable, and without these secrets
    or keys of known forms. What goes upstream is the request itself."""
    model, session = label(facts.model, secrets), identifier(facts.session, secrets)
    if model != facts.model or session != facts.session:
        facts = replace(facts, model=model, session=session)
    if client.session or client.agent or client.parent:
        ids = [identifier(each, secrets) for each in (client.session, client.agent, client.parent)]
        if ids != [client.session, client.agent, client.parent]:
            client = replace(client, session=ids[0], agent=ids[1], parent=ids[2])
    return facts, client


def request_of(call: Call, *, kept_company: bool) -> Request:
    """What the scheduler is told of it; `kept_company`: its client doesn't lose patience, since it is kept alive."""
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
        patience_s=None if kept_company else call.client.patience_s,
        client=call.client.name,
        parent=identity.parent,
        path=shown_path(call),
    )


def shown_path(call: Call) -> str:
    """The path as the upstream's API has it, without query, as it may be written down; empty if it is too long to be
    one that we know."""
    path, base = call.target.partition(b"?")[0], call.route.origin.base_path
    if len(path) > _LONGEST_PATH + len(base):
        return ""
    shown = _shown_path(path, base)
    if call.secrets and shown:
        shown = masked_path(shown, "", call.secrets) if "%" in shown else less(shown, call.secrets)
    return shown


@lru_cache(maxsize=1024)  # paths repeat, and looking for secrets takes longer than all else that is done with them
def _shown_path(path: bytes, base: str) -> str:
    text = path.decode("latin-1").removeprefix(base)
    return masked_path(text) if text.isprintable() else ""
