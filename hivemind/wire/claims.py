"""What requests claim to be, checked: names that are bound to a credential, and how urgent an agent may call itself."""

from __future__ import annotations

import base64
import hmac
import logging
from hashlib import blake2b

from hivemind.agent_names import BadName, KnownNames, fold
from hivemind.scheduler.types import Priority
from hivemind.settings.sections import AgentSettings
from hivemind.wire.identity import BadIdentity, checked_name

_log = logging.getLogger(__name__)

_RUN = b"run."
_MOST_TOLD = 4096
"""Agents of which is remembered that their priority was told to be capped."""


class Claims:
    """The names of one proxy's agents, and the credentials that some of them are bound to."""

    def __init__(self, names: KnownNames, settings: AgentSettings, token: bytes | None = None) -> None:
        """`token` is what all agents must show, where they must."""
        self._names = names
        self._require_name = settings.require_name
        self._most_urgent = Priority[settings.highest_priority.upper()]
        self._told: set[str] = set()
        self._run_key = None if token is None else blake2b(token, digest_size=32, person=b"hivemind-runs").digest()
        """Makes the tokens of runs. Made of the agents' token, so that a run's is good for the next proxy too."""
        self._running: set[str] = set()
        """Folded names of agents whose process runs and has a token of its own."""
        self._fixed = {fold(name): value.get_secret_value() for name, value in settings.credentials.items()}
        """Tokens of the settings, by folded name."""
        self._agents = {_digest(self._fixed[fold(name)].encode()): names.add(name) for name in settings.credentials}
        """By the digest of a token of the settings, the agent that it belongs to. Looked up by digest, so that how long
        it takes tells nothing of the token."""

    # --- Credentials ----------------------------------------------------------------------------------------------

    def agent_of(self, token: bytes) -> str | None:
        """Return the agent that this token belongs to; None: it is no agent's own."""
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
        """Return the token that an agent's process gets, and bind the name to it until :meth:`run_ended`; the settings'
        where they bind the name. Empty: the process needs none, because agents need none here."""
        key = fold(agent)
        if key in self._fixed:
            return self._fixed[key]
        if self._run_key is None:
            return ""
        self._running.add(key)
        return self._run_token(agent).decode()

    def run_ended(self, agent: str) -> None:
        """The agent's process has ended, so its name is free again."""
        self._running.discard(fold(agent))

    def _run_token(self, agent: str) -> bytes:
        """`run.NAME.MAC`: it says whose it is, so that nothing has to be kept of it."""
        assert self._run_key is not None
        name = base64.urlsafe_b64encode(agent.encode()).rstrip(b"=")
        mac = blake2b(fold(agent).encode(), key=self._run_key, digest_size=20).hexdigest()
        return _RUN + name + b"." + mac.encode()

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
        if proven is None and not (self._fixed or self._running):
            return
        name = fold(agent)
        if proven is not None:
            if name != fold(proven):
                text = f"the token that was shown is {proven}'s, so the request can't be {agent}'s"
                raise BadIdentity(text, 403, "not_your_name")
            return
        while name not in self._fixed and name not in self._running:
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
