"""The clients by program and by package; only the module of the one that is asked for is imported."""

from __future__ import annotations

from hivemind.agents.clients.facts import Client

_MODULES = {
    "claude": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "aider": "aider",
    "copilot": "copilot",
}
PROGRAMS = tuple(_MODULES)
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "opencode-ai": "opencode",
    "aider-chat": "aider",
    "@github/copilot": "copilot",
}
"""The program of each package of npm and PyPI."""


def client_of(program: str) -> Client | None:
    """Return the client whose program has this name."""
    module = _MODULES.get(program)
    if module is None:
        return None
    found: Client = __import__(f"hivemind.agents.clients.{module}", fromlist=("CLIENT",)).CLIENT
    return found
