"""Who is asking: the agent's name, the lane its credential belongs to, the priority it asks for.

In this order: `/agent/<name>/` in the base URL, the header `x-hivemind-agent` (or `x-hivemind-agent-id`), what the
client sends by itself (session and sub-agent ids), and at last a fingerprint of the credential. The credential itself
is never kept: a short one-way hash of it names the lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from urllib.parse import parse_qsl

from hivemind.agent_names import LONGEST
from hivemind.providers.base import Profile
from hivemind.providers.clients import Client
from hivemind.scheduler.types import Priority, record
from hivemind.wire.claims import Claims
from hivemind.wire.refusal import RequestRefused
from hivemind.wire.target import MOST_NAME_BYTES, decoded

CREDENTIAL_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
ANONYMOUS = "anonymous"
"""Credential of requests that show none."""
SEVERAL = "several"
"""Credential of requests that show different ones."""
EVERYBODY = "all"
"""Credential of all requests to an upstream whose limits don't depend on credentials."""
PRIORITY_HEADER = b"x-hivemind-priority"
AGENT_HEADERS = (b"x-hivemind-agent", b"x-hivemind-agent-id")
_MOST_FIELDS = 100


@record
class Identity:
    """Who sent a request, as far as it tells."""

    agent: str
    parent: str | None
    named: bool
    """The agent has a name or session of its own; else it is known by its key alone, which others may share."""
    credential: str
    """Fingerprint, or `anonymous`."""
    priority: Priority | None


def identify(
    claims: Claims,
    client: Client,
    session: str,
    *,
    name: str,
    credential: str,
    priority: bytes | None,
    proven: str | None = None,
) -> Identity:
    """Return who sent a request.

    `session` is an id found in the body, `name` as :func:`claimed_name` returns it, `credential` as :func:`fingerprint`
    does, `priority` the header, `proven` the agent whose own token was shown.

    Raises: RequestRefused: the name or priority can't be used.
    """
    root = claims.spelled(name) if name else proven
    claims.check_named(root is not None)
    if root is not None:
        claims.check(root, proven)
        agent, parent = _sub_agent(root, client, claims)
    else:
        agent, parent = _by_client(client, session, claims)
        claims.check(agent, None)
    asked = _priority(priority, client)
    shown = agent or f"key-{credential}"
    return Identity(
        agent=shown,
        parent=parent,
        named=bool(agent),
        credential=credential,
        priority=None if asked is None else claims.priority(asked, shown),
    )


def claimed_name(headers: Mapping[bytes, bytes], named: str | None) -> str:
    """Return the name that a request gives in the path (`named`) or else in a header; empty where it gives none."""
    if named:
        return named
    raw = next((found for name in AGENT_HEADERS if (found := headers.get(name))), None)
    return "" if raw is None else decoded(raw[:MOST_NAME_BYTES])


def fingerprint(headers: Mapping[bytes, bytes], query: bytes, auth_headers: tuple[bytes, ...] = ()) -> str:
    """Return a short one-way hash of the credential; the same key gives the same hash, in whichever header it comes."""
    names = auth_headers + CREDENTIAL_HEADERS
    secret = next((found for name in names if (found := headers.get(name))), None)
    if secret is None:
        secret = next((part[4:] for part in query.split(b"&") if part.startswith(b"key=")), None)
    if not secret:
        return ANONYMOUS
    return _hashed(_secret(secret))


def lane_credential(headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile) -> str:
    """Return the key of the upstream's lane that a request belongs to: the fingerprint of the credential that its
    provider reads.

    What the provider doesn't read makes no lane, or made-up credentials would each bring an allowance of their own.
    Where several different ones are shown, the one that the provider uses isn't known, so all such requests share one
    lane. All requests share one where the provider's limits depend on no credential.
    """
    if profile.one_lane:
        return EVERYBODY
    names = profile.auth_headers
    shown = {_secret(value) for name, value in headers if name in names}
    if profile.auth_query and query:
        try:
            found = parse_qsl(query, max_num_fields=_MOST_FIELDS)
        except ValueError:
            return SEVERAL  # too many fields to know which the provider reads
        shown.update(_secret(value) for name, value in found if name in profile.auth_query)
    shown.discard(b"")
    if len(shown) > 1:
        return SEVERAL
    return _hashed(shown.pop()) if shown else ANONYMOUS


def _secret(value: bytes) -> bytes:
    """Return a credential without its scheme and spacing, which providers accept in any spelling."""
    words = value.split()
    if len(words) > 1 and words[0].lower() == b"bearer":
        del words[0]
    return b" ".join(words)


def _hashed(secret: bytes) -> str:
    return blake2b(secret, digest_size=4, person=b"hivemind-lane").hexdigest()


def _by_client(client: Client, session: str, claims: Claims) -> tuple[str, str | None]:
    """Return a name made of the ids that the client sends by itself, and the parent agent's name."""
    ident = client.session or session
    if not ident:
        return "", None
    kind = client.name or "session"
    root = claims.derived(f"{kind}-{_short(ident)}")
    if not client.agent:
        return root, claims.derived(f"{kind}-{_short(client.parent)}") if client.parent else None
    return _sub_agent(root, client, claims)


def _sub_agent(root: str, client: Client, claims: Claims) -> tuple[str, str | None]:
    """Return the name of the sub-agent that asks, and its parent's; the main agent of a process has no parent here."""
    if not client.agent:
        return root, None
    name = f"{root}/{_short(client.agent)}"
    if len(name) > LONGEST:
        raise RequestRefused(400, f"an agent's name is at most {LONGEST} characters long, with its sub-agent's")
    return claims.derived(name), claims.derived(f"{root}/{_short(client.parent)}") if client.parent else root


def _short(ident: str) -> str:
    """Return enough of an id to tell agents apart, without prefixes that all of them share; a hash of an id that can't
    be shown."""
    if not (ident.isascii() and ident.isprintable()):
        return blake2b(ident.encode("utf-8", "replace"), digest_size=4, person=b"hivemind-id").hexdigest()
    return ident.rsplit("_", 1)[-1][:8]


def _priority(asked: bytes | None, client: Client) -> Priority | None:
    if asked is None:
        return client.priority
    word = asked[:32].decode("latin-1").strip().upper()
    if word in Priority.__members__:
        return Priority[word]
    if word in ("0", "1", "2", "3"):
        return Priority(int(word))
    raise RequestRefused(400, "x-hivemind-priority: must be critical, high, normal or low (or 0 to 3)")
