"""The clients that are tried: how each is called, and what it must be given to work without questions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clients.installed import python_with

PROMPT = "Do as planned."
KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-0000",
    "OPENAI_API_KEY": "sk-0000",
    "CODEX_API_KEY": "sk-0000",
    "GEMINI_API_KEY": "AIza0000",
}
"""Made up; only the mock provider gets them."""


def _nothing(home: Path) -> None:
    """Most clients need no files."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A client and how to call it."""

    name: str
    program: str
    arguments: tuple[str, ...]
    """What follows the program's name."""
    package: str = ""
    """Its package of npm or PyPI, if it is known by that."""
    by_npx: bool = False
    tools: bool = True
    """It calls tools; else each call of it is one request."""
    kind: str | None = None
    """The type of its sub-agents, where it has some."""
    tells: bool = True
    """Its requests tell which sub-agent sends them."""
    resumes: bool = False
    """It can continue its own session."""
    prepare: Callable[[Path], object] = _nothing
    """Makes the files that it needs in its home."""
    environ: Mapping[str, str] = field(default_factory=dict)
    streams: bool = False
    """It asks for streams, whether its program does or not."""
    script: str = ""
    """A script that the program runs, for SDKs; it stands in `script.py` or `script.mjs`."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command line."""
        return self.program, *self.arguments


def _gemini(home: Path) -> None:
    """Headless it asks how to sign in, unless its settings say so."""
    (home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))


def _cline(home: Path) -> None:
    """It takes its provider from a file; the base URL in it leads nowhere."""
    folder = home / ".cline" / "data" / "settings"
    folder.mkdir(parents=True)
    settings = {"provider": "openai-compatible", "apiKey": "k", "model": "gpt-5.4", "baseUrl": "http://127.0.0.1:9/v1"}
    entry = {"settings": settings, "updatedAt": "2026-11-28T00:00:00.000Z", "tokenSource": "manual"}
    content = {"version": 1, "lastUsedProvider": settings["provider"], "modes": {}}
    content["providers"] = {settings["provider"]: entry}
    (folder / "providers.json").write_text(json.dumps(content))


def _qwen(home: Path) -> None:
    """Models that the settings list have their own base URL."""
    (home / ".qwen").mkdir()
    model = {"id": "gpt-5.4", "envKey": "OPENAI_API_KEY", "baseUrl": "http://127.0.0.1:9/v1"}
    settings = {"modelProviders": {"openai": [model]}, "security": {"auth": {"selectedType": "openai"}}}
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))


def _pi(home: Path) -> None:
    """A provider of the user's own."""
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "k"}
    content = {"providers": {"mine": {**provider, "models": [{"id": "gpt-5.4"}]}}}
    (folder / "models.json").write_text(json.dumps(content))


_CLAUDE = ("-p", PROMPT, "--model", "claude-sonnet-4-5", "--allowedTools", "Bash", "Agent")
_CODEX = ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-m", "gpt-5.4", PROMPT)
_AIDER = (
    *("--message", PROMPT, "--yes-always", "--no-git", "--model", "anthropic/claude-sonnet-4-5"),
    *("--no-check-update", "--no-show-model-warnings", "--no-show-release-notes", "--analytics-disable"),
)
PROGRAMS = (
    Tried(
        "Claude Code",
        "claude",
        _CLAUDE,
        package="@anthropic-ai/claude-code",
        by_npx=True,
        kind="general-purpose",
        resumes=True,
    ),
    Tried("Codex", "codex", _CODEX, package="@openai/codex", by_npx=True, kind="default", resumes=True),
    Tried(
        "Gemini CLI",
        "gemini",
        ("-p", PROMPT, "-m", "gemini-2.5-pro", "--yolo", "--skip-trust"),
        package="@google/gemini-cli",
        by_npx=True,
        kind="generalist",
        tells=False,
        resumes=True,
        prepare=_gemini,
    ),
    Tried(
        "opencode",
        "opencode",
        ("run", "-m", "anthropic/claude-sonnet-4-5", PROMPT),
        package="opencode-ai",
        by_npx=True,
        kind="general",
        resumes=True,
    ),
    Tried("aider", "aider", _AIDER, tools=False),
    Tried("cline", "cline", (PROMPT,), package="cline", by_npx=True, tools=False, prepare=_cline),
    Tried(
        "Qwen Code",
        "qwen",
        ("--yolo", "-m", "gpt-5.4", "-p", PROMPT),
        package="@qwen-code/qwen-code",
        by_npx=True,
        prepare=_qwen,
    ),
    Tried(
        "pi",
        "pi",
        ("--provider", "mine", "--model", "gpt-5.4", "-p", PROMPT),
        package="@earendil-works/pi-coding-agent",
        by_npx=True,
        prepare=_pi,
    ),
    Tried(
        "Copilot CLI",
        "copilot",
        ("--allow-all-tools", "-p", PROMPT),
        package="@github/copilot",
        by_npx=True,
        environ={"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "claude-sonnet-4-5"},
    ),
)
"""Programs. Each is given a home of its own."""

_ANTHROPIC_PYTHON = """\
import anthropic
sdk = anthropic.Anthropic()
for _ in range(2):
    prompt = {"role": "user", "content": "hi"}
    print(sdk.messages.create(model="claude-sonnet-4-5", max_tokens=99, messages=[prompt]).content[0].text)
    with sdk.messages.stream(model="claude-sonnet-4-5", max_tokens=99, messages=[prompt]) as stream:
        print("".join(stream.text_stream))
"""
_OPENAI_PYTHON = """\
import openai
sdk = openai.OpenAI()
for _ in range(2):
    prompt = {"role": "user", "content": "hi"}
    print(sdk.chat.completions.create(model="gpt-5.4", messages=[prompt]).choices[0].message.content)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    for chunk in sdk.chat.completions.create(model="gpt-5.4", messages=[prompt], **options):
        print([each.delta.content for each in chunk.choices])
    print(sdk.responses.create(model="gpt-5.4", input="hi").output_text)
    print([event.type for event in sdk.responses.create(model="gpt-5.4", input="hi", stream=True)][-1])
"""
_ANTHROPIC_JS = """\
import Anthropic from "@anthropic-ai/sdk";
const sdk = new Anthropic(), messages = [{ role: "user", content: "hi" }];
const wanted = { model: "claude-sonnet-4-5", max_tokens: 99, messages };
for (let n = 0; n < 2; n++) {
  console.log((await sdk.messages.create(wanted)).content[0].text);
  console.log(await sdk.messages.stream(wanted).finalText());
}
"""
_OPENAI_JS = """\
import OpenAI from "openai";
const sdk = new OpenAI(), messages = [{ role: "user", content: "hi" }], model = "gpt-5.4";
for (let n = 0; n < 2; n++) {
  console.log((await sdk.chat.completions.create({ model, messages })).choices[0].message.content);
  const options = { model, messages, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await sdk.chat.completions.create(options)) console.log(chunk.choices[0]?.delta.content);
  console.log((await sdk.responses.create({ model, input: "hi" })).output_text);
  for await (const event of await sdk.responses.create({ model, input: "hi", stream: true })) console.log(event.type);
}
"""
_GOOGLE_JS = """\
import { GoogleGenAI } from "@google/genai";
const sdk = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY }), model = "gemini-2.5-pro";
for (let n = 0; n < 2; n++) {
  console.log((await sdk.models.generateContent({ model, contents: "hi" })).text);
  for await (const chunk of await sdk.models.generateContentStream({ model, contents: "hi" })) console.log(chunk.text);
}
"""
_VERCEL_JS = """\
import { generateText, streamText } from "ai";
import { anthropic } from "@ai-sdk/anthropic";
const wanted = { model: anthropic("claude-sonnet-4-5"), prompt: "hi" };
for (let n = 0; n < 2; n++) {
  console.log((await generateText(wanted)).text);
  let failed = null;
  const { textStream } = streamText({ ...wanted, onError: ({ error }) => { failed = error; } });
  for await (const text of textStream) console.log(text);
  if (failed) throw failed;
}
"""


def _sdk(name: str, package: str, script: str) -> Tried:
    python = name.endswith("Python")
    program, file = (sys.executable, "script.py") if python else ("node", "script.mjs")
    return Tried(name, program, (file,), package=package, tools=False, script=script)


SDKS = (
    _sdk("Anthropic SDK, Python", "anthropic", _ANTHROPIC_PYTHON),
    _sdk("OpenAI SDK, Python", "openai", _OPENAI_PYTHON),
    _sdk("Anthropic SDK, JavaScript", "@anthropic-ai/sdk", _ANTHROPIC_JS),
    _sdk("OpenAI SDK, JavaScript", "openai", _OPENAI_JS),
    _sdk("Google Gen AI SDK, JavaScript", "@google/genai", _GOOGLE_JS),
    _sdk("Vercel AI SDK, JavaScript", "ai", _VERCEL_JS),
)


_FOLDER = Path(__file__).parent / "frameworks"
_OFFLINE = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "AGNO_TELEMETRY": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
}
"""What they send to their makers would take each of them seconds here."""


def _framework(program: str, package: str, streams: bool = False, file: str = "") -> Tried:
    python, arguments = python_with(package), (str(_FOLDER / f"{file or program}.py"), program)
    return Tried(program, python, arguments, package=package, environ=_OFFLINE, streams=streams)


FRAMEWORKS = (
    _framework("langchain-claude", "langchain"),
    _framework("langchain-gpt", "langchain", streams=True),
    _framework("langgraph-gpt", "langgraph"),
    _framework("crewai-gpt", "crewai"),
    _framework("autogen-gpt", "autogen-agentchat"),
    _framework("autogen-streamed", "autogen-agentchat", streams=True, file="autogen-gpt"),
    _framework("semantic-kernel-gpt", "semantic-kernel"),
    _framework("semantic-kernel-team", "semantic-kernel", streams=True),
    _framework("agent-framework-gpt", "agent-framework-core"),
    _framework("openai-agents-gpt", "openai-agents"),
    _framework("pydantic-ai-gpt", "pydantic-ai-slim"),
    _framework("pydantic-ai-claude", "pydantic-ai-slim", streams=True),
    _framework("strands-claude", "strands-agents", streams=True),
    _framework("smolagents-gpt", "smolagents"),
    _framework("llama-index-gpt", "llama-index-core", streams=True),
    _framework("agno-gpt", "agno"),
    _framework("google-adk-gemini", "google-adk"),
)
"""Programs of agent frameworks: file and package."""
