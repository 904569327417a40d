"""Checks of what requests claim: names that are bound to a token, and the priority that an agent may ask for."""

from __future__ import annotations

import base64
import hmac
import logging
from hashlib import blake2b

from hivemind.agent_names import BadName, KnownNames, fold, normalised
from hivemind.scheduler.types import Priority
from hivemind.settings.sections import AgentSettings
from hivemind.wire.refusal import RequestRefused

_log = logging.getLogger(__name__)

_RUN = b"run."
_MOST_LOGGED = 4096
"""Agents whose capped priority was logged, and isn't again."""


class Claims:
    """The names of one proxy's agents, and the tokens that some of them are bound to."""

    def __init__(self, names: KnownNames, settings: AgentSettings, token: bytes | None = None) -> None:
        """`token` is the agents' token, where one is required."""
        self._names = names
        self._require_name = settings.require_name
        self._most_urgent = Priority[settings.highest_priority.upper()]
        self._logged: set[str] = set()
        self._run_key = None if token is None else blake2b(token, digest_size=32, person=b"hivemind-runs").digest()
        """Key of the runs' tokens; derived from the agents' token, so that they are valid for the next proxy too."""
        self._running: set[str] = set()
        """Folded names of agents whose process runs with a token of its own."""
        self._fixed = {fold(name): value.get_secret_value() for name, value in settings.credentials.items()}
        """Tokens of the settings, by folded name."""
        self._agents = {_digest(self._fixed[fold(name)].encode()): names.add(name) for name in settings.credentials}
        """Agents by the digest of their token in the settings. By digest, so that the time of a lookup tells nothing of
        the token."""

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
        return self._run_token(agent).decode()

    def run_ended(self, agent: str) -> None:
        """Unbind the name of an agent whose process has ended."""
        self._running.discard(fold(agent))

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
            if name != fold(proven):
                text = f"the token that was shown is {proven}'s, so the request can't be {agent}'s"
                raise RequestRefused(403, text, "not_your_name")
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
                403,
                "this proxy takes requests of named agents only (agents.require_name): put /agent/NAME before the path,"
                " as in a base URL, or send the header x-hivemind-agent: NAME",
                "name_required",
            )

    def priority(self, asked: Priority | None, agent: str) -> Priority | None:
        """Return the priority that a request gets that asks for this one."""
        if asked is None or asked >= self._most_urgent:
            return asked
        if agent not in self._logged:
            if len(self._logged) >= _MOST_LOGGED:
                self._logged.clear()
            self._logged.add(agent)
            _log.warning(
                "%s asks for priority %s; its requests count as %s at most (agents.highest_priority)",
                agent,
                asked.name.lower(),
                self._most_urgent.name.lower(),
            )
        return self._most_urgent


def _digest(token: bytes) -> bytes:
    return blake2b(token, digest_size=32, person=b"hivemind-agent").digest()
