"""The clients by program and by package; only the module of the one that is asked for is imported."""

from __future__ import annotations

from hivemind.agents.clients.facts import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULES = {
    "claude": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "aider": "aider",
    "copilot": "copilot",
    "pi": "pi",
    "cline": "cline",
    "qwen": "qwen",
    "crush": "crush",
    "vibe": "vibe",
    "grok": "grok",
    **dict.fromkeys(("amp", "cursor-agent", "auggie", "qodercli", "codebuff"), "own_servers"),
}
PROGRAMS = tuple(_MODULES)
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode",
    "aider-chat": "aider",
    "@github/copilot": "copilot",
    "@earendil-works/pi-coding-agent": "pi",
    "@mariozechner/pi-coding-agent": "pi",
    "cline": "cline",
    "@qwen-code/qwen-code": "qwen",
    "@charmland/crush": "crush",
    "mistral-vibe": "vibe",
    "grok-cli-bin": "grok",
    "@ampcode/cli": "amp",
    "@sourcegraph/amp": "amp",
    "@augmentcode/auggie": "auggie",
    "@qoder-ai/qodercli": "qodercli",
    "codebuff": "codebuff",
}
"""The program of each package of npm and PyPI."""
_VERSION = "@=<>~![; "
_SEPARATORS = dict.fromkeys(map(ord, "'\"`$(){};&|<>,"), " ")


def kind_in(command: Iterable[str]) -> str:
    """Return the kind of the client that a command names, also within a line for a shell; empty: none, or several."""
    words = (each for word in command for each in word.translate(_SEPARATORS).split())
    found = ((client_of(word.rpartition("/")[2]) or client_of(program_of(word))) for word in words)
    kinds = {client.kind for client in found if client is not None}
    return kinds.pop() if len(kinds) == 1 else ""


def program_of(package: str) -> str:
    """Return the program of `@openai/codex@latest` or `aider-chat==0.86`; of anything else the name alone."""
    end = min((at for sign in _VERSION if (at := package.find(sign, 1)) > 0), default=len(package))
    return PACKAGES.get(package[:end], package[:end])


def client_of(program: str) -> Client | None:
    """Return the client whose program has this name."""
    module = _MODULES.get(program)
    if module is None:
        return None
    found = __import__(f"hivemind.agents.clients.{module}", fromlist=("CLIENT",))
    client: Client = found.CLIENTS[program] if module == "own_servers" else found.CLIENT
    return client
