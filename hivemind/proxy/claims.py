"""What requests claim to be, checked: names that are bound to a credential, and how urgent an agent may call itself."""

from __future__ import annotations

import logging
import secrets
from hashlib import blake2b

from hivemind.agent_names import BadName, KnownNames, fold
from hivemind.scheduler.types import Priority
from hivemind.settings.sections import AgentSettings

from .identity import BadIdentity, checked_name

_log = logging.getLogger(__name__)

_MOST_TOLD = 4096
"""Agents of which is remembered that their priority was told to be capped."""


class Claims:
    """The names of one proxy's agents, and the credentials that some of them are bound to."""

    def __init__(self, names: KnownNames, settings: AgentSettings) -> None:
        self._names = names
        self._require_name = settings.require_name
        self._most_urgent = Priority[settings.highest_priority.upper()]
        self._told: set[str] = set()
        self._agents: dict[bytes, str] = {}
        """By the digest of a credential, the agent that it belongs to. Looked up by digest, so that how long it takes
        tells nothing of the credential."""
        self._bound: dict[str, bytes] = {}
        """By an agent's folded name, the digest of its credential: while it runs or, by the settings, always."""
        self._fixed = {fold(name): token.get_secret_value() for name, token in settings.credentials.items()}
        """Credentials of the settings, by folded name."""
        for name in settings.credentials:
            self._bind(names.add(name), self._fixed[fold(name)])

    # --- Credentials ----------------------------------------------------------------------------------------------

    @property
    def any_bound(self) -> bool:
        """Whether a name is bound to a credential at all."""
        return bool(self._bound)

    def agent_of(self, token: bytes) -> str | None:
        """Return the agent that this credential belongs to; None: it is nobody's."""
        return self._agents.get(_digest(token))

    def issue(self, agent: str, token: str = "") -> str:
        """Bind an agent's name to a credential for as long as it runs, and return that: the settings' where they bind
        the name, else `token`, which this proxy issued before it was started anew, or a new one."""
        key = fold(agent)
        if key in self._fixed:
            return self._fixed[key]
        self.withdraw(agent)
        if not token or _digest(token.encode()) in self._agents:
            token = secrets.token_urlsafe(24)
        self._bind(agent, token)
        return token

    def withdraw(self, agent: str) -> None:
        """Release a name that :meth:`issue` has bound."""
        key = fold(agent)
        if key in self._bound and key not in self._fixed:
            del self._agents[self._bound.pop(key)]

    def _bind(self, agent: str, token: str) -> None:
        digest = _digest(token.encode())
        self._agents[digest] = agent
        self._bound[fold(agent)] = digest

    # --- Names ----------------------------------------------------------------------------------------------------

    def spelled(self, name: str) -> str:
        """Return the spelling of the agent that a text names.

        Raises: BadIdentity: it can't be a name, or looks like another agent's.
        """
        try:
            return self._names.spelled(checked_name(name))
        except BadName as error:
            raise BadIdentity(str(error)) from None

    def derived(self, name: str) -> str:
        """Return the spelling of a name that was made of a client's ids."""
        return self._names.add(name)

    def check(self, agent: str, proven: str | None) -> None:
        """See whether the agent may go by that name; `proven` is whose credential was shown.

        Raises: BadIdentity.
        """
        if not self._bound:
            return
        name = fold(agent)
        if proven is not None:
            if name != fold(proven):
                text = f"the token that was shown is {proven}'s, so the request can't be {agent}'s"
                raise BadIdentity(text, 403, "not_your_name")
            return
        while name not in self._bound:
            name, slash, _ = name.rpartition("/")
            if not slash:
                return
        raise BadIdentity(
            f"the name {agent} is bound to a token: show it in the header x-hivemind-token, or as /token/TOKEN in the"
            " base URL",
            401,
            "unauthorized",
        )

    def check_named(self, named: bool) -> None:
        """See whether a request without a name may pass. Raises: BadIdentity."""
        if self._require_name and not named:
            raise BadIdentity(
                "this proxy takes requests of named agents only (agents.require_name): put /agent/NAME before the path,"
                " as in a base URL, or send the header x-hivemind-agent: NAME",
                403,
                "name_required",
            )

    def priority(self, asked: Priority | None, agent: str) -> Priority | None:
        """Return what a request that calls itself so urgent counts as."""
        if asked is None or asked >= self._most_urgent:
            return asked
        if agent not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(agent)
            _log.warning(
                "%s asks for priority %s; its requests count as %s at most (agents.highest_priority)",
                agent,
                asked.name.lower(),
                self._most_urgent.name.lower(),
            )
        return self._most_urgent


def _digest(token: bytes) -> bytes:
    return blake2b(token, digest_size=32, person=b"hivemind-agent").digest()
