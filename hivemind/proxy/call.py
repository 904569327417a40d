"""One request as the proxy understood it, ready to be tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hivemind.logs import redact
from hivemind.providers.base import Dialect, Facts
from hivemind.providers.clients import Client
from hivemind.providers.profiles import family
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import Failure, FailureKind, Request, record
from hivemind.settings import Origin

from .credentials import credentials_in, less
from .headers import Headers, without
from .identity import Identity
from .upstream.base import ConnectFailed, Disconnected, NotTrusted, Upstream, UpstreamError, UpstreamTimeout

_LONGEST_PATH = 200
"""Of the APIs that we know none has a longer one."""


@dataclass(frozen=True, slots=True)
class Route:
    """An upstream that is open."""

    origin: Origin
    upstream: Upstream
    lane: LaneConfig


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
        return replace(failure, message=less(failure.message, credentials_in(self.headers, self.target)))


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
    """The path as the upstream's API has it, without query, as it may be written down."""
    return _shown_path(call.target.partition(b"?")[0], call.route.origin.base_path)


@lru_cache(maxsize=1024)  # paths repeat, and looking for secrets takes longer than all else that is done with them
def _shown_path(path: bytes, base: str) -> str:
    text = path.decode("latin-1").removeprefix(base)
    return redact(text) if text.isprintable() and len(text) <= _LONGEST_PATH else ""
