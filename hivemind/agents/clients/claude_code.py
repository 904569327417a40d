"""Claude Code: https://code.claude.com/docs/en/settings"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client

_VARIABLE = "ANTHROPIC_BASE_URL"
_FLAG = "--settings"


def _flags(call: Call) -> None:
    """Give it settings, with the user's own: `env` of a settings.json overrides variables, and this overrides that."""
    import json

    given, rest = _taken_out(call.arguments)
    settings: object = {}
    if given is not None:
        try:
            if given.lstrip().startswith("{"):
                settings = json.loads(given)
            else:
                with open(given, encoding="utf-8") as file:
                    settings = json.load(file)
        except (OSError, ValueError):
            return  # Claude Code itself says what is wrong with them
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        return
    settings["env"] = {**settings.get("env", {}), _VARIABLE: call.base}
    text: str | None = json.dumps(settings)
    if call.token or given is not None:  # they may hold secrets, and other users can read command lines
        text = call.kept("claude.json", json.dumps(settings))
    if text is not None:
        call.arguments[:] = [_FLAG, text, *rest]


def _taken_out(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of the last --settings, and the arguments without it."""
    given: str | None = None
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == _FLAG:
            given = next(words, None)
        elif word.startswith(_FLAG + "="):
            given = word.partition("=")[2]
        else:
            rest.append(word)
    return given, rest


CLIENT = Client("claude-code", "claude", flags=_flags)
