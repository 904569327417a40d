"""The sender of a request: the agent's name, the lane of its credential, the requested priority.

In this order: `/agent/<name>/` in the base URL, the header `x-hivemind-agent` (or `x-hivemind-agent-id`), which below a
name in the path names one of its sub-agents, what the client sends by itself (session and sub-agent ids), and at last a
fingerprint of the credential. A name with a slash, however it is given, is that of a sub-agent. The credential itself
is never kept: a short one-way hash of it names the lane.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from urllib.parse import parse_qsl

from msgspec import Struct

from hivemind.agent_names import LONGEST, BadName, KnownNames, fold, normalised, same
from hivemind.providers.base import Profile
from hivemind.providers.clients import Client
from hivemind.scheduler.ticket import FINAL_STATUS
from hivemind.scheduler.types import Priority
from hivemind.settings.sections import AgentSettings
from hivemind.text.deadlines import parse_deadline
from hivemind.wire.request_head import MOST_NAME_BYTES, RequestRefused, decoded

CREDENTIAL_HEADERS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
ANONYMOUS = "anonymous"
"""Credential of requests that show none."""
SEVERAL = "several"
"""Credential of requests that show different ones."""
EVERYBODY = "all"
"""Credential of all requests to an upstream whose limits don't depend on credentials."""
PRIORITY_HEADER = b"x-hivemind-priority"
DEADLINE_HEADER = b"x-hivemind-deadline"
HOLD_HEADER = b"x-hivemind-hold-answers"
AGENT_HEADERS = (b"x-hivemind-agent", b"x-hivemind-agent-id")
_PLAIN_ID = re.compile(r"[A-Za-z0-9.:=+~-]+")
"""Neither a slash, which would make it a sub-agent's name, nor what no name may hold."""
_BY_TIME = re.compile(
    r"(?:[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|[a-z]{3}_[0-9a-f]{12}[0-9A-Za-z]{14})\Z"
)
_MOST_FIELDS = 100
_YES, _NO = (b"true", b"1", b"on", b"yes"), (b"false", b"0", b"off", b"no")
_RUN = b"run."
_MOST_LOGGED = 4096
"""Agents whose capped priority was logged, and isn't again."""
_DECIDED = "by a decision about it, or because the agent that it is a part of asks for no more"
_log = logging.getLogger(__name__)


class Identity(Struct, frozen=True):
    """The sender of a request, as far as it is known."""

    agent: str
    parent: str | None
    named: bool
    """The agent has a name or session of its own; else it is known by its key alone, which others may share."""
    priority: Priority | None
    made_up: bool = False
    """The name was made here: of the client's ids, or of the key."""
    holds: bool = False
    """Its answers are held until they are whole, by the settings."""


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
        if parent is None and "/" in agent:
            parent = claims.derived(agent.rpartition("/")[0])
    else:
        agent, parent = _by_client(client, session, claims)
        claims.check(agent, None)
    requested = _priority(priority, client)
    shown = agent or f"key-{credential}"
    return Identity(
        agent=shown,
        parent=parent,
        named=bool(agent),
        priority=None if requested is None else claims.priority(requested, shown),
        made_up=root is None or bool(client.agent),
        holds=claims.holds(shown),
    )


def claimed_name(headers: Mapping[bytes, bytes], named: str | None) -> str:
    """Return the name that a request gives in the path (`named`) and in a header, by which it is one of the path's
    sub-agents; empty where it gives none."""
    raw = next((found for name in AGENT_HEADERS if (found := headers.get(name))), None)
    told = "" if raw is None else decoded(raw[:MOST_NAME_BYTES]).strip(" /")
    if not named or not told:
        return named or told
    within = same(told, named) or fold(told).startswith(f"{fold(named)}/")
    return told if within else f"{named}/{told}"


def fingerprint(headers: Mapping[bytes, bytes], query: bytes, auth_headers: tuple[bytes, ...] = ()) -> str:
    """Return a short one-way hash of the credential; the same key gives the same hash, in whichever header it comes."""
    names = auth_headers + CREDENTIAL_HEADERS
    secret = next((found for name in names if (found := headers.get(name))), None)
    if secret is None:
        secret = next((part[4:] for part in query.split(b"&") if part.startswith(b"key=")), None)
    return _hashed(_secret(secret)) if secret else ANONYMOUS


def lane_credential(headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile) -> str:
    """Return the key of a request's lane: the fingerprint of the credential that its provider reads.

    Others are ignored, or each made-up credential would bring an allowance of its own. Requests with several different
    ones share a lane, since it isn't known which one counts; so do all requests if limits depend on no credential.
    """
    secret = _lane_secret(headers, query, profile)
    return secret if isinstance(secret, str) else _hashed(secret)


def fleet_lane(headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile, place: str) -> str:
    """Return the name of a request's lane among the proxies that share its credential, in 32 hexadecimal digits.

    It is the same on every machine, and tells nobody the credential who doesn't have it: that is the key of the hash.
    `place` says which upstream it is for.
    """
    secret = _lane_secret(headers, query, profile)
    key = f"hivemind fleet 1 {secret}".encode() if isinstance(secret, str) else secret
    return hmac.new(key, f"hivemind fleet 1|{place}".encode(), "sha256").hexdigest()[:32]


def _lane_secret(headers: Sequence[tuple[bytes, bytes]], query: bytes, profile: Profile) -> bytes | str:
    """Return the credential that a request's provider reads, or one of the names for what isn't a single one."""
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
    return shown.pop() if shown else ANONYMOUS


def _secret(value: bytes) -> bytes:
    """Return a credential without its scheme and spacing, which providers accept in any spelling; of AWS's signatures,
    each of which is another, the id of the key that signed."""
    words = value.split()
    if len(words) > 1 and words[0].startswith(b"AWS4-"):
        return words[1].partition(b"/")[0]
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
    root = claims.derived(f"{kind}-{short_id(ident)}")
    if client.parent and not client.agent:
        return root, claims.derived(f"{kind}-{short_id(client.parent)}")
    return _sub_agent(root, client, claims)


def _sub_agent(root: str, client: Client, claims: Claims) -> tuple[str, str | None]:
    """Return the names of the sub-agent and its parent; the main agent of a process has no parent here."""
    if not client.agent:
        return root, None
    name = f"{root}/{short_id(client.agent)}"
    if len(name) > LONGEST:
        raise RequestRefused(400, f"an agent's name is at most {LONGEST} characters long, with its sub-agent's")
    return claims.derived(name), claims.derived(f"{root}/{short_id(client.parent)}") if client.parent else root


def short_id(ident: str) -> str:
    """Return enough of an id to distinguish agents, without common prefixes; a hash if that can't be part of a name.

    A UUID of version 7 (Codex) begins with the time, and so does an id of opencode: their first eight digits are the
    same for 65 s and for 16 ms.
    """
    shown = ident[-8:] if _BY_TIME.match(ident) else ident.rsplit("_", 1)[-1][:8]
    if not _PLAIN_ID.fullmatch(shown):
        return blake2b(ident.encode("utf-8", "replace"), digest_size=4, person=b"hivemind-id").hexdigest()
    return shown


def asks_to_hold(headers: Mapping[bytes, bytes], holds: bool) -> bool | None:
    """Return whether a request wants its answer to be held; `holds`: its path does. None: it doesn't say.

    Raises: RequestRefused: the header can't be understood.
    """
    if (told := headers.get(HOLD_HEADER)) is None:
        return holds or None
    word = told.strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise RequestRefused(400, f"{HOLD_HEADER.decode()}: must be true or false")


def deadline_in(headers: Mapping[bytes, bytes]) -> str:
    """Return the deadline that a request states; empty: it has none.

    Raises: RequestRefused: the header can't be understood, or names a moment that has passed.
    """
    if (told := headers.get(DEADLINE_HEADER)) is None:
        return ""
    text = told[:64].decode("latin-1")
    try:
        parse_deadline(text, time.time())
    except ValueError as error:
        raise RequestRefused(400, f"{DEADLINE_HEADER.decode()}: {error}") from None
    return text


def _priority(requested: bytes | None, client: Client) -> Priority | None:
    if requested is None:
        return client.priority
    word = requested[:32].decode("latin-1").strip().upper()
    if word in Priority.__members__:
        return Priority[word]
    if word in ("0", "1", "2", "3"):
        return Priority(int(word))
    raise RequestRefused(400, "x-hivemind-priority: must be critical, high, normal or low (or 0 to 3)")


# --- Claims -----------------------------------------------------------------------------------------------------------


class Claims:
    """The names of one proxy's agents, and the tokens that some of them are bound to."""

    def __init__(self, names: KnownNames, settings: AgentSettings, token: bytes | None = None) -> None:
        """`token` is the agents' token, where one is required."""
        self._names = names
        self._require_name = settings.require_name
        self._most_urgent = Priority[settings.highest_priority.upper()]
        self._held = tuple(map(fold, settings.hold_answers))
        self._logged: set[str] = set()
        self._run_key = None if token is None else blake2b(token, digest_size=32, person=b"hivemind-runs").digest()
        """Key of the runs' tokens; derived from the agents' token, so that they are valid for the next proxy too."""
        self._running: set[str] = set()
        """Folded names of agents whose process runs with a token of its own."""
        self._fixed = {fold(name): value.reveal() for name, value in settings.credentials.items()}
        """Tokens of the settings, by folded name."""
        self._agents = {_digest(self._fixed[fold(name)].encode()): names.add(name) for name in settings.credentials}
        """Agents by the digest of their token, so that the time of a lookup reveals nothing about the token."""
        self._changes = 0

    @property
    def changes(self) -> int:
        """A number that changes whenever equal requests might be identified differently."""
        return self._changes + self._names.changes

    # --- Tokens ---------------------------------------------------------------------------------------------------

    def agent_of(self, token: bytes) -> str | None:
        """Return the agent that this token belongs to; None where it is no agent's own."""
        if self._agents and (agent := self._agents.get(_digest(token))) is not None:
            return agent
        if self._run_key is None or not token.startswith(_RUN):
            return None
        try:
            name = base64.urlsafe_b64decode(token[len(_RUN) :].partition(b".")[0] + b"==").decode()
        except ValueError:
            return None
        if fold(name) in self._fixed or not hmac.compare_digest(token, self._run_token(name)):
            return None
        return self._names.add(name)

    def token_of_run(self, agent: str) -> str:
        """Return the token for an agent's process, and bind the name to it until :meth:`run_ended`.

        Where the settings bind the name, it is their token; empty where agents need none.
        """
        key = fold(agent)
        if key in self._fixed:
            return self._fixed[key]
        if self._run_key is None:
            return ""
        self._running.add(key)
        self._changes += 1
        return self._run_token(agent).decode()

    def is_reserved(self, name: str) -> bool:
        """Return whether the settings bind the name to a token."""
        return fold(name) in self._fixed

    def run_ended(self, agent: str) -> None:
        """Unbind the name of an agent whose process has ended."""
        self._running.discard(fold(agent))
        self._changes += 1

    def _run_token(self, agent: str) -> bytes:
        """Return `run.NAME.MAC`: it names its agent, so that no token has to be stored."""
        assert self._run_key is not None
        name = base64.urlsafe_b64encode(agent.encode()).rstrip(b"=")
        mac = blake2b(fold(agent).encode(), key=self._run_key, digest_size=20).hexdigest()
        return _RUN + name + b"." + mac.encode()

    # --- Names ----------------------------------------------------------------------------------------------------

    def spelled(self, name: str) -> str:
        """Return the spelling of the agent that a text names.

        Raises: RequestRefused: it can't be a name, or looks like another agent's.
        """
        try:
            return self._names.spelled(normalised(name))
        except BadName as error:
            raise RequestRefused(400, str(error)) from None

    def derived(self, name: str) -> str:
        """Return the spelling of a name that was made of a client's ids."""
        return self._names.add(name)

    def check(self, agent: str, proven: str | None) -> None:
        """Check that the agent may use that name; `proven` is the agent whose token was shown.

        Raises: RequestRefused: the name is bound to another token.
        """
        if proven is None and not (self._fixed or self._running):
            return
        name = fold(agent)
        if proven is not None:
            if name != fold(proven) and not name.startswith(f"{fold(proven)}/"):
                text = f"the token that was shown is {proven}'s, so the request can't be {agent}'s"
                raise RequestRefused(FINAL_STATUS, text, "not_your_name")
            return
        while name not in self._fixed and name not in self._running:
            name, slash, _ = name.rpartition("/")
            if not slash:
                return
        raise RequestRefused(
            401,
            f"the name {agent} is bound to a token: show it in the header x-hivemind-token, or as /token/TOKEN in the"
            " base URL",
            "unauthorized",
        )

    def check_named(self, named: bool) -> None:
        """Check that the request is named where names are required. Raises: RequestRefused."""
        if self._require_name and not named:
            raise RequestRefused(
                FINAL_STATUS,
                "this proxy takes requests of named agents only (agents.require_name): put /agent/NAME before the path,"
                " as in a base URL, or send the header x-hivemind-agent: NAME",
                "name_required",
            )

    def holds(self, agent: str) -> bool:
        """Return whether the settings say that the agent's answers are held, or those of an agent that it is a part
        of."""
        line = f"{fold(agent)}/" if self._held else ""
        return any(each == "*" or line.startswith(f"{each}/") for each in self._held)

    def priority(self, requested: Priority | None, agent: str) -> Priority | None:
        """Return the priority that a request gets that asks for this one."""
        if requested is None or requested >= self._most_urgent:
            return requested
        self.check_heeded(agent, requested, self._most_urgent, "at most (agents.highest_priority)")
        return self._most_urgent

    def check_heeded(self, agent: str, requested: Priority, given: Priority, why: str = _DECIDED) -> None:
        """Log once of an agent that its requests are given a less urgent priority than they ask for."""
        if given <= requested or agent in self._logged:
            return
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        self._logged.add(agent)
        asked, counted = requested.name.lower(), given.name.lower()
        _log.warning("%s asks for priority %s; its requests count as %s %s", agent, asked, counted, why)


def _digest(token: bytes) -> bytes:
    return blake2b(token, digest_size=32, person=b"hivemind-agent").digest()
