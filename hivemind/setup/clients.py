"""The clients there is something to say about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hivemind.setup import editors, mcp, sdk, terminal
from hivemind.setup.model import Client, Instructions, Snippet, Steps, Target
from hivemind.text import shells
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE, Shell

CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            "one variable, or settings.json",
            "claude",
            ("https://code.claude.com/docs/en/llm-gateway-connect",),
            terminal.claude_code,
        ),
        Client(
            "codex",
            "Codex",
            "a provider in config.toml, or one flag",
            "codex",
            ("https://developers.openai.com/codex/config-advanced",),
            terminal.codex,
        ),
        Client(
            "cursor",
            "Cursor",
            "agents in its terminal; its own only in part",
            "claude",
            ("https://cursor.com/docs",),
            editors.cursor,
        ),
        Client(
            "windsurf",
            "Windsurf",
            "agents in its terminal, not its own",
            "claude",
            ("https://docs.devin.ai/desktop/acp",),
            editors.windsurf,
        ),
        Client(
            "copilot",
            "GitHub Copilot",
            "models of your own key (CLI and VS Code)",
            "copilot",
            (
                "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/use-byok-models",
                "https://code.visualstudio.com/docs/agent-customization/language-models",
            ),
            editors.copilot,
        ),
        Client(
            "opencode",
            "opencode",
            "base URLs in opencode.json",
            "opencode",
            ("https://opencode.ai/docs/providers",),
            terminal.opencode,
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "one variable, and settings.json",
            "gemini",
            ("https://geminicli.com/docs/reference/configuration",),
            terminal.gemini,
        ),
        Client(
            "aider",
            "aider",
            "a variable for each provider, or .env",
            "aider",
            ("https://aider.chat/docs/config/dotenv.html",),
            terminal.aider,
        ),
        Client(
            "generic",
            "Anything else",
            "variables and code for the providers' SDKs",
            "worker",
            (),
            sdk.generic,
        ),
        Client(
            "mcp",
            "HiveMind's tools",
            "for agents, in clients that speak MCP",
            "worker",
            (),
            mcp.mcp,
            named=False,
        ),
    )
}
"""By name."""

_QUICK = (
    ("Claude Code", "claude-code", terminal.claude_code_line),
    ("Codex", "codex", terminal.codex_line),
    ("Anthropic SDK", "generic", sdk.anthropic_line),
    ("OpenAI SDK", "generic", sdk.openai_line),
    ("Gemini CLI", "gemini", terminal.gemini_line),
    ("aider", "aider", terminal.aider_line),
)


def instructions(client: Client, url: str, agent: str, token: bool, *, shell: Shell = "bash") -> Instructions:
    """How to point a client at the proxy.

    `url` is scheme, host and port; `agent` a name that :func:`~hivemind.wire.identity.checked_name` accepts; `token`
    says whether the proxy asks for one, which is then read from a variable or left to be filled in, never told.
    """
    target = Target(url, agent, token, shell)
    steps = client.steps(target)
    return Instructions(
        client=client,
        target=target,
        limits=steps.limits,
        snippets=steps.snippets,
        check=Snippet("To check that the proxy answers", shells.curl(shell, f"{url}/_health"), "shell"),
        undo=steps.undo,
        facts=tuple(_facts(client, target, steps)),
    )


def quick_lines(url: str, *, token: bool = False, shell: Shell = "bash") -> tuple[tuple[str, str], ...]:
    """The best known clients, each with the one line to begin with; the same line is in its instructions."""
    return tuple((title, line(Target(url, CLIENTS[name].agent, token, shell))) for title, name, line in _QUICK)


def agent_line(target: Target) -> str:
    """The line that points what is started next at the proxy, under this agent's name."""
    return terminal.claude_code_line(target)


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
