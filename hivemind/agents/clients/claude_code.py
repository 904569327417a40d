"""Claude Code: https://code.claude.com/docs/en/settings"""

from __future__ import annotations

from hivemind.agents.clients.facts import Call, Client

_VARIABLE = "ANTHROPIC_BASE_URL"
_FLAG = "--settings"


def _lead(call: Call) -> None:
    """`env` of a settings.json overrides variables; settings on the command line override those of files."""
    import json
    import os

    call.environ[_VARIABLE] = call.base
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
            return  # Claude Code itself says what is wrong with it
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        return
    settings["env"] = {**settings.get("env", {}), _VARIABLE: call.base}
    text = json.dumps(settings)
    if call.token or given is not None:  # they may hold secrets, and other users can read command lines
        if not call.folder:
            return
        path = os.path.join(call.folder, f"claude-{os.getpid()}.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        text = path
    call.arguments[:] = [_FLAG, text, *rest]


def _taken_out(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of the user's last --settings, and the arguments without it."""
    given, rest, words = None, [], iter(arguments)
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


CLIENT = Client("claude-code", "claude", lead=_lead)
