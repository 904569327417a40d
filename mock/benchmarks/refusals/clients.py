"""The clients: how each is started for one prompt against a provider."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the clients are installed."""

    node: Path
    """A folder with `node_modules`."""
    aider: Path
    """The program."""

    def program(self, name: str) -> str:
        """Return the path of a program of `node_modules`."""
        return str(self.node / "node_modules" / ".bin" / name)


Start = Callable[[Tools, str, Path], tuple[list[str], Mapping[str, str]]]
"""Returns words and variables of a command that sends one prompt to a provider; the folder is its home."""


@dataclass(frozen=True, slots=True)
class Client:
    """A program to be refused. `tool` is one that it has."""

    name: str
    start: Start
    tool: str = ""
    """Called in a session; empty: it has no sessions."""


def _claude(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-fake",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    return [tools.program("claude"), "-p", "say hi", "--model", "claude-sonnet-4-5"], variables


def _codex(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / ".codex").mkdir()
    provider = {"name": "p", "base_url": f"{url}/v1", "wire_api": "responses", "env_key": "OPENAI_API_KEY"}
    settings = [f"model_providers.p.{name}={json.dumps(value)}" for name, value in provider.items()]
    words = [word for setting in ('model_provider="p"', *settings) for word in ("-c", setting)]
    variables = {"OPENAI_API_KEY": "sk-fake", "CODEX_HOME": str(home / ".codex")}
    return [tools.program("codex"), "exec", "--skip-git-repo-check", *words, "-m", "gpt-5", "say hi"], variables


def _gemini(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / ".gemini").mkdir()
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(chosen))
    words = [tools.program("gemini"), "-m", "gemini-2.5-flash", "--skip-trust", "-p", "say hi"]
    return words, {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": url}


def _opencode(package: str, model: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        options = {"baseURL": f"{url}/v1", "apiKey": "fake"}
        provider = {"npm": package, "options": options, "models": {model: {"name": model}}}
        config = {"provider": {"p": provider}, "autoupdate": False, "model": f"p/{model}", "small_model": f"p/{model}"}
        return [tools.program("opencode"), "run", "say hi"], {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}

    return start


def _aider(model: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        flags = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes"]
        words = [str(tools.aider), "--model", model, *flags, "--analytics-disable", "--no-detect-urls"]
        return [*words, "--message", "say hi"], {
            "OPENAI_API_KEY": "fake",
            "OPENAI_API_BASE": f"{url}/v1",
            "ANTHROPIC_API_KEY": "fake",
            "ANTHROPIC_API_BASE": url,
        }

    return start


def _python(sdk: str, stream: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return [sys.executable, "-m", "benchmarks.refusals.sdks", sdk, url, stream], variables

    return start


def _javascript(sdk: str, stream: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        base = f"{url}/v1" if sdk == "vercel-anthropic" else url
        return ["node", str(_HERE / "sdks.mjs"), sdk, base, stream, str(tools.node)], {}

    return start


def _sdks(name: str, language: Callable[[str, str], Start], sdk: str) -> list[Client]:
    return [Client(f"{name}{said}", language(sdk, stream)) for said, stream in ((", whole", "no"), (", stream", "yes"))]


AGENTS = [
    Client("Claude Code", _claude, "Bash"),
    Client("Codex", _codex, "shell"),
    Client("Gemini CLI", _gemini, "run_shell_command"),
    Client("opencode, chat completions", _opencode("@ai-sdk/openai-compatible", "m"), "bash"),
    Client("opencode, responses", _opencode("@ai-sdk/openai", "gpt-5"), "bash"),
    Client("opencode, messages", _opencode("@ai-sdk/anthropic", "claude-sonnet-4-5"), "bash"),
    Client("aider, chat completions", _aider("openai/gpt-4o")),
    Client("aider, messages", _aider("anthropic/claude-sonnet-4-5")),
]
SDKS = [
    *_sdks("Anthropic, Python", _python, "anthropic"),
    *_sdks("OpenAI chat completions, Python", _python, "openai"),
    *_sdks("OpenAI responses, Python", _python, "responses"),
    *_sdks("Anthropic, JavaScript", _javascript, "anthropic"),
    *_sdks("OpenAI chat completions, JavaScript", _javascript, "openai"),
    *_sdks("OpenAI responses, JavaScript", _javascript, "responses"),
    *_sdks("Google, JavaScript", _javascript, "google"),
    *_sdks("Vercel AI SDK with Anthropic", _javascript, "vercel-anthropic"),
    *_sdks("Vercel AI SDK with OpenAI", _javascript, "vercel-openai"),
]
