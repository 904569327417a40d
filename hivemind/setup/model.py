"""What there is to say about a client, apart from how it is shown: steps, and snippets of files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from hivemind.text import shells
from hivemind.text.shells import TOKEN, Shell

Language = Literal["shell", "command", "toml", "json", "dotenv", "python", "url"]
"""`shell` sets variables of the shell that starts the client, `command` is a program to be run once."""


@dataclass(frozen=True, slots=True)
class Target:
    """The proxy, and the agent that is to reach it."""

    url: str
    """Scheme, host and port; nothing after them."""
    agent: str
    """As people write it; a URL has it quoted."""
    token: bool
    """The proxy asks for one."""
    shell: Shell = "bash"

    @property
    def named(self) -> str:
        """The base URL with the agent's name in it."""
        # A name that holds the token's placeholder must not be given the token in its place.
        name = quote(self.agent, safe="").replace(TOKEN, TOKEN.replace("-", "%2D"))
        return f"{self.url}/agent/{name}"

    @property
    def base(self) -> str:
        """The same with, where one is asked for, a place for the token: :data:`~hivemind.text.shells.TOKEN`."""
        return self.named if not self.token else self.named.replace(self.url, f"{self.url}/token/{TOKEN}", 1)


@dataclass(frozen=True, slots=True)
class Snippet:
    """Lines to paste into a shell or a file."""

    where: str
    """Which file or shell it goes to."""
    text: str
    """Nothing but what is to be pasted. Empty where doing it needs no pasting."""
    language: Language = "shell"


@dataclass(frozen=True, slots=True)
class Steps:
    """What a client has of its own."""

    snippets: tuple[Snippet, ...]
    """The first is the shortest way."""
    undo: Snippet
    needs: str
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    """What can't be done, said before anything else."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program, or a kind of program, that can be pointed at the proxy at least in part."""

    name: str
    """As in `hivemind setup NAME`."""
    title: str
    summary: str
    agent: str
    """Its agent's name, unless the user gives another."""
    docs: tuple[str, ...]
    steps: Callable[[Target], Steps]
    named: bool
    """Its requests come under an agent's name."""


def client(
    title: str, summary: str, agent: str, *docs: str, named: bool = True
) -> Callable[[Callable[[Target], Steps]], Client]:
    """Make a client of the function that returns its steps, whose name is the client's."""

    def made(steps: Callable[[Target], Steps]) -> Client:
        return Client(steps.__name__.replace("_", "-"), title, summary, agent, docs, steps, named)

    return made


@dataclass(frozen=True, slots=True)
class Instructions:
    """How to point a client at a proxy."""

    client: Client
    target: Target
    steps: Steps
    check: Snippet
    facts: tuple[tuple[str, str], ...]
    """Each a label of one word and a sentence or two."""


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


def exports(target: Target, *variables: str) -> str:
    """Return the lines that point whatever reads these variables at the proxy."""
    return "\n".join(shells.exported(target.shell, name, target.base + SUFFIXES[name]) for name in variables)


def in_json(where: str, content: object) -> Snippet:
    """Return a snippet of a JSON file."""
    return Snippet(where, json.dumps(content, indent=2, ensure_ascii=False), "json")


def dotenv(where: str, target: Target, *variables: str) -> Snippet:
    """Return a snippet of a file of variables that point at the proxy."""
    lines = [f"{name}={_dotenv_value(target.base + SUFFIXES[name])}" for name in variables]
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
