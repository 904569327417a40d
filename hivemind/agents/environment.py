"""The environment of an agent's process: the proxy's address in every variable that an SDK reads, and its own name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from urllib.parse import quote, urlsplit

from hivemind.agents.clients import launchers
from hivemind.agents.clients.facts import RESUME_FILE_VARIABLE, RESUME_VARIABLE, ROUTE_VARIABLE, Call, set_variables
from hivemind.agents.clients.known import PROGRAMS, client_of
from hivemind.agents.clients.shim import is_shims
from hivemind.agents.clients.shims import START, path_without_shims, shims_for
from hivemind.api_types import PlaceResponse
from hivemind.control.discovery import AGENT_VARIABLE, RUN_TOKEN_VARIABLE, STATE_VARIABLE, URL_VARIABLE
from hivemind.providers.profiles import profile_for
from hivemind.records import replace
from hivemind.settings import without_secrets
from hivemind.setup.clients import Target
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE
from hivemind.upstream.origin import is_loopback
from hivemind.wire.request_head import HOLD

TASK_VARIABLE = "HIVEMIND_TASK"
_NOT_FOR_RUNS = {TASK_VARIABLE, RUN_TOKEN_VARIABLE, RESUME_VARIABLE, RESUME_FILE_VARIABLE}
"""Variables of the runner that a run's processes don't get, because they are another run's."""


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """The route from agents' processes to the proxy."""

    url: str
    """Its base URL, without a slash at the end."""
    token: str | None = field(default=None, repr=False)
    upstreams: tuple[tuple[str, str], ...] = ()
    """Name and URL of each."""
    to: str | None = None
    """The upstream that every request goes to; None: by the path."""
    state_dir: Path | None = None
    """The folder of the proxy's note, also for files of ours; None: there is none."""
    hold_answers: bool = False
    """Their streams are held until they are whole."""
    run_token: str = field(default="", repr=False)
    """The run's token for the control API; empty: there is none."""

    def with_tokens(self, place: PlaceResponse) -> ProxyRoute:
        """Return the route with the tokens of a run."""
        return replace(self, token=place.token or self.token, run_token=place.run_token)

    def base(self, agent: str) -> str:
        """Return the agent's base URL."""
        return self.target(agent).base.replace(TOKEN, quote(self.token or "", safe=""), 1)

    def target(self, agent: str) -> Target:
        """Return the agent's target, without the token."""
        url = f"{self.url}/{HOLD.decode()}" if self.hold_answers else self.url
        url = url if self.to is None else f"{url}/to/{self.to}"
        return Target(url, agent, token=self.token is not None)


def environment_for(
    way: ProxyRoute, agent: str, environ: Mapping[str, str], *, task: str | None = None
) -> dict[str, str]:
    """Return `environ` with the variables that lead an agent's process to the proxy, and shims in front of its PATH."""
    made = {key: value for key, value in without_secrets(environ).items() if key not in _NOT_FOR_RUNS}
    base = way.base(agent)
    made |= {AGENT_VARIABLE: agent, URL_VARIABLE: way.url, ROUTE_VARIABLE: base}
    if task is not None:
        made[TASK_VARIABLE] = task
    if way.token is not None:
        made[TOKEN_VARIABLE] = way.token
    if way.run_token:
        made[RUN_TOKEN_VARIABLE] = way.run_token
    elif way.state_dir is not None:
        made[STATE_VARIABLE] = str(way.state_dir.expanduser().absolute())
    path = path_without_shims(made.get("PATH", os.defpath))
    shims = None if way.state_dir is None else shims_for(way.state_dir, path)
    if shims is not None:
        made["PATH"] = f"{shims}{os.pathsep}{path}"
    call = Call([], made, base, "" if shims is None else str(shims))
    azure = any(profile_for(url).name == "azure" for name, url in way.upstreams if way.to in (None, name))
    set_variables(call, azure=azure)
    for client in map(client_of, PROGRAMS):
        if client is not None:
            client.variables(call)
    return made | _no_proxy(way, environ)


def command_for(command: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command to start in a run's environment: a client that is named by its path is started by the shim."""
    shims = environ.get("PATH", "").partition(os.pathsep)[0]
    folder = shims if is_shims(shims) else ""
    if PurePath(command[0]).name not in (*PROGRAMS, *launchers.LAUNCHERS) or (os.sep not in command[0] and folder):
        return command
    return (*START, folder, environ.get("LC_CTYPE", ""), *command)


def _no_proxy(way: ProxyRoute, environ: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(way.url).hostname or ""
    given = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not is_loopback(way.url) or given.strip() == "*":
        return {}
    names = [name.strip() for name in given.split(",") if name.strip()]
    joined = ",".join(dict.fromkeys((*names, "127.0.0.1", "localhost", "::1", host)))
    return {"NO_PROXY": joined, "no_proxy": joined}
