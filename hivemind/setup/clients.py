"""The clients, and how to point each at the proxy: what to paste, where, how to check it and how to undo it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hivemind.setup import editors, mcp, terminal
from hivemind.setup.model import Client, Instructions, Snippet, Steps, Target
from hivemind.setup.snippets import exports
from hivemind.text import shells
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE, Shell

CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        terminal.claude_code,
        terminal.codex,
        editors.cursor,
        editors.windsurf,
        editors.copilot,
        terminal.opencode,
        terminal.gemini,
        terminal.aider,
        terminal.generic,
        mcp.mcp,
    )
}
"""By name."""

_QUICK = (
    ("Claude Code", "claude-code", "ANTHROPIC_BASE_URL"),
    ("Codex", "codex", ""),
    ("Anthropic SDK", "generic", "ANTHROPIC_BASE_URL"),
    ("OpenAI SDK", "generic", "OPENAI_BASE_URL"),
    ("Gemini CLI", "gemini", "GOOGLE_GEMINI_BASE_URL"),
    ("aider", "aider", "ANTHROPIC_API_BASE"),
)
"""Title, client, and the variable that one line sets; codex takes a flag."""


def instructions(client: Client, url: str, agent: str, token: bool, *, shell: Shell = "bash") -> Instructions:
    """How to point a client at the proxy.

    `url` is scheme, host and port; `agent` a name that :func:`~hivemind.wire.identity.checked_name` accepts; `token`
    says whether the proxy asks for one, which is then read from a variable or left to be filled in, never told.
    """
    target = Target(url, agent, token, shell)
    steps = client.steps(target)
    check = Snippet("To check that the proxy answers", shells.curl(shell, f"{url}/_health"), "shell")
    return Instructions(client, target, steps, check, tuple(_facts(client, target, steps)))


def quick_lines(url: str, *, token: bool = False, shell: Shell = "bash") -> tuple[tuple[str, str], ...]:
    """Return the best known clients, each with the one line to begin with, which is also in its instructions."""
    lines = []
    for title, name, variable in _QUICK:
        target = Target(url, CLIENTS[name].agent, token, shell)
        lines.append((title, exports(target, variable) if variable else terminal.codex_line(target)))
    return tuple(lines)


def agent_line(target: Target) -> str:
    """Return the line that points what is started next at the proxy, under this agent's name."""
    return exports(target, "ANTHROPIC_BASE_URL")


def _facts(client: Client, target: Target, steps: Steps) -> Iterator[tuple[str, str]]:
    yield "Needs", steps.needs
    if target.token and client.named:
        yield "Token", " ".join(_about_token(steps))
    if client.named:
        yield (
            "Name",
            f"The control room shows {target.agent} after its first request. What follows /agent/ is yours to choose:"
            " give each terminal its own.",
        )
    yield from (("Note", note) for note in steps.notes)
    yield from (("More", page) for page in client.docs)


def _about_token(steps: Steps) -> Iterator[str]:
    texts = [snippet.text for snippet in steps.snippets]
    if any(TOKEN_VARIABLE in text for text in texts):
        yield f"{TOKEN_VARIABLE} is to hold the proxy's token where the client is started."
    if any(TOKEN in text for text in texts):
        yield f"Put it in the place of {TOKEN}."
