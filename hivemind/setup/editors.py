"""Editors with an agent of their own: Cursor, Windsurf, GitHub Copilot.

Such agents mostly talk to their vendor's servers, which nothing on this machine can change; what is left is said with
each. Copilot's command line was tried (1.0); the rest is by the vendors' pages, which are named with each client.
"""

from __future__ import annotations

from hivemind.control.discovery import is_public
from hivemind.setup.model import Snippet, Steps, Target, client, exports, in_json, unset
from hivemind.text import shells

COPILOT_MODEL = "claude-sonnet-5"


@client("Cursor", "agents in its terminal; its own only in part", "claude", "https://cursor.com/docs")
def cursor(target: Target) -> Steps:
    override = Snippet(
        "In Cursor Settings, Models, API Keys: as Override OpenAI Base URL, beside your OpenAI key",
        f"{target.base}/v1",
        "url",
    )
    public = is_public(target.url)
    return Steps(
        limits=(
            "Cursor's own models and its tab completion run on Cursor's servers and can't be sent elsewhere. Models of"
            " your own OpenAI key can, but it is Cursor's servers that call the base URL, so it has to be one that the"
            f" internet reaches over https{'.' if public else f', and {target.url} is none.'}",
        ),
        snippets=(*((override,) if public else ()), _in_its_terminal("Cursor", target)),
        undo=unset(target, "ANTHROPIC_BASE_URL", also="turn the override in Cursor's settings off" if public else ""),
        needs="An Anthropic upstream for Claude Code; for the override an OpenAI one, a TLS terminator in front of"
        " HiveMind, and a token (HIVEMIND_TOKEN).",
        notes=(
            "The override holds for all OpenAI models in Cursor; there is none for other providers. Ask and Plan use"
            " models of your own key; whether Agent does has changed from version to version.",
        ),
    )


@client("Windsurf", "agents in its terminal, not its own", "claude", "https://docs.devin.ai/desktop/acp")
def windsurf(target: Target) -> Steps:
    return Steps(
        limits=(
            "Windsurf (since June 2026 Devin Desktop) sends its own agents and its completion to its own servers. It"
            " has no base URL to change, not for models of your own key either.",
        ),
        snippets=(_in_its_terminal("Windsurf", target),),
        undo=unset(target, "ANTHROPIC_BASE_URL"),
        needs="An Anthropic upstream, for Claude Code.",
        notes=(
            "Agents that it runs over ACP (Claude, Codex, OpenCode, Gemini CLI) have their own settings: see hivemind"
            " setup claude-code, codex, opencode, gemini.",
        ),
    )


@client(
    "GitHub Copilot",
    "models of your own key (CLI and VS Code)",
    "copilot",
    "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/use-byok-models",
    "https://code.visualstudio.com/docs/agent-customization/language-models",
)
def copilot(target: Target) -> Steps:
    lines = (
        shells.exported(target.shell, "COPILOT_PROVIDER_TYPE", "anthropic"),
        shells.exported(target.shell, "COPILOT_PROVIDER_BASE_URL", target.base),
        shells.copied(target.shell, "COPILOT_PROVIDER_API_KEY", "ANTHROPIC_API_KEY"),
        shells.exported(target.shell, "COPILOT_MODEL", COPILOT_MODEL),
    )
    return Steps(
        limits=(
            "Copilot's own models and its inline suggestions run on GitHub's servers and can't be sent elsewhere."
            " Models of your own key can: in Copilot's command line, and in the chat of VS Code.",
        ),
        snippets=(
            Snippet("For Copilot CLI, in the shell that starts it, with the model you want", "\n".join(lines), "shell"),
            in_json(
                "In VS Code (1.122 or later): Chat: Manage Language Models, Add Models, Custom Endpoint; then in"
                " chatLanguageModels.json, beside what is there",
                [_endpoint(target)],
            ),
        ),
        undo=unset(
            target,
            "COPILOT_PROVIDER_TYPE",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_MODEL",
            also="take the entry out of chatLanguageModels.json",
        ),
        needs="An Anthropic upstream, and the key in ANTHROPIC_API_KEY; VS Code asks for the key once. It takes neither"
        " a Copilot plan nor a GitHub login, but a company's policy may forbid models of one's own key.",
        notes=(
            "For OpenAI models leave COPILOT_PROVIDER_TYPE out, end the URL in /v1, and for GPT-5 models set"
            " COPILOT_PROVIDER_WIRE_API to responses; in VS Code the URL ends in /v1/responses and apiType is"
            " responses.",
        ),
    )


def _endpoint(target: Target) -> dict[str, object]:
    model = {
        "id": COPILOT_MODEL,
        "name": "Claude Sonnet 5 (HiveMind)",
        "url": f"{target.base}/v1/messages",
        "toolCalling": True,
        "vision": True,
        "maxInputTokens": 200_000,
        "maxOutputTokens": 64_000,
    }
    return {
        "name": "HiveMind",
        "vendor": "customendpoint",
        "apiKey": "${input:anthropicApiKey}",
        "apiType": "messages",
        "models": [model],
    }


def _in_its_terminal(editor: str, target: Target) -> Snippet:
    where = f"An agent that runs in {editor}'s terminal can be pointed at HiveMind; Claude Code, for one"
    return Snippet(where, exports(target, "ANTHROPIC_BASE_URL"), "shell")
