"""Mistral's Vibe, whose variables override its files: https://docs.mistral.ai/mistral-vibe/terminal/configuration"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client, home, listed, loads, read_toml
from hivemind.setup.routes import VIBE_MISTRAL, VIBE_PROVIDERS


def _home(call: Call) -> str:
    return call.environ.get("VIBE_HOME") or os.path.join(home(call.environ), ".vibe")


def _variables(call: Call) -> None:
    """Point the provider `mistral`; the variable takes precedence of the file by name."""
    import json

    try:
        given = loads(call.environ.get(VIBE_PROVIDERS) or "[]")
    except ValueError:
        given = []
    own = {
        str(each.get("name")): each
        for each in (*listed(read_toml(_home(call), "config.toml").get("providers")), *listed(given))
    }
    own["mistral"] = {**VIBE_MISTRAL, **own.get("mistral", {}), "api_base": f"{call.base}/v1"}
    call.environ[VIBE_PROVIDERS] = json.dumps([*own.values()])


def _past(call: Call) -> str:
    settings = read_toml(_home(call), "config.toml")
    model = call.environ.get("VIBE_ACTIVE_MODEL") or settings.get("active_model")
    models = [each for each in listed(settings.get("models")) if model in (each.get("alias"), each.get("name"))]
    provider = next((each.get("provider") for each in models), "mistral")
    return "" if model is None or provider == "mistral" else f"they go to its provider {provider}"


_SYNTAX = Syntax(
    values="--workdir --output --max-turns --max-price --max-tokens --time-limit --prompt-file --output-dir --agent"
    " --enabled-tools --disabled-tools --add-dir",
    maybe="-p --prompt --resume --worktree",
    flags="-v --version -c --continue --setup --auto-approve --yolo --smart-approve --trust --check-upgrade -h --help",
    commands="mcp help",
)
"""`vibe --help` of 3.0."""
_PROMPT = ("-p", "--prompt", "--prompt-file")


def _prompt(call: Call) -> str:
    words = split(call.arguments, _SYNTAX)
    return next((each.value for each in words if each.name in _PROMPT[:2]), "") or prompt_in(words)


def _resume(call: Call, session: str) -> str | None:
    words = split(call.arguments, _SYNTAX)
    if not os.path.isdir(os.path.join(_home(call), "logs", "session", "unified", session)):
        return f"it keeps no session {session} any more"
    alone = has(words, *_PROMPT) or not call.terminal
    asked = [GO_ON] if alone or prompt_in(words) else []
    kept = options(words, (*_PROMPT, "--resume", "-c", "--continue"))
    call.arguments[:] = [*kept, "--resume", session, *(["-p"] if alone else []), *asked]
    call.no_input = alone
    return None


CLIENT = Client("vibe", "vibe", variables=_variables, resume=_resume, prompt=_prompt, past=_past)
