"""Gemini CLI: https://geminicli.com/docs/reference/configuration"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, Word, has, options, prompt_in, split
from hivemind.agents.clients.facts import GO_ON, Call, Client, at, has_file, home, read_json
from hivemind.setup.routes import GEMINI_SETTINGS

_DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
"""Settings that count where the user's own say nothing."""


def _variables(call: Call) -> None:
    """Name a login in settings: without a terminal it starts only then. The user's settings take precedence."""
    if call.environ.get("GEMINI_API_KEY") and not call.environ.get(_DEFAULTS):
        import json

        path = call.kept("gemini-defaults.json", json.dumps(GEMINI_SETTINGS) + "\n")
        if path is not None:  # else Gemini itself reports the missing login
            call.environ[_DEFAULTS] = path


def _past(call: Call) -> str:
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"):
        if call.environ.get(name, "").lower() == "true":
            return f"{name} is set"
    kind = ""
    for folder in (call.environ.get("GEMINI_CLI_HOME") or home(call.environ), "."):
        own = at(read_json(folder, ".gemini", "settings.json"), "security", "auth").get("selectedType")
        kind = own if isinstance(own, str) else kind
    return "" if kind in ("", "gemini-api-key", "gateway") else f"its login is {kind}"


_SYNTAX = Syntax(
    values="-m --model -p --prompt -i --prompt-interactive --approval-mode --policy --admin-policy"
    " --allowed-mcp-server-names --allowed-tools -e --extensions -r --resume --session-file --session-id"
    " --delete-session --include-directories -o --output-format",
    maybe="-w --worktree",
    flags="-d --debug --skip-trust -s --sandbox -y --yolo --acp --experimental-acp -l --list-extensions --list-sessions"
    " --screen-reader --raw-output --accept-raw-output-risk -v --version -h --help",
    commands="extension extensions gemma hook hooks mcp skill skills",
)
"""`gemini --help` of 0.61."""
_OTHER_SESSION = ("-r", "--resume", "--session-file", "--session-id")
_PROMPT = ("-p", "--prompt", "-i", "--prompt-interactive")
_NO_SESSION = ("--acp", "--experimental-acp", "-l", "--list-extensions", "--list-sessions", "--delete-session", "-v")
_HEADERS_VARIABLE, _HEADER = "GEMINI_CLI_CUSTOM_HEADERS", "x-hivemind-session"


def name_session(call: Call) -> None:
    """Have each request name its session, as other clients do; the header isn't sent upstream."""
    words = split(call.arguments, _SYNTAX)
    if _command(words) or has(words, *_NO_SESSION, "--version", "-h", "--help", "--session-file"):
        return
    named = next((each.value for each in words if each.name in ("--session-id", "-r", "--resume")), None)
    if named is None:
        named = _new_id()
        call.arguments[:0] = ["--session-id", named]
    given = call.environ.get(_HEADERS_VARIABLE, "").split(",")
    others = [each for each in given if each and not each.strip().lower().startswith(f"{_HEADER}:")]
    if named.count("-") == 4:  # else it is the latest session, or one by its number
        others.append(f"{_HEADER}: {named}")
    if any(given) or others:
        call.environ[_HEADERS_VARIABLE] = ",".join(others)


def _new_id() -> str:
    """Return a random UUID (version 4); importing `uuid` takes longer."""
    made = bytearray(os.urandom(16))
    made[6], made[8] = made[6] & 0x0F | 0x40, made[8] & 0x3F | 0x80
    text = made.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _command(words: list[Word]) -> str:
    plain = next((each.value for each in words if not each.name), "")
    return plain if plain in _SYNTAX.commands else ""


def _prompt(call: Call) -> str:
    words = split(call.arguments, _SYNTAX)
    return next((each.value for each in words if each.name in _PROMPT), "") or prompt_in(words)


def _resume(call: Call, session: str) -> str | None:
    words = split(call.arguments, _SYNTAX)
    if command := _command(words):
        return f"`gemini {command}` has no session"
    folder = os.path.join(call.environ.get("GEMINI_CLI_HOME") or home(call.environ), ".gemini", "tmp")
    if not has_file(folder, f"-{session[:8]}.jsonl", f"-{session[:8]}.json"):
        return f"it keeps no session {session} any more"
    alone = has(words, "-p", "--prompt") or not call.terminal
    asked = alone or has(words, *_PROMPT) or bool(prompt_in(words))
    prompt = [] if not asked else ["--prompt" if alone else "--prompt-interactive", GO_ON]
    call.arguments[:] = [*options(words, (*_OTHER_SESSION, *_PROMPT)), "--resume", session, *prompt]
    call.no_input = alone
    return None


CLIENT = Client(
    "gemini-cli", "gemini", variables=_variables, flags=name_session, resume=_resume, prompt=_prompt, past=_past
)
