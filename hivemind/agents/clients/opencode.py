"""opencode: https://opencode.ai/docs/config"""

from __future__ import annotations

from hivemind.agents.clients.arguments import Syntax, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client, home, parse_json, read_json
from hivemind.setup.routes import INLINE_TOKEN, opencode_providers

_VARIABLE = "OPENCODE_CONFIG_CONTENT"
"""Configuration that overrides that of files."""


def _variables(call: Call) -> None:
    import json

    ours: dict[str, object] = {"provider": opencode_providers(call.base_with(INLINE_TOKEN) + "/v1")}
    try:
        call.environ[_VARIABLE] = json.dumps(_merged(json.loads(call.environ.get(_VARIABLE) or "{}"), ours))
    except (ValueError, TypeError):
        return  # opencode itself says what is wrong with it


def _merged(given: object, ours: dict[str, object]) -> dict[str, object]:
    """Return both, ours where they differ. Raises: TypeError: `given` isn't an object."""
    if not isinstance(given, dict):
        raise TypeError
    found = {**given}
    for key, value in ours.items():
        found[key] = _merged(given.get(key, {}), value) if isinstance(value, dict) else value
    return found


_SYNTAX = Syntax(
    values="--log-level --command -s --session -m --model --agent --format --title --attach -p --password -u --username"
    " --dir --port --variant --hostname --mdns-domain --prompt --replay-limit",
    lists="-f --file --cors",
    flags="--print-logs --pure -c --continue --fork --share --thinking -i --interactive --auto --mdns --mini"
    " --no-replay",
    commands="acp agent attach auth completion db debug export github import mcp models plug plugin pr"
    " providers serve session stats uninstall upgrade web",
)
"""`opencode --help` and `opencode run --help` of 1.18."""
_OTHER_SESSION = frozenset(("-s", "--session", "-c", "--continue", "--fork", "--title", "--prompt", "--command"))
_ATTACHED = frozenset(("-f", "--file"))
"""To the original prompt."""


def _prompt(call: Call) -> str:
    words = split(call.arguments, _SYNTAX)
    plain = [each for each in words if not each.name]
    if plain and plain[0].value == "run":
        words.remove(plain[0])
        return prompt_in(words)
    return next((each.value for each in words if each.name == "--prompt"), "")


def _resume(call: Call, session: str) -> str | None:
    words = split(call.arguments, _SYNTAX)
    plain = [each for each in words if not each.name]
    command = plain[0].value if plain else ""
    if command in _SYNTAX.commands:
        return f"`opencode {command}` has no session"
    if command == "run":
        words.remove(plain[0])
        shown = has(words, "-i", "--interactive")
        prompt = [GO_ON] if not shown or prompt_in(words) else []
        call.arguments[:] = ["run", *options(words, _OTHER_SESSION | _ATTACHED), "--session", session, *prompt]
        call.no_input = not shown
    else:
        asked = has(words, "--prompt")
        kept = [each for word in words if word.name not in _OTHER_SESSION for each in word.words]  # and its project
        call.arguments[:] = [*kept, "--session", session, *(["--prompt", GO_ON] if asked else [])]
    return None


def _past(call: Call) -> str:
    import os

    model = next((each.value for each in split(call.arguments, _SYNTAX) if each.name in ("-m", "--model")), None)
    config = call.environ.get("XDG_CONFIG_HOME") or os.path.join(home(call.environ), ".config")
    files = [parse_json(call.environ.get(_VARIABLE, "")), read_json("opencode.json")]
    files.append(read_json(config, "opencode", "opencode.json"))
    provider, slash, _ = str(model or next((each["model"] for each in files if "model" in each), "")).partition("/")
    return "" if not slash or provider in opencode_providers("") else f"they go to its provider {provider}"


CLIENT = Client("opencode", "opencode", variables=_variables, resume=_resume, prompt=_prompt, past=_past)
