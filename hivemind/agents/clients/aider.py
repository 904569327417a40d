"""aider: https://aider.chat/docs/config/dotenv.html"""

from __future__ import annotations

import os

from hivemind.agents.clients.arguments import Syntax, has, set_values, split, value_of
from hivemind.agents.clients.facts import GO_ON, Call, Client, read_text
from hivemind.setup.routes import SUFFIXES

_FLAG, _VARIABLE = "--env-file", "AIDER_ENV_FILE"
_NAMES = ("ANTHROPIC_API_BASE", "OPENAI_API_BASE", "OLLAMA_API_BASE")
_OURS = "# The path of the run, from hivemind run:"


def _variables(call: Call) -> None:
    """Override `openai-api-base` of .aider.conf.yml."""
    call.environ["AIDER_OPENAI_API_BASE"] = call.base + SUFFIXES["OPENAI_API_BASE"]


def _flags(call: Call) -> None:
    """Give it a last .env file, with the user's own: variables of these files override those of the environment."""
    given = value_of(call.arguments, _FLAG) or call.environ.get(_VARIABLE, "")
    try:
        text = read_text(os.path.expanduser(given), given=True).partition(_OURS)[0]
    except (OSError, ValueError):
        text = ""  # aider goes on without it too
    ours = [f"{name}={call.base}{SUFFIXES[name]}" for name in _NAMES]
    ours.append(f"AIDER_OPENAI_API_BASE={call.base}{SUFFIXES['OPENAI_API_BASE']}")
    path = call.kept("aider.env", "\n".join([*([text.rstrip("\n")] if text else []), _OURS, *ours, ""]))
    if path is None:
        return
    call.environ[_VARIABLE] = path
    set_values(call.arguments, path, _FLAG)


_MESSAGE = ("-m", "--message", "--msg", "-f", "--message-file")
_SYNTAX = Syntax(values=" ".join(_MESSAGE))
"""All others are kept, with the names of files, so it doesn't matter which take a value."""
_VARIABLES = ("AIDER_MESSAGE", "AIDER_MESSAGE_FILE")


def _prompt(call: Call) -> str:
    words = split(call.arguments, _SYNTAX)
    return next((each.value for each in words if each.name in _MESSAGE[:3]), "")


def _resume(call: Call, session: str) -> str | None:
    """It has no sessions, but a history of all chats in a folder: https://aider.chat/docs/config/options.html"""
    words = split(call.arguments, _SYNTAX)
    asked = has(words, *_MESSAGE) or any([call.environ.pop(name, "") for name in _VARIABLES])
    kept = [each for word in words if word.name not in _MESSAGE for each in word.words]
    call.arguments[:] = ["--restore-chat-history", *(["--message", GO_ON] if asked else []), *kept]
    return None


_SERVED = ("anthropic", "openai", "ollama", "ollama_chat", "azure")
_OTHERS = ("gemini", "flash", "deepseek", "r1", "grok", "quasar", "optimus")
"""What short names of other providers' models begin with (`aider --help`, 0.86)."""


def _past(call: Call) -> str:
    model = value_of(call.arguments, "--model") or call.environ.get("AIDER_MODEL", "")
    provider, slash, _ = model.partition("/")
    if (slash and provider not in _SERVED) or (not slash and model.startswith(_OTHERS)):
        return f"they go to the provider of {model}"
    return ""


CLIENT = Client("aider", "aider", variables=_variables, flags=_flags, resume=_resume, prompt=_prompt, past=_past)
