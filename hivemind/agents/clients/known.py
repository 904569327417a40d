"""The clients by program and by package; only the module of the one that is asked for is imported."""

from __future__ import annotations

from hivemind.agents.clients.facts import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN_SERVICE = ("copilot", "grok", "kimi", "droid", "amp", "cursor-agent", "auggie", "qodercli", "codebuff")
_MODULES = {
    "claude": "claude_code",
    **{each: each for each in ("codex", "gemini", "opencode", "aider", "pi", "cline", "qwen", "crush", "vibe")},
    **dict.fromkeys(("kilo", "kilocode"), "opencode"),
    **dict.fromkeys(_OWN_SERVICE, "own_service"),
}
PROGRAMS = tuple(_MODULES)
PACKAGES = {
    "@anthropic-ai/claude-code": "claude", "@openai/codex": "codex", "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode", "@kilocode/cli": "kilo", "aider-chat": "aider", "@github/copilot": "copilot",
    "@earendil-works/pi-coding-agent": "pi", "@mariozechner/pi-coding-agent": "pi", "cline": "cline",
    "@qwen-code/qwen-code": "qwen", "@moonshot-ai/kimi-code": "kimi", "@factory/cli": "droid", "droid": "droid",
    "@charmland/crush": "crush", "mistral-vibe": "vibe", "grok-cli-bin": "grok", "@xai-official/grok": "grok",
    "@ampcode/cli": "amp", "@sourcegraph/amp": "amp", "@augmentcode/auggie": "auggie",
    "@qoder-ai/qodercli": "qodercli", "codebuff": "codebuff",
}  # fmt: skip
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
    client: Client = found.CLIENTS[program] if hasattr(found, "CLIENTS") else found.CLIENT
    return client
