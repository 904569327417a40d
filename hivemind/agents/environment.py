"""The environment of an agent's process: the proxy's address in every variable that an SDK reads, and its own name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote, urlsplit

from hivemind.api_types import PlaceResponse
from hivemind.control.discovery import (
    AGENT_VARIABLE,
    RUN_TOKEN_VARIABLE,
    STATE_VARIABLE,
    URL_VARIABLE,
    is_loopback,
)
from hivemind.control.discovery import TOKEN_VARIABLE as CONTROL_TOKEN_VARIABLE
from hivemind.providers.profiles import profile_for
from hivemind.setup.clients import (
    COPILOT_MODEL,
    GEMINI_SETTINGS,
    INLINE_TOKEN,
    SUFFIXES,
    Target,
    codex_settings,
    opencode_providers,
)
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE

TASK_VARIABLE = "HIVEMIND_TASK"
_NOT_FOR_RUNS = {TASK_VARIABLE, RUN_TOKEN_VARIABLE, CONTROL_TOKEN_VARIABLE, "HIVEMIND_FLEET"}
"""Variables of the runner that a run's processes don't get: another run's, and the operator's credentials."""
_OPENCODE = "OPENCODE_CONFIG_CONTENT"
_GEMINI_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
"""The settings that count where the user's own say nothing: https://geminicli.com/docs/reference/configuration"""


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
        url = self.url if self.to is None else f"{self.url}/to/{self.to}"
        return Target(url, agent, token=self.token is not None)


def environment_for(
    way: ProxyRoute, agent: str, environ: Mapping[str, str], *, program: str = "", task: str | None = None
) -> dict[str, str]:
    """Return `environ` with the variables that lead an agent's process to the proxy; some depend on the program."""
    made = {key: value for key, value in environ.items() if key not in _NOT_FOR_RUNS}
    made |= {AGENT_VARIABLE: agent, URL_VARIABLE: way.url}
    if task is not None:
        made[TASK_VARIABLE] = task
    if way.token is not None:
        made[TOKEN_VARIABLE] = way.token
    if way.run_token:
        made[RUN_TOKEN_VARIABLE] = way.run_token
    elif way.state_dir is not None:
        made[STATE_VARIABLE] = str(way.state_dir.expanduser().absolute())
    base = way.base(agent)
    azure = any(profile_for(url).name == "azure" for name, url in way.upstreams if way.to in (None, name))
    made |= {name: base + end for name, end in SUFFIXES.items() if name != "AZURE_OPENAI_ENDPOINT" or azure}
    made[_OPENCODE] = _opencode(way, agent, environ.get(_OPENCODE, ""))
    made |= _no_proxy(way, environ)
    match PurePath(program).name:
        case "copilot":
            made.update(_copilot(base, environ))
        case "gemini":
            made.update(_gemini(way, environ))
    return made


def command_for(way: ProxyRoute, agent: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command to start: Codex reads no variable for its base URL, so it gets flags."""
    if PurePath(command[0]).name != "codex":
        return command
    # Before the user's flags, because the last one holds.
    flags = (each for setting in codex_settings(way.target(agent)) for each in ("-c", setting))
    return (command[0], *flags, *command[1:])


def _opencode(way: ProxyRoute, agent: str, given: str) -> str:
    url = way.target(agent).base.replace(TOKEN, INLINE_TOKEN) + "/v1"
    try:
        config: Any = json.loads(given or "{}")
        return json.dumps(_merged(config, {"provider": opencode_providers(url)}))
    except (json.JSONDecodeError, TypeError):
        return given  # opencode itself says what is wrong with it


def _merged(given: Any, ours: dict[str, Any]) -> dict[str, Any]:
    """Return both, ours where they differ. Raises: TypeError: `given` isn't an object."""
    merged = {**given}
    for key, value in ours.items():
        merged[key] = _merged(given.get(key, {}), value) if isinstance(value, dict) else value
    return merged


def _no_proxy(way: ProxyRoute, environ: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(way.url).hostname or ""
    given = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not is_loopback(way.url) or given.strip() == "*":
        return {}
    names = [name.strip() for name in given.split(",") if name.strip()]
    joined = ",".join(dict.fromkeys((*names, "127.0.0.1", "localhost", "::1", host)))
    return {"NO_PROXY": joined, "no_proxy": joined}


def _copilot(base: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Only models with the user's own key can be redirected: https://docs.github.com/en/copilot/how-tos/copilot-cli"""
    kind = environ.get("COPILOT_PROVIDER_TYPE") or ("anthropic" if environ.get("ANTHROPIC_API_KEY") else "")
    if kind == "anthropic":
        yield "COPILOT_PROVIDER_TYPE", kind
        yield "COPILOT_PROVIDER_BASE_URL", base
        key = environ.get("COPILOT_PROVIDER_API_KEY") or environ.get("ANTHROPIC_API_KEY", "")
        yield "COPILOT_PROVIDER_API_KEY", key
        yield "COPILOT_MODEL", environ.get("COPILOT_MODEL") or COPILOT_MODEL
    elif kind == "openai" or environ.get("COPILOT_PROVIDER_BASE_URL"):
        yield "COPILOT_PROVIDER_BASE_URL", f"{base}/v1"


def _gemini(way: ProxyRoute, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Without a terminal Gemini starts only if settings name a login; the user's settings take precedence."""
    if way.state_dir is None or not environ.get("GEMINI_API_KEY") or environ.get(_GEMINI_DEFAULTS):
        return
    path = way.state_dir / "gemini-defaults.json"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(json.dumps(GEMINI_SETTINGS) + "\n", "utf-8")
    except OSError:
        return  # Gemini itself reports the missing login
    yield _GEMINI_DEFAULTS, str(path)
