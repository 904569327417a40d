"""Snippets in the forms of shells and files, and the variables that point SDKs and clients at the proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hivemind.setup.model import Snippet, Target
from hivemind.text import shells

HERE = "In the shell that starts it"
_BARE_IN_DOTENV = re.compile(r"[\w@%+=:,./{}~[\]-]*", re.ASCII)
SUFFIXES: Mapping[str, str] = {
    "ANTHROPIC_BASE_URL": "",  # Anthropic's SDKs, Claude Code
    "ANTHROPIC_API_BASE": "",  # LiteLLM, and aider through it
    "OPENAI_BASE_URL": "/v1",  # OpenAI's SDKs
    "OPENAI_API_BASE": "/v1",  # LiteLLM, aider, LangChain
    "GOOGLE_GEMINI_BASE_URL": "",  # Google's Gen AI SDKs, Gemini CLI
    "OLLAMA_HOST": "",  # Ollama and its SDKs
    "OLLAMA_API_BASE": "",  # LiteLLM, aider
    "AZURE_OPENAI_ENDPOINT": "",  # OpenAI's SDKs, before an upstream at Azure
}
"""By variable, what follows the proxy's address in its value."""


def value_of(variable: str, base: str) -> str:
    """What it is to hold where `base` is the proxy's address with the agent's name."""
    return base + SUFFIXES[variable]


def exports(target: Target, *variables: str) -> str:
    """Return the lines that point whatever reads these variables at the proxy."""
    return "\n".join(shells.exported(target.shell, name, value_of(name, target.base)) for name in variables)


def in_json(where: str, content: object) -> Snippet:
    """Return a snippet of a JSON file."""
    return Snippet(where, json.dumps(content, indent=2, ensure_ascii=False), "json")


def dotenv(where: str, target: Target, *variables: str) -> Snippet:
    """Return a snippet of a file of variables that point at the proxy."""
    lines = [f"{name}={_dotenv_value(value_of(name, target.base))}" for name in variables]
    return Snippet(where, "\n".join(lines), "dotenv")


def toml_text(text: str) -> str:
    """A basic string of TOML, whose escapes include all of JSON's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dotenv_value(text: str) -> str:
    """In single quotes, within which no variable is read: https://saurabh-kumar.com/python-dotenv/reference/"""
    if _BARE_IN_DOTENV.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unset(target: Target, *names: str, also: str = "") -> Snippet:
    """Take the variables away again."""
    where = f"To undo it, and {also}" if also else "To undo it"
    return Snippet(where, shells.removed(target.shell, *names), "shell")


def nothing_to_paste(how: str) -> Snippet:
    """Return a snippet for a step that is done by hand."""
    return Snippet(how, "", "shell")
