"""The clients: how each is started for one prompt against a provider."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hivemind.setup.routes import GEMINI_SETTINGS

_COSTS = ("input", "output", "cacheRead", "cacheWrite")
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
    """A program to be refused."""

    name: str
    start: Start
    has_tools: bool = False


def _claude(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-fake",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return [tools.program("claude"), "-p", "say hi", "--allowedTools", "Bash"], variables


def _codex(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / ".codex").mkdir()
    words = [tools.program("codex"), "exec", "--skip-git-repo-check", "-c", f"openai_base_url={url}/v1", "say hi"]
    return words, {"OPENAI_API_KEY": "sk-fake", "CODEX_API_KEY": "sk-fake", "CODEX_HOME": str(home / ".codex")}


def _gemini(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(GEMINI_SETTINGS))
    words = [tools.program("gemini"), "--skip-trust", "--yolo", "-p", "say hi"]
    return words, {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": url}


def _qwen(wire: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        variables = {
            "openai": {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "fake", "OPENAI_MODEL": "qwen3-coder-plus"},
            "anthropic": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "fake", "ANTHROPIC_MODEL": "claude-opus-5-5"},
        }
        return [tools.program("qwen"), "--yolo", "--auth-type", wire, "-p", "say hi"], variables[wire]

    return start


def _cline(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    cline = tools.program("cline")
    script = f'"{cline}" auth -p openai -k fake -b "{url}/v1" -m gpt-5 && exec "{cline}" "say hi"'
    return ["sh", "-c", script], {}


def _pi(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    model = {"id": "claude-opus-5-5", "name": "m", "reasoning": False, "input": ["text"]}
    model |= {"contextWindow": 200_000, "maxTokens": 8000, "cost": dict.fromkeys(_COSTS, 0)}
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "fake", "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"p": provider}}))
    return [tools.program("pi"), "--provider", "p", "--model", "claude-opus-5-5", "-p", "say hi"], {}


def _copilot(kind: str, model: str) -> Start:
    def start(tools: Tools, url: str, home: Path) -> tuple[list[str], Mapping[str, str]]:
        base = url if kind == "anthropic" else f"{url}/v1"
        variables = {"COPILOT_PROVIDER_TYPE": kind, "COPILOT_PROVIDER_BASE_URL": base, "COPILOT_PROVIDER_API_KEY": "k"}
        words = [tools.program("copilot"), "--allow-all-tools", "-p", "say hi"]
        return words, {**variables, "COPILOT_MODEL": model, "COPILOT_OFFLINE": "true"}

    return start


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
    Client("Claude Code", _claude, True),
    Client("Codex", _codex, True),
    Client("Gemini CLI", _gemini, True),
    Client("opencode, chat completions", _opencode("@ai-sdk/openai-compatible", "m"), True),
    Client("opencode, responses", _opencode("@ai-sdk/openai", "gpt-5"), True),
    Client("opencode, messages", _opencode("@ai-sdk/anthropic", "claude-opus-5-5"), True),
    Client("Qwen Code, chat completions", _qwen("openai"), True),
    Client("Qwen Code, messages", _qwen("anthropic"), True),
    Client("cline, chat completions", _cline),
    Client("pi, messages", _pi, True),
    Client("Copilot CLI, chat completions", _copilot("openai", "gpt-5"), True),
    Client("Copilot CLI, messages", _copilot("anthropic", "claude-opus-5-5"), True),
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
