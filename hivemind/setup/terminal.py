"""Coding agents that run in a terminal (Claude Code, Codex, opencode, Gemini CLI, aider), and the providers' SDKs.

What is said here was tried with Claude Code 2.1, Codex 0.169, opencode 1.18, Gemini CLI 0.61 and aider 0.86; the
vendors' pages are named with each client (:mod:`.clients`).
"""

from __future__ import annotations

import json
from typing import Any

from hivemind.setup.model import (
    HERE,
    Snippet,
    Steps,
    Target,
    client,
    dotenv,
    exports,
    in_json,
    nothing_to_paste,
    toml_text,
    unset,
)
from hivemind.text import shells

INLINE_TOKEN = "{env:" + shells.TOKEN_VARIABLE + "}"
"""How opencode's configuration reads a variable."""
GEMINI_SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
"""Without them `gemini -p` doesn't start with a base URL but Google's."""
_ANTHROPIC = """\
import anthropic

client = anthropic.Anthropic(base_url={url})"""
_OPENAI = """\
import openai

client = openai.OpenAI(base_url={url})"""


@client(
    "Claude Code", "one variable, or settings.json", "claude", "https://code.claude.com/docs/en/llm-gateway-connect"
)
def claude_code(target: Target) -> Steps:
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "ANTHROPIC_BASE_URL"), "shell"),
            in_json(
                "Or for every session, in ~/.claude/settings.json, beside what is there",
                {"env": {"ANTHROPIC_BASE_URL": target.base}},
            ),
        ),
        undo=unset(target, "ANTHROPIC_BASE_URL", also="take the entry out of settings.json"),
        needs="An Anthropic upstream. Claude Code keeps its login, or its ANTHROPIC_API_KEY; either is passed on.",
        notes=(
            "No /v1 at the end. What settings.json says wins over the shell; /status shows the URL in use.",
            f"The name covers a session and its sub-agents. With {target.url} alone as the URL each of them is shown by"
            " an id of its own.",
            "With any base URL but Anthropic's, Claude Code leaves MCP tool search off unless ENABLE_TOOL_SEARCH is"
            " true.",
        ),
    )


def codex_line(target: Target) -> str:
    """One session, with nothing in a file."""
    return "codex -c " + shells.filled(target.shell, codex_setting(target.base))


def codex_setting(base: str) -> str:
    """What follows codex's flag -c."""
    return f"openai_base_url={base}/v1"


@client(
    "Codex", "a provider in config.toml, or one flag", "codex", "https://developers.openai.com/codex/config-advanced"
)
def codex(target: Target) -> Steps:
    lines = [
        'model_provider = "hivemind"',
        "",
        "[model_providers.hivemind]",
        'name = "HiveMind"',
        f"base_url = {toml_text(target.named + '/v1')}",
        'env_key = "OPENAI_API_KEY"',
        'wire_api = "responses"',
    ]
    if target.token:
        lines.append(f'env_http_headers = {{ "x-hivemind-token" = "{shells.TOKEN_VARIABLE}" }}')
    another = f"model_providers.hivemind.base_url={target.named}-2/v1"
    return Steps(
        snippets=(
            Snippet("In ~/.codex/config.toml, with model_provider above its first [table]", "\n".join(lines), "toml"),
            Snippet(
                "Then in another terminal, under another name",
                "codex -c " + shells.filled(target.shell, another),
                "shell",
            ),
            Snippet("Or for one session, with nothing in a file", codex_line(target), "shell"),
        ),
        undo=nothing_to_paste("To undo it, take the lines out of config.toml again."),
        needs="An OpenAI upstream, and the key in OPENAI_API_KEY; for a single session, a key saved with codex login"
        " --with-api-key. A ChatGPT login is for another service than api.openai.com.",
        notes=(
            "The URL ends in /v1. Codex doesn't read OPENAI_BASE_URL any more.",
            "Without a provider of its own it tries a WebSocket first, says that this failed, and goes on over HTTP.",
        ),
    )


def opencode_providers(url: str) -> dict[str, Any]:
    """Of opencode's configuration; the URL ends in /v1."""
    return {name: {"options": {"baseURL": url}} for name in ("anthropic", "openai")}


@client("opencode", "base URLs in opencode.json", "opencode", "https://opencode.ai/docs/providers")
def opencode(target: Target) -> Steps:
    url = target.base.replace(shells.TOKEN, INLINE_TOKEN) + "/v1"
    providers = opencode_providers(url)
    inline = json.dumps({"provider": {"anthropic": {"options": {"baseURL": url}}}}, separators=(",", ":"))
    return Steps(
        snippets=(
            in_json(
                "In opencode.json of the project, or ~/.config/opencode/opencode.json for all of them",
                {"$schema": "https://opencode.ai/config.json", "provider": providers},
            ),
            Snippet(
                "Or for one terminal, with a name of its own",
                shells.exported(target.shell, "OPENCODE_CONFIG_CONTENT", inline),
                "shell",
            ),
        ),
        undo=unset(target, "OPENCODE_CONFIG_CONTENT", also="take the entries out of opencode.json"),
        needs="An upstream for each provider in use. opencode keeps the keys it has, from /connect or the environment.",
        notes=(
            "Both URLs end in /v1.",
            "Each new session makes two requests at once: the answer, and a title from a small model.",
        ),
    )


@client("Gemini CLI", "one variable, and settings.json", "gemini", "https://geminicli.com/docs/reference/configuration")
def gemini(target: Target) -> Steps:
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "GOOGLE_GEMINI_BASE_URL"), "shell"),
            in_json(
                "In ~/.gemini/settings.json, beside what is there; gemini -p doesn't start without it",
                GEMINI_SETTINGS,
            ),
            dotenv("Or for every session, in ~/.gemini/.env", target, "GOOGLE_GEMINI_BASE_URL"),
        ),
        undo=unset(target, "GOOGLE_GEMINI_BASE_URL", also="take the line out of .env"),
        needs="A Google upstream (https://generativelanguage.googleapis.com), and the key in GEMINI_API_KEY. With a"
        " Google login it calls another service, which goes past HiveMind.",
        notes=("No version at the end of the URL.",),
    )


@client("aider", "a variable for each provider, or .env", "aider", "https://aider.chat/docs/config/dotenv.html")
def aider(target: Target) -> Steps:
    names = ("ANTHROPIC_API_BASE", "OPENAI_API_BASE")
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, *names), "shell"),
            dotenv(
                "Or for every session, in .env at the root of the repository or in the home directory", target, *names
            ),
        ),
        undo=unset(target, *names, also="take the lines out of .env"),
        needs="An upstream for each provider in use. aider keeps its ANTHROPIC_API_KEY and OPENAI_API_KEY.",
        notes=(
            "Only the OpenAI URL ends in /v1; aider --openai-api-base takes it too. OLLAMA_API_BASE takes the other.",
        ),
    )


@client("Anything else", "variables and code for the providers' SDKs", "worker")
def generic(target: Target) -> Steps:
    key = shells.variable(target.shell, "ANTHROPIC_API_KEY")
    headers = (f"x-api-key: {key}", "anthropic-version: 2023-06-01")
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"), "shell"),
            Snippet("Or in Python, with Anthropic's SDK", _ANTHROPIC.format(url=json.dumps(target.base)), "python"),
            Snippet("With OpenAI's SDK", _OPENAI.format(url=json.dumps(f"{target.base}/v1")), "python"),
            Snippet(
                "To try it all the way to an Anthropic upstream",
                shells.curl(target.shell, f"{target.base}/v1/models", *headers),
                "shell",
            ),
        ),
        undo=unset(target, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"),
        needs="An upstream for each provider in use. The SDKs read ANTHROPIC_API_KEY and OPENAI_API_KEY as before.",
        notes=(
            "OpenAI's URL ends in /v1, Anthropic's doesn't. As Anthropic's go GOOGLE_GEMINI_BASE_URL (Google Gen AI"
            " SDKs), AZURE_OPENAI_ENDPOINT and OLLAMA_HOST.",
            f"Where only headers can be set, x-hivemind-agent: {target.agent} gives the name. x-hivemind-priority is"
            " critical, high, normal or low.",
        ),
    )
