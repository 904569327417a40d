"""The forms that snippets take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hivemind.setup.model import Snippet, Target
from hivemind.setup.variables import value_of
from hivemind.text import shells

HERE = "In the shell that starts it"
_BARE_IN_DOTENV = re.compile(r"[\w@%+=:,./{}~[\]-]*", re.ASCII)


def exports(target: Target, values: Mapping[str, str]) -> str:
    """A line for each variable."""
    return "\n".join(shells.exported(target.shell, name, value) for name, value in values.items())


def pointed(target: Target, variable: str) -> str:
    """The line that points whatever reads this variable at the proxy."""
    return shells.exported(target.shell, variable, value_of(variable, target.base))


def in_json(where: str, content: object) -> Snippet:
    """Return a snippet of a JSON file."""
    return Snippet(where, json.dumps(content, indent=2, ensure_ascii=False), "json")


def dotenv(where: str, values: Mapping[str, str]) -> Snippet:
    """A file of variables."""
    return Snippet(where, "\n".join(f"{name}={_dotenv_value(value)}" for name, value in values.items()), "dotenv")


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
