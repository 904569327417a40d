"""The forms that snippets take."""

from __future__ import annotations

import json
from collections.abc import Mapping

from . import shells
from .model import Snippet, Target
from .variables import value_of

HERE = "In the shell that starts it"


def exports(target: Target, values: Mapping[str, str]) -> str:
    """A line for each variable."""
    return "\n".join(shells.exported(target.shell, name, value) for name, value in values.items())


def pointed(target: Target, variable: str) -> str:
    """The line that points whatever reads this variable at the proxy."""
    return shells.exported(target.shell, variable, value_of(variable, target.base))


def in_json(where: str, content: object) -> Snippet:
    """A JSON file."""
    return Snippet(where, json.dumps(content, indent=2, ensure_ascii=False), "json")


def dotenv(where: str, values: Mapping[str, str]) -> Snippet:
    """A file of variables."""
    return Snippet(where, "\n".join(f"{name}={value}" for name, value in values.items()), "dotenv")


def unset(target: Target, *names: str, also: str = "") -> Snippet:
    """Take the variables away again."""
    where = f"To undo it, and {also}" if also else "To undo it"
    return Snippet(where, shells.removed(target.shell, *names), "shell")


def nothing_to_paste(how: str) -> Snippet:
    """Done by hand."""
    return Snippet(how, "", "shell")
