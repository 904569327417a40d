"""How to add HiveMind's tools to clients that speak MCP.

What is said here was tried with Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and opencode 1.18; the rest is by the
vendors' pages.
"""

from __future__ import annotations

import json

from hivemind.setup.model import Snippet, Steps, Target, client
from hivemind.setup.reach import is_loopback
from hivemind.setup.snippets import in_json, nothing_to_paste
from hivemind.text import shells

NAME = "hivemind"
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
        f"[mcp_servers.{NAME}]",
        f'command = "{program}"',
        f"args = {json.dumps(arguments)}",
        f"env_vars = {json.dumps(passed)}",
    ]
    return Steps(
        snippets=(
            Snippet("Claude Code, in a shell", f"claude mcp add --scope user {NAME} -- {words}", "command"),
            Snippet("Codex, in ~/.codex/config.toml", "\n".join(codex), "toml"),
            Snippet("Gemini CLI, in a shell", f"gemini mcp add --scope user {NAME} {words}", "command"),
            in_json(
                "opencode, in opencode.json of the project or ~/.config/opencode/opencode.json for all of them",
                {"$schema": "https://opencode.ai/config.json", "mcp": {NAME: {"type": "local", "command": command}}},
            ),
            in_json("Cursor, in ~/.cursor/mcp.json", {"mcpServers": {NAME: plain}}),
            in_json("VS Code, in .vscode/mcp.json of the project", {"servers": {NAME: {"type": "stdio", **plain}}}),
            Snippet(
                "Anything that speaks streamable HTTP, with the control token as bearer", f"{target.url}/mcp", "url"
            ),
        ),
        undo=nothing_to_paste(
            f"To undo it, claude mcp remove {NAME}, gemini mcp remove {NAME}, or take the entry out of the file."
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
