"""The clients, and how to point each at the proxy: what to paste, where, how to check it and how to undo it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from hivemind.control.discovery import is_loopback
from hivemind.setup import editors, terminal
from hivemind.setup.model import (
    Client,
    Instructions,
    Snippet,
    Steps,
    Target,
    client,
    exports,
    in_json,
    nothing_to_paste,
)
from hivemind.text import shells
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE, Shell

_NAME = "hivemind"
_CONTROL_TOKEN = "HIVEMIND_CONTROL_TOKEN"


@client("HiveMind's tools", "for agents, in clients that speak MCP", "worker", named=False)
def mcp(target: Target) -> Steps:
    command = ["hivemind", "mcp", "--attach", target.url]
    program, *arguments = command
    words = " ".join(shells.word(target.shell, each) for each in command)
    plain = {"command": program, "args": arguments}
    local = is_loopback(target.url)
    passed = ["HIVEMIND_AGENT", *([] if local else [_CONTROL_TOKEN])]
    codex = [
        f"[mcp_servers.{_NAME}]",
        f'command = "{program}"',
        f"args = {json.dumps(arguments)}",
        f"env_vars = {json.dumps(passed)}",
    ]
    return Steps(
        snippets=(
            Snippet("Claude Code, in a shell", f"claude mcp add --scope user {_NAME} -- {words}", "command"),
            Snippet("Codex, in ~/.codex/config.toml", "\n".join(codex), "toml"),
            Snippet("Gemini CLI, in a shell", f"gemini mcp add --scope user {_NAME} {words}", "command"),
            in_json(
                "opencode, in opencode.json of the project or ~/.config/opencode/opencode.json for all of them",
                {"$schema": "https://opencode.ai/config.json", "mcp": {_NAME: {"type": "local", "command": command}}},
            ),
            in_json("Cursor, in ~/.cursor/mcp.json", {"mcpServers": {_NAME: plain}}),
            in_json("VS Code, in .vscode/mcp.json of the project", {"servers": {_NAME: {"type": "stdio", **plain}}}),
            Snippet(
                "Anything that speaks streamable HTTP, with the control token as bearer", f"{target.url}/mcp", "url"
            ),
        ),
        undo=nothing_to_paste(
            f"To undo it, claude mcp remove {_NAME}, gemini mcp remove {_NAME}, or take the entry out of the file."
        ),
        needs="hivemind on the PATH that the client has, else its full path in place of the word. "
        + (
            "The proxy may be started later, and anew; the token is found in its state directory."
            if local
            else f"The proxy's control token in {_CONTROL_TOKEN} where the client is started."
        ),
        notes=(
            "The tools are listed as hm.status and so on; where a client takes no dots it makes them hm_status, and"
            " both are understood. --mcp.names underscores lists them so from the start.",
            "A client that hivemind run has started is known to the tools by its agent's name. Otherwise add --agent"
            " NAME at the end of the command.",
            "--mcp.read-only on keeps tools from changing settings, priorities and budgets, --mcp.enabled off takes"
            " /mcp away.",
        ),
    )


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
        mcp,
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
