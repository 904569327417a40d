"""Reading requests: which upstream they are for, what they ask of it, who sent them, and which lane they take."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial

from hivemind import agent_names
from hivemind.providers.base import Facts
from hivemind.providers.clients import client_of, session_in
from hivemind.providers.outline import SHORT
from hivemind.providers.paths import METHOD_OVERRIDES, dialect_for, is_free
from hivemind.proxy.asgi import Scope, StepRunner
from hivemind.proxy.routing import Routes
from hivemind.records import replace
from hivemind.redaction.text import label, redact
from hivemind.redaction.values import credentials_in
from hivemind.settings.origin import Origin
from hivemind.wire.call import Call, CallHead, path_to_show, sanitized_client, sanitized_facts
from hivemind.wire.fleet_lanes import FleetLanes
from hivemind.wire.identity import (
    AGENT_HEADERS,
    DEADLINE_HEADER,
    HOLD_HEADER,
    PRIORITY_HEADER,
    Claims,
    Identity,
    asks_to_hold,
    claimed_name,
    deadline_in,
    fingerprint,
    identify,
    lane_credential,
)
from hivemind.wire.links import Links
from hivemind.wire.request_head import OWN, RequestPath, RequestRefused, about_body, for_upstream

_log = logging.getLogger(__name__)

TOKEN_HEADER = b"x-hivemind-token"
_READ = {*AGENT_HEADERS, PRIORITY_HEADER, DEADLINE_HEADER, HOLD_HEADER, TOKEN_HEADER, b"x-hivemind-session"}
_MODEL_HEADERS = frozenset({b"ai-language-model-id", b"ai-model-id"})
"""Where Vercel's AI Gateway is told the model."""
MOST_SHAPES = 100
"""Shapes of paths that are logged and remembered."""
_MOST_SEGMENTS = 8
_WORD = re.compile(r"(?:v\d+[a-z]*\d*|[A-Za-z][A-Za-z_-]{0,31})(?::[A-Za-z]{1,32})?", re.ASCII)
"""A segment that belongs to an API; any other may be an id or a name."""

_SIGNED_ELSEWHERE = (
    "a client signs its requests for this proxy's address (AWS's SigV4), so Bedrock will refuse them: give it a Bedrock"
    " API key (AWS_BEARER_TOKEN_BEDROCK) in place of an access key"
)


class CallReader:
    """Reads requests as the dialects, the routes and the claims of one proxy define them.

    `secrets` are the proxy's own credentials, which no agent's name may hold; `fleet_lanes` keeps what the fleet calls
    the lanes, where there is a fleet; `asks_usage`: chat streams are asked for their usage.
    """

    def __init__(
        self,
        routes: Routes,
        claims: Claims,
        secrets: tuple[str, ...],
        steps: StepRunner,
        fleet_lanes: FleetLanes | None = None,
        notice: Callable[[str], object] = lambda text: None,
        *,
        asks_usage: bool = False,
    ) -> None:
        self._asks_usage = asks_usage
        self._routes = routes
        self._notice = notice
        self._past = partial(_tell_past, notice)
        self._claims = claims
        self._secrets = secrets
        self._steps = steps
        self._fleet_lanes = fleet_lanes
        self._paths = OddPaths()
        self._ignored: set[bytes] = set()
        """Headers of our own that aren't known, and were logged."""

    def head(self, scope: Scope, headers: Mapping[bytes, bytes], place: RequestPath) -> CallHead:
        """Read a request's head. Raises: RequestRefused: it isn't known which upstream it is for."""
        pairs, query = scope["headers"], scope["query_string"]
        name = claimed_name(headers, place.agent)
        self._report_ignored(headers)
        route = self._routes.find(place, query, pairs, name)
        profile = route.origin.profile
        is_signed, host = headers.get(b"authorization", b"").startswith(b"AWS4-"), route.origin.host
        if is_signed and host.endswith(".amazonaws.com") and headers.get(b"host") != host.encode():
            self._notice(_SIGNED_ELSEWHERE)
        method, dialect = scope["method"], dialect_for(place.path)
        secrets = (*self._secrets, *credentials_in(pairs, scope["raw_path"] + b"?" + query))
        lane = f"{route.origin.name}:{lane_credential(pairs, query, profile)}"
        if self._fleet_lanes is not None:
            self._fleet_lanes.note(lane, pairs, query, profile, route.origin.url)
        free = is_free(method, place.raw_path, b"") and headers.keys().isdisjoint(METHOD_OVERRIDES)
        return CallHead(
            method=method.encode(),
            target=route.origin.base_path.encode()
            + _versioned(place.raw_path, route.origin)
            + (b"?" + query if query else b""),
            headers=for_upstream(pairs),
            path=place.path,
            query=query.decode("latin-1"),
            about_body=about_body(pairs),
            route=route,
            dialect=dialect,
            client=sanitized_client(client_of(pairs), secrets),
            lane=lane,
            name=name,
            credential=fingerprint(headers, query, profile.auth_headers),
            priority=headers.get(PRIORITY_HEADER),
            deadline=deadline_in(headers),
            holds=asks_to_hold(headers, place.holds),
            secrets=secrets,
            reads_short=b"content-encoding" not in headers and name.isascii(),
            free=free,
            shown_path=path_to_show(place.raw_path, secrets),
            links=self._links(scope, headers, place, route.origin),
        )

    def _links(self, scope: Scope, headers: Mapping[bytes, bytes], place: RequestPath, origin: Origin) -> Links:
        """Return what becomes of links in the answers: they begin as the request does."""
        forwarded = headers.get(b"x-forwarded-proto") == b"https"  # by what ends TLS in front of us
        scheme = b"https" if forwarded else scope.get("scheme", "http").encode()
        host = headers.get(b"host")
        prefix = place.prefix
        if place.upstream is None and len(self._routes.all) > 1:
            prefix = b"/upstream/%b%b" % (origin.name.encode(), prefix)
        return Links(
            base=b"%b://%b%b" % (scheme, host, prefix) if host else prefix,
            prefix=prefix,
            scheme=origin.scheme.encode(),
            authority=origin.authority.lower().encode(),
            base_path=origin.base_path.encode(),
            path=place.path,
            past=self._past,
        )

    def _report_ignored(self, headers: Mapping[bytes, bytes]) -> None:
        """Log each header once that begins as ours do and isn't one, such as a misspelt one."""
        for each in headers:
            if each.startswith(OWN) and each not in _READ and len(self._ignored) < MOST_SHAPES:
                if each not in self._ignored:
                    _log.warning(
                        "a request has the header %s, which isn't one of HiveMind's", label(each.decode("latin-1"))
                    )
                self._ignored.add(each)

    async def read(self, head: CallHead, body: bytes, tokens: tuple[bytes, ...]) -> Call:
        """Return the call that a request makes, which shows these tokens. Raises: RequestRefused."""
        if agent_names.tables_wanted(head.name):
            await asyncio.to_thread(agent_names.load_tables)
        if is_short(head, body):
            return self.read_short(head, body, tokens)
        steps = head.dialect.facts_in_steps(head.path, head.query, head.about_body, body)
        return self._call(head, await self._steps.run(steps), body, tokens)

    def read_short(self, head: CallHead, body: bytes, tokens: tuple[bytes, ...]) -> Call:
        """Return the call of a request for which :func:`is_short` holds. Raises: RequestRefused."""
        return self._call(head, head.dialect.facts(head.path, head.query, head.about_body, body), body, tokens)

    def _call(self, head: CallHead, facts: Facts, body: bytes, tokens: tuple[bytes, ...]) -> Call:
        if not facts.session and (session := session_in(head.client, body)):
            facts = replace(facts, session=session)
        if not facts.model and (model := next((each for name, each in head.headers if name in _MODEL_HEADERS), b"")):
            facts = replace(facts, model=model.decode("latin-1"))
        key = (facts.model, facts.session, tokens, self._claims.changes)
        last = head.last
        if last.key == key and last.identity is not None:
            identity = last.identity
            if (facts.model, facts.session) != (last.model, last.session):
                facts = replace(facts, model=last.model, session=last.session)
        else:
            facts = sanitized_facts(facts, head.secrets)
            identity = self._identify(head, facts.session, tokens)
            last.key, last.identity, last.model, last.session = key, identity, facts.model, facts.session
        asks_usage = self._asks_usage and facts.stream and head.dialect.can_ask_usage(head.about_body, body)
        call = Call(head, body, facts, identity, asks_usage)
        known = head.dialect.name != "plain"
        if (head.free or not known) and call.free is known and (known or facts.begins is None):
            self._paths.report(head.method.decode(), head.path, known=known)
        if facts.unread:
            _log.info("the size of a request of %s is estimated: %s", identity.agent, facts.unread)
        return call

    def _identify(self, head: CallHead, session: str, tokens: tuple[bytes, ...]) -> Identity:
        identity = identify(
            self._claims,
            head.client,
            session,
            name=head.name,
            credential=head.credential,
            priority=head.priority,
            proven=proven_agent(self._claims, tokens),
        )
        if any(each in identity.agent for each in head.secrets):
            raise RequestRefused(400, agent_names.LOOKS_LIKE_A_KEY)
        return identity


def is_short(head: CallHead, body: bytes | bytearray) -> bool:
    """Return whether a request is read at once, by :meth:`CallReader.read_short`."""
    return head.reads_short and len(body) <= SHORT


def shown_tokens(headers: Mapping[bytes, bytes], place: RequestPath) -> tuple[bytes, ...]:
    """Return the tokens for this proxy that a request shows, in a header and in the path."""
    header, path = headers.get(TOKEN_HEADER), place.token
    found = (header,) if header else ()
    return found if path is None else (*found, path.encode("utf-8", "replace"))


def proven_agent(claims: Claims, tokens: tuple[bytes, ...]) -> str | None:
    """Return the agent whose own token is among those that a request shows."""
    for token in tokens:
        if (agent := claims.agent_of(token)) is not None:
            return agent
    return None


def _versioned(raw_path: bytes, origin: Origin) -> bytes:
    """Return the path with the version that Vercel's AI SDK expects in the base URL, where other clients of Anthropic's
    API add it themselves: no path of that API is without it."""
    bare = raw_path == b"/messages" or raw_path.startswith(b"/messages/")
    return b"/v1" + raw_path if bare and origin.profile.name == "anthropic" and not origin.base_path else raw_path


class OddPaths:
    """Logs each shape of path once that is scheduled by a guess at its size, or known and yet not scheduled, so that an
    operator learns what passes by the limits."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def report(self, method: str, path: str, *, known: bool) -> None:
        """Log the path's shape, unless it was or enough were. `known`: it has a dialect, and the request is free."""
        if len(self._logged) >= MOST_SHAPES:
            return
        shape = f"{method} {shape_of(path)}"
        if shape in self._logged:
            return
        self._logged.add(shape)
        if known:
            _log.info("%s: costs nothing, forwarded without being scheduled", shape)
        else:
            _log.info("%s: unknown path, scheduled as unknown: its cost is estimated by its size", shape)
        if len(self._logged) == MOST_SHAPES:
            _log.info("more such paths are forwarded without a line here")


def shape_of(path: str) -> str:
    """Return the path with `*` for segments that aren't words, at most eight of them, without ids and secrets."""
    segments = path[:512].strip("/").split("/")
    words = [segment if _WORD.fullmatch(segment) else "*" for segment in segments[:_MOST_SEGMENTS]]
    return redact("/" + "/".join(words) + ("/*" if len(segments) > _MOST_SEGMENTS else ""))


def _tell_past(notice: Callable[[str], object], path: str, what: str, target: str) -> None:
    notice(
        f"{what} in answers of {shape_of(path)} leads to {target}, past this proxy: what a client sends there isn't"
        " limited or counted"
    )
