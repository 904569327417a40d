"""Who is asking: the agent's name, the lane its credential belongs to, the priority it asks for.

In this order: `/agent/<name>/` in the base URL, the header `x-hivemind-agent` (or `x-hivemind-agent-id`), what the
client sends by itself (session and sub-agent ids), and at last a fingerprint of the credential. The credential itself
is never kept: a short one-way hash of it names the lane.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

from hivemind.agent_names import LONGEST, BadName, normalised
from hivemind.providers.base import Profile
from hivemind.providers.clients import Client
from hivemind.scheduler.types import Priority, record

if TYPE_CHECKING:
    from hivemind.wire.claims import Claims

CREDENTIAL_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
ANONYMOUS = "anonymous"
"""Of requests that show no credential."""
SEVERAL = "several"
"""Of those that show different ones."""
EVERYBODY = "all"
"""Of all requests to an upstream whose limits don't go by credentials."""
LONGEST_REMEMBERED = 512
"""Bytes of a path that is taken apart once and remembered."""
_MOST_FIELDS = 100
_PARAMETERS = re.compile(r";[^/]*")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_DOTS = re.compile(r"/\.{1,2}(?:[/;]|$)")
AGENT_HEADERS = (b"x-hivemind-agent", b"x-hivemind-agent-id")
_MOST_BYTES = 12 * LONGEST + 1
"""Of a name as it comes, that are read: each character has four bytes at most, each of them percent-encoded, and one
more makes it too long."""
_PREFIXES = (b"/agent/", b"/to/", b"/token/")


class BadIdentity(ValueError):
    """A name, token or priority that can't be used; the text says what would be right."""

    def __init__(self, text: str, status: int = 400, reason: str = "bad_request") -> None:
        super().__init__(text)
        self.status = status
        """Of the answer that says so."""
        self.reason = reason


@record
class Address:
    """A request's path, taken apart."""

    path: str
    """Without our prefixes, decoded, and without parameters (`;x=1`): what an upstream may take it for."""
    raw_path: bytes
    """The same as it goes upstream: as it came, but for empty segments (`//`)."""
    agent: str | None
    upstream: str | None
    token: str | None
    flaw: str = ""
    """Why it is refused: servers differ in what they make of such a path; empty where it is fine."""


@record
class Identity:
    """Who asks, as far as the request tells."""

    agent: str
    parent: str | None
    named: bool
    """The agent has a name or session of its own; else it is known by its key alone, perhaps with others."""
    credential: str
    """Fingerprint, or `anonymous`."""
    priority: Priority | None


def address(raw_path: bytes) -> Address:
    """Take `/to/<upstream>`, `/agent/<name>` and `/token/<token>`, in any order, off the front of a path."""
    # An agent asks for the same path again and again; one that holds a secret, or is long, isn't kept.
    if len(raw_path) > LONGEST_REMEMBERED or b"/token/" in raw_path:
        return _take_apart(raw_path)
    return _remembered(raw_path)


def _take_apart(raw_path: bytes) -> Address:
    found: dict[bytes, str] = {}
    flaw = ""
    rest = _one_slash(raw_path)
    while rest.startswith(_PREFIXES):
        head, _, tail = rest[1:].partition(b"/")
        if head in found:
            break
        name, slash, after = tail.partition(b"/")
        if not name:
            # Taken for a path of the upstream's, or without the slash, its name would be the next segment.
            flaw = "" if tail in (b"", b"/") else f"/{head.decode()}/ must be followed by a name"
            break
        found[head] = decoded(name if head != b"agent" else name[:_MOST_BYTES])
        rest = _one_slash(slash + after) or b"/"
    while b"//" in rest:
        rest = rest.replace(b"//", b"/")
    path = (unquote_to_bytes(rest) if b"%" in rest else rest).decode("utf-8", "replace")
    return Address(
        path=_PARAMETERS.sub("", path) if ";" in path else path,
        raw_path=rest,
        agent=found.get(b"agent"),
        upstream=found.get(b"to"),
        token=found.get(b"token"),
        flaw=flaw or flaw_of(path),
    )


_remembered = lru_cache(maxsize=1024)(_take_apart)


def _one_slash(path: bytes) -> bytes:
    """The path, beginning with one slash where it begins with several."""
    return b"/" + path.lstrip(b"/") if path.startswith(b"//") else path


def flaw_of(path: str) -> str:
    """Why a decoded path is refused; empty: it isn't.

    Servers and the proxies before them differ in whether they resolve such a path, and to what: one that is scheduled
    as this would be served as that, or lie outside the upstream's base path. Clients resolve dots themselves
    (RFC 3986, 5.2.4), so none that we know sends them.
    """
    if not path.startswith("/"):
        return "the path must begin with a slash"
    if "\\" in path:
        return "the path must not hold a backslash"
    if not path.isprintable() and _CONTROLS.search(path):
        return "the path must not hold control characters"
    # What is left of percent-encoding was encoded twice.
    if _DOTS.search(path) or ("%" in path and _DOTS.search(unquote(path))):
        return "the path must not hold segments of dots (. or ..), in any encoding; send it resolved"
    return ""


def identify(
    headers: Mapping[bytes, bytes],
    query: bytes,
    named: str | None,
    client: Client,
    session: str,
    auth_headers: tuple[bytes, ...],
    claims: Claims,
    proven: str | None = None,
) -> Identity:
    """Who sent this. `named` is the name in the path, `session` an id found in the body, `auth_headers` are those that
    the provider reads the credential from, `proven` is the agent whose credential for this proxy was shown.

    Raises: BadIdentity.
    """
    credential = fingerprint(headers, query, auth_headers)
    own = claimed_name(headers, named)
    root = claims.spelled(own) if own else proven
    claims.check_named(root is not None)
    if root is not None:
        claims.check(root, proven)
        agent, parent = _within(root, client, claims)
    else:
        agent, parent = _by_client(client, session, claims)
        claims.check(agent, None)
    asked = _priority(headers.get(b"x-hivemind-priority"), client)
    return Identity(
        agent=agent or f"key-{credential}",
        parent=parent,
        named=bool(agent),
        credential=credential,
        priority=None if asked is None else claims.priority(asked, agent or f"key-{credential}"),
    )


def claimed_name(headers: Mapping[bytes, bytes], named: str | None) -> str:
    """The name that a request gives itself in the path (`named`) or else in a header; empty: none."""
    if named:
        return named
    raw = next((found for name in AGENT_HEADERS if (found := headers.get(name))), None)
    return "" if raw is None else decoded(raw[:_MOST_BYTES])


def decoded(raw: bytes) -> str:
    """What stands in a path or header, percent-encoded or not."""
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


def checked_name(name: str) -> str:
    """The name that somebody gave an agent, as it is shown; see :func:`hivemind.agent_names.normalised`.

    Raises: BadIdentity: it can't be one.
    """
    try:
        return normalised(name)
    except BadName as error:
        raise BadIdentity(str(error)) from None


def fingerprint(headers: Mapping[bytes, bytes], query: bytes, auth_headers: tuple[bytes, ...] = ()) -> str:
    """A short one-way hash of the credential: the same key gives the same one, in whichever header it comes."""
    names = auth_headers + CREDENTIAL_HEADERS
    secret = next((found for name in names if (found := headers.get(name))), None)
    if secret is None:
        secret = next((part[4:] for part in query.split(b"&") if part.startswith(b"key=")), None)
    if not secret:
        return ANONYMOUS
    return _hashed(_secret(secret))


def lane_credential(headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile) -> str:
    """Which of an upstream's lanes a request belongs to: the fingerprint of the credential that its provider reads.

    What the provider doesn't read makes no lane, or made-up credentials would each bring an allowance of their own.
    Where several different ones are shown, nobody knows which of them the provider goes by, so all such requests share
    one lane; and all requests do where it may go by none.
    """
    if profile.one_lane:
        return EVERYBODY
    names = profile.auth_headers
    shown = {_secret(value) for name, value in headers if name in names}
    if profile.auth_query and query:
        try:
            found = parse_qsl(query, max_num_fields=_MOST_FIELDS)
        except ValueError:
            return SEVERAL  # so many fields that nobody knows which the provider reads
        shown.update(_secret(value) for name, value in found if name in profile.auth_query)
    shown.discard(b"")
    if len(shown) > 1:
        return SEVERAL
    return _hashed(shown.pop()) if shown else ANONYMOUS


def _secret(value: bytes) -> bytes:
    """A credential without its scheme and spacing, which providers read in any spelling."""
    words = value.split()
    if len(words) > 1 and words[0].lower() == b"bearer":
        del words[0]
    return b" ".join(words)


def _hashed(secret: bytes) -> str:
    return blake2b(secret, digest_size=4, person=b"hivemind-lane").hexdigest()


def _by_client(client: Client, session: str, claims: Claims) -> tuple[str, str | None]:
    """A name from the ids that the client sends by itself, and the agent that started this one."""
    ident = client.session or session
    if not ident:
        return "", None
    kind = client.name or "session"
    root = claims.derived(f"{kind}-{_short(ident)}")
    if not client.agent:
        return root, claims.derived(f"{kind}-{_short(client.parent)}") if client.parent else None
    return _within(root, client, claims)


def _within(root: str, client: Client, claims: Claims) -> tuple[str, str | None]:
    """The sub-agent of that process which asks, and who started it; the process's main agent has no parent here."""
    if not client.agent:
        return root, None
    name = f"{root}/{_short(client.agent)}"
    if len(name) > LONGEST:
        raise BadIdentity(f"an agent's name is at most {LONGEST} characters long, with its sub-agent's")
    return claims.derived(name), claims.derived(f"{root}/{_short(client.parent)}") if client.parent else root


def _short(ident: str) -> str:
    """Enough of an id to tell agents apart, without prefixes that all of them share; of an id that can't be shown, a
    hash."""
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
    raise BadIdentity("x-hivemind-priority: must be critical, high, normal or low (or 0 to 3)")
