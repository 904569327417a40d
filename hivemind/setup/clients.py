"""The clients, and how to point each at the proxy: what to paste, where, how to check it and how to undo it.

Tried with Claude Code 2.1, Codex 0.171, opencode 1.18, Kilo 7.7, Gemini CLI 0.61, aider 0.86, Copilot's command line
1.0, pi 1.6, cline 3.0, Qwen Code 0.24, Vibe 3.0, Grok Build 1.0 and the frameworks; the rest is by the vendors' pages,
which are named with each. Editors' own agents mostly talk to their vendor's servers, which nothing on this machine can
change; what is left is said with each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from urllib.parse import quote

from msgspec import Struct

from hivemind.setup import routes
from hivemind.setup.frameworks import FRAMEWORKS, Framework
from hivemind.setup.servers import SERVERS, ModelServer
from hivemind.text import shells
from hivemind.text.shells import TOKEN, TOKEN_VARIABLE, Shell
from hivemind.upstream.origin import is_loopback, is_public

Language = Literal["shell", "command", "toml", "json", "dotenv", "python", "javascript", "url"]
"""`shell` sets variables of the shell that starts the client, `command` is a program to be run once."""


class Target(Struct, frozen=True):
    """The proxy, and the agent that is to reach it."""

    url: str
    """Scheme, host and port; nothing after them."""
    agent: str
    """As people write it; a URL has it quoted."""
    token: bool
    """The proxy asks for one."""
    shell: Shell = "bash"

    @property
    def named(self) -> str:
        """The base URL with the agent's name in it."""
        # A name that holds the token's placeholder must not be given the token in its place.
        name = quote(self.agent, safe="").replace(TOKEN, TOKEN.replace("-", "%2D"))
        return f"{self.url}/agent/{name}"

    @property
    def base(self) -> str:
        """The same with, where one is asked for, a place for the token: :data:`~hivemind.text.shells.TOKEN`."""
        return self.named if not self.token else self.named.replace(self.url, f"{self.url}/token/{TOKEN}", 1)


class Snippet(Struct, frozen=True):
    """Lines to paste into a shell or a file."""

    where: str
    """Which file or shell it goes to."""
    text: str
    """Nothing but what is to be pasted. Empty where doing it needs no pasting."""
    language: Language = "shell"


class Steps(Struct, frozen=True):
    """What a client has of its own."""

    snippets: tuple[Snippet, ...]
    """The first is the shortest way."""
    undo: Snippet
    needs: str
    notes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    """What can't be done, said before anything else."""


class Client(Struct, frozen=True):
    """A program, or a kind of program, that can be pointed at the proxy at least in part."""

    name: str
    """As in `hivemind setup NAME`."""
    title: str
    summary: str
    agent: str
    """Its agent's name, unless the user gives another."""
    docs: tuple[str, ...]
    steps: Callable[[Target], Steps]
    named: bool
    """Its requests come under an agent's name."""


def client(
    title: str, summary: str, agent: str, *docs: str, named: bool = True
) -> Callable[[Callable[[Target], Steps]], Client]:
    """Make a client of the function that returns its steps, whose name is the client's."""

    def made(steps: Callable[[Target], Steps]) -> Client:
        return Client(steps.__name__.replace("_", "-"), title, summary, agent, docs, steps, named)

    return made


class Instructions(Struct, frozen=True):
    """How to point a client at a proxy."""

    client: Client
    target: Target
    steps: Steps
    check: Snippet
    facts: tuple[tuple[str, str], ...]
    """Each a label of one word and a sentence or two."""


HERE = "In the shell that starts it"
_BARE_IN_DOTENV = re.compile(r"[\w@%+=:,./{}~[\]-]*", re.ASCII)


def exports(target: Target, *variables: str) -> str:
    """Return the lines that point whatever reads these variables at the proxy."""
    return "\n".join(shells.exported(target.shell, name, target.base + routes.SUFFIXES[name]) for name in variables)


def in_json(where: str, content: object) -> Snippet:
    """Return a snippet of a JSON file."""
    return Snippet(where, json.dumps(content, indent=2, ensure_ascii=False), "json")


def dotenv(where: str, target: Target, *variables: str) -> Snippet:
    """Return a snippet of a file of variables that point at the proxy."""
    lines = [f"{name}={_dotenv_value(target.base + routes.SUFFIXES[name])}" for name in variables]
    return Snippet(where, "\n".join(lines), "dotenv")


def toml_text(text: str) -> str:
    """A basic string of TOML, whose escapes include all of JSON's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dotenv_value(text: str) -> str:
    """Quote it with single quotes, within which no variable is read: https://saurabh-kumar.com/python-dotenv/reference/"""
    if _BARE_IN_DOTENV.fullmatch(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unset(target: Target, *names: str, also: str = "") -> Snippet:
    """Take the variables away again."""
    where = f"To undo it, and {also}" if also else "To undo it"
    return Snippet(where, shells.removed(target.shell, *names))


_NAME = "hivemind"
_CONTROL_TOKEN = "HIVEMIND_CONTROL_TOKEN"


@client("HiveMind's tools", "for agents, in clients that speak MCP", "worker", named=False)
def mcp(target: Target) -> Steps:
    command = ["hivemind", "mcp", "--attach", target.url]
    program, *arguments = command
    words = " ".join(shells.word(target.shell, each) for each in command)
    plain = {"command": program, "args": arguments}
    local = is_loopback(target.url)
    passed = ["HIVEMIND_AGENT", "HIVEMIND_RUN_TOKEN", *([] if local else [_CONTROL_TOKEN])]
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
        undo=Snippet(
            f"To undo it, claude mcp remove {_NAME}, gemini mcp remove {_NAME}, or take the entry out of the file.", ""
        ),
        needs="hivemind, installed with its extra mcp, on the PATH that the client has, else its full path in place of"
        " the word. "
        + (
            "The proxy may be started later, and anew; the token is found in its state directory."
            if local
            else f"The proxy's control token in {_CONTROL_TOKEN} where the client is started."
        ),
        notes=(
            "The tools are listed as hm.status and so on; where a client takes no dots it makes them hm_status, and"
            " both are understood.",
            "A client that hivemind run has started is known to the tools by its agent's name. Otherwise add --agent"
            " NAME at the end of the command.",
            "--mcp.read-only on keeps tools from changing settings, priorities and budgets, --mcp.enabled off takes"
            " /mcp away.",
        ),
    )


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
    return _past_hivemind(
        "Windsurf",
        target,
        "Windsurf (since June 2026 Devin Desktop) sends its own agents and its completion to its own servers. It has no"
        " base URL to change, not for models of your own key either.",
        "Agents that it runs over ACP (Claude, Codex, OpenCode, Gemini CLI) have their own settings: see hivemind setup"
        " claude-code, codex, opencode, gemini.",
    )


@client(
    "GitHub Copilot",
    "models of your own key (CLI and VS Code)",
    "copilot",
    "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/use-byok-models",
    "https://code.visualstudio.com/docs/agent-customization/language-models",
)
def copilot(target: Target) -> Steps:
    names = [f"COPILOT_{each}" for each in ("PROVIDER_TYPE", "PROVIDER_BASE_URL", "PROVIDER_API_KEY", "MODEL")]
    given = {names[0]: "anthropic", names[1]: target.base, names[3]: routes.COPILOT_MODEL}
    lines = [shells.exported(target.shell, name, value) for name, value in given.items()]
    lines.insert(2, shells.copied(target.shell, names[2], "ANTHROPIC_API_KEY"))
    return Steps(
        limits=(
            "Copilot's own models and its inline suggestions run on GitHub's servers and can't be sent elsewhere."
            " Models of your own key can: in Copilot's command line, and in the chat of VS Code.",
        ),
        snippets=(
            Snippet("For Copilot CLI, in the shell that starts it, with the model you want", "\n".join(lines)),
            in_json(
                "In VS Code (1.122 or later): Chat: Manage Language Models, Add Models, Custom Endpoint; then in"
                " chatLanguageModels.json, beside what is there",
                [_endpoint(target)],
            ),
        ),
        undo=unset(target, *names, also="take the entry out of chatLanguageModels.json"),
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
        "id": routes.COPILOT_MODEL,
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


def _past_hivemind(editor: str, target: Target, limit: str, note: str) -> Steps:
    """Return the steps for an editor whose own agents can't be pointed anywhere."""
    needs, undo = "An Anthropic upstream, for Claude Code.", unset(target, "ANTHROPIC_BASE_URL")
    return Steps(limits=(limit,), snippets=(_in_its_terminal(editor, target),), undo=undo, needs=needs, notes=(note,))


def _in_its_terminal(editor: str, target: Target) -> Snippet:
    where = f"An agent that runs in {editor}'s terminal can be pointed at HiveMind; Claude Code, for one"
    return Snippet(where, exports(target, "ANTHROPIC_BASE_URL"))


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
            Snippet(HERE, exports(target, "ANTHROPIC_BASE_URL")),
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
    return "codex " + " ".join(
        f"-c {shells.word(target.shell, each)}" for each in routes.codex_settings(target.named, token=target.token)
    )


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
            Snippet("Then in another terminal, under another name", "codex -c " + shells.filled(target.shell, another)),
            Snippet("Or for one session, with nothing in a file", codex_line(target)),
        ),
        undo=Snippet("To undo it, take the lines out of config.toml again.", ""),
        needs="An OpenAI upstream, and the key in OPENAI_API_KEY; for a single session, a key saved with codex login"
        " --with-api-key. A ChatGPT login is for another service than api.openai.com: hivemind run leaves Codex alone"
        " then, and says so.",
        notes=(
            "The URL ends in /v1. Codex doesn't read OPENAI_BASE_URL any more.",
            "Without a provider of its own it tries a WebSocket first, says that this failed, and goes on over HTTP.",
        ),
    )


_TITLE_NOTE = "Each new session makes two requests at once: the answer, and a title from a small model."
_GATEWAY_NOTE = "Models of its own gateway (kilo/...) go past HiveMind."


def _opencode(name: str, title: str, host: str, docs: str, note: str) -> Client:
    """Make a client of opencode, or of what is made of it."""
    variable = f"{name.upper()}_CONFIG_CONTENT"

    def steps(target: Target) -> Steps:
        url = target.base.replace(shells.TOKEN, routes.INLINE_TOKEN) + "/v1"
        inline = json.dumps({"provider": {"anthropic": {"options": {"baseURL": url}}}}, separators=(",", ":"))
        where = f"In {name}.json of the project, or ~/.config/{name}/{name}.json for all of them"
        return Steps(
            snippets=(
                in_json(where, {"$schema": f"https://{host}/config.json", "provider": routes.opencode_providers(url)}),
                Snippet("Or for one terminal, with a name of its own", shells.exported(target.shell, variable, inline)),
            ),
            undo=unset(target, variable, also=f"take the entries out of {name}.json"),
            needs=f"An upstream for each provider in use. {title} keeps the keys it has, from /connect or the"
            " environment.",
            notes=("Both URLs end in /v1.", note),
        )

    return Client(name, title, f"base URLs in {name}.json", name, (docs,), steps, True)


@client("Gemini CLI", "one variable, and settings.json", "gemini", "https://geminicli.com/docs/reference/configuration")
def gemini(target: Target) -> Steps:
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "GOOGLE_GEMINI_BASE_URL")),
            in_json(
                "In ~/.gemini/settings.json, beside what is there; gemini -p doesn't start without it",
                routes.GEMINI_SETTINGS,
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
            Snippet(HERE, exports(target, *names)),
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


@client("pi", "an extension in a file", "pi", "https://github.com/earendil-works/pi")
def pi(target: Target) -> Steps:
    urls = {"anthropic": target.base, "openai": f"{target.base}/v1", "google": f"{target.base}/v1beta"}
    return Steps(
        snippets=(
            Snippet("In ~/.pi/agent/extensions/hivemind.js", routes.pi_extension(urls).rstrip(), "javascript"),
            in_json(
                "Or in ~/.pi/agent/models.json, beside what is there",
                {"providers": {name: {"baseUrl": url} for name, url in urls.items()}},
            ),
        ),
        undo=Snippet("To undo it, remove the file, or take the entries out of models.json.", ""),
        needs="An upstream for each provider in use. pi keeps the keys it has, from pi auth or the environment.",
        notes=(
            "The extension also names each session, which models.json can't. A provider of your own takes the base URL"
            " of its API: /v1 for chat completions and responses, none for Anthropic's, /v1beta for Google's.",
        ),
    )


@client("cline", "one command", "cline", "https://docs.cline.bot/cline-cli/overview")
def cline(target: Target) -> Steps:
    key = shells.variable(target.shell, "OPENAI_API_KEY")
    url = shells.filled(target.shell, f"{target.base}/v1")
    line = f"cline auth -p openai -k {key} -b {url} -m gpt-5.4"
    return Steps(
        snippets=(Snippet("In a shell, with the model you want", line),),
        undo=Snippet("To undo it, run cline auth again, without -b.", ""),
        needs="An OpenAI upstream, and the key in OPENAI_API_KEY. cline auth takes a URL for no other provider; in"
        " ~/.cline/data/settings/providers.json anthropic takes the same as baseUrl. cline's own account goes past"
        " HiveMind.",
        notes=(
            "The URL ends in /v1. Sessions run in a daemon, which may have begun with another URL; with"
            " CLINE_SESSION_BACKEND_MODE=local they don't, as in hivemind run.",
            "cline names no session: all of them are one agent, unless each has a URL of its own.",
        ),
    )


@client("Qwen Code", "variables, or settings.json", "qwen", "https://qwenlm.github.io/qwen-code-docs")
def qwen_code(target: Target) -> Steps:
    model = {
        "id": "qwen3-coder-plus",
        "envKey": "OPENAI_API_KEY",
        "baseUrl": f"{target.base}/v1",
        "generationConfig": {"customHeaders": {"x-session-id": "${session_id}"}},
    }
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")),
            in_json(
                "Or in ~/.qwen/settings.json, beside what is there, where each session is then named",
                {"modelProviders": {"openai": [model]}, "outboundCorrelation": {"allowDynamicHeaderValues": True}},
            ),
        ),
        undo=unset(target, "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", also="take the entries out of settings.json"),
        needs="An upstream for the provider in use, as openai=https://dashscope.aliyuncs.com/compatible-mode/v1, and"
        " its key in OPENAI_API_KEY (ANTHROPIC_API_KEY with --auth-type anthropic). A Qwen login goes past HiveMind.",
        notes=(
            "OpenAI's URL ends in /v1, Anthropic's doesn't. A baseUrl in modelProviders overrides the variables.",
            "Without that header no session is named: all of them are one agent, unless each has a URL of its own.",
        ),
    )


@client("Crush", "variables, or crush.json", "crush", "https://github.com/charmbracelet/crush")
def crush(target: Target) -> Steps:
    lines = [shells.exported(target.shell, name, target.base + suffix) for name, suffix in routes.CRUSH.items()]
    providers = {"anthropic": {"base_url": target.base}, "openai": {"base_url": f"{target.base}/v1"}}
    return Steps(
        snippets=(
            Snippet(HERE, "\n".join(lines)),
            in_json(
                "Or in crush.json of the project, or ~/.config/crush/crush.json for all of them",
                {"$schema": "https://charm.land/crush.json", "providers": providers},
            ),
        ),
        undo=unset(target, *routes.CRUSH, also="take the entries out of crush.json"),
        needs="An upstream for each provider in use. Crush keeps the keys it has.",
        notes=("By its documentation; it wasn't tried. OpenAI's URL ends in /v1, Anthropic's doesn't.",),
    )


@client("Grok Build", "a variable", "grok", "https://x.ai/cli")
def grok(target: Target) -> Steps:
    return Steps(
        snippets=(Snippet(HERE, shells.exported(target.shell, routes.GROK_URL, f"{target.base}/v1")),),
        undo=unset(target, routes.GROK_URL),
        needs=f"An upstream at xAI (https://api.x.ai), and its key in {routes.GROK_KEY}. A login goes past HiveMind.",
        notes=("The URL ends in /v1.",),
    )


@client("Mistral's Vibe", "a variable, or config.toml", "vibe", "https://docs.mistral.ai/mistral-vibe")
def vibe(target: Target) -> Steps:
    provider = {**routes.VIBE_MISTRAL, "api_base": f"{target.base}/v1"}
    lines = (f"{name} = {toml_text(value)}" for name, value in provider.items())
    return Steps(
        snippets=(
            Snippet(HERE, shells.exported(target.shell, routes.VIBE_PROVIDERS, json.dumps([provider]))),
            Snippet("Or in ~/.vibe/config.toml, beside what is there", "\n".join(("[[providers]]", *lines)), "toml"),
        ),
        undo=unset(target, routes.VIBE_PROVIDERS, also="take the table out of config.toml"),
        needs="An upstream at Mistral (https://api.mistral.ai). Vibe keeps its MISTRAL_API_KEY.",
        notes=("The URL ends in /v1. Other providers of config.toml go past HiveMind.",),
    )


@client("Amp", "agents that it starts, not its own", "claude", "https://ampcode.com/manual")
def amp(target: Target) -> Steps:
    return _past_hivemind(
        "Amp",
        target,
        "Amp's own agents talk to its own servers, which call the models; there is no base URL of a model to change.",
        "By its documentation; it wasn't tried. hivemind run says that Amp's requests go past HiveMind.",
    )


@client("Anything else", "variables and code for the providers' SDKs", "worker")
def generic(target: Target) -> Steps:
    key = shells.variable(target.shell, "ANTHROPIC_API_KEY")
    headers = (f"x-api-key: {key}", "anthropic-version: 2023-06-01")
    return Steps(
        snippets=(
            Snippet(HERE, exports(target, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")),
            Snippet("Or in Python, with Anthropic's SDK", _ANTHROPIC.format(url=json.dumps(target.base)), "python"),
            Snippet("With OpenAI's SDK", _OPENAI.format(url=json.dumps(f"{target.base}/v1")), "python"),
            Snippet(
                "To try it all the way to an Anthropic upstream",
                shells.curl(target.shell, f"{target.base}/v1/models", *headers),
            ),
        ),
        undo=unset(target, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"),
        needs="An upstream for each provider in use. The SDKs read ANTHROPIC_API_KEY and OPENAI_API_KEY as before.",
        notes=(
            "OpenAI's URL ends in /v1, Anthropic's doesn't. As Anthropic's go GOOGLE_GEMINI_BASE_URL (Google Gen AI"
            " SDKs), AZURE_OPENAI_ENDPOINT, OLLAMA_HOST, and ANTHROPIC_API_URL, which LangChain reads first.",
            f"Where only headers can be set, x-hivemind-agent: {target.agent} gives the name. x-hivemind-priority is"
            " critical, high, normal or low.",
        ),
    )


def _framework(found: Framework) -> Client:
    """Make a client of a framework, whose agents are below one name."""

    def steps(target: Target) -> Steps:
        return Steps(
            snippets=(
                Snippet(HERE, exports(target, *found.variables)),
                Snippet("In Python, so that each agent of a crew is shown below that name", found.code, "python"),
            ),
            undo=unset(target, *found.variables),
            needs="An upstream for each provider in use. Keys stay where they are.",
            notes=("hivemind run sets the variables by itself.", *found.notes),
        )

    return Client(found.name, found.title, "variables, a name for each agent", "crew", (found.docs,), steps, True)


def _server(found: ModelServer) -> Client:
    """Make a client of a model server: all agents that use it."""
    variables = ("OPENAI_BASE_URL", *(("ANTHROPIC_BASE_URL",) if found.messages else ()))

    def steps(target: Target) -> Steps:
        return Steps(
            snippets=(
                Snippet("To start it", found.start, "command"),
                Snippet("HiveMind before it", f"hivemind proxy --upstream {found.url}", "command"),
                Snippet("In the shell that starts an agent", exports(target, *variables)),
            ),
            undo=unset(target, *variables),
            needs="No limits, no profile and no key: HiveMind recognises it. Clients with settings of their own are"
            " pointed as hivemind setup CLIENT says.",
            notes=found.notes,
        )

    return Client(
        found.name, found.title, "a model server, and HiveMind before it", "worker", (found.docs,), steps, True
    )


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        claude_code,
        codex,
        cursor,
        windsurf,
        copilot,
        _opencode("opencode", "opencode", "opencode.ai", "https://opencode.ai/docs/providers", _TITLE_NOTE),
        _opencode("kilo", "Kilo", "app.kilo.ai", "https://kilo.ai/docs/cli", _GATEWAY_NOTE),
        gemini,
        aider,
        pi,
        cline,
        qwen_code,
        crush,
        grok,
        vibe,
        amp,
        *map(_framework, FRAMEWORKS),
        *map(_server, SERVERS),
        generic,
        mcp,
    )
}

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

    `url` is scheme, host and port; `agent` a name that :func:`~hivemind.agent_names.normalised` accepts; `token`
    says whether the proxy asks for one, which is then read from a variable or left to be filled in, never told.
    """
    target = Target(url, agent, token, shell)
    steps = client.steps(target)
    check = Snippet("To check that the proxy answers", shells.curl(shell, f"{url}/_health"))
    return Instructions(client, target, steps, check, tuple(_facts(client, target, steps)))


def quick_lines(url: str, *, token: bool = False, shell: Shell = "bash") -> tuple[tuple[str, str], ...]:
    """Return the best known clients, each with the one line to begin with, which is also in its instructions."""
    lines = []
    for title, name, variable in _QUICK:
        target = Target(url, CLIENTS[name].agent, token, shell)
        lines.append((title, exports(target, variable) if variable else codex_line(target)))
    return tuple(lines)


def _facts(client: Client, target: Target, steps: Steps) -> Iterator[tuple[str, str]]:
    yield "Needs", steps.needs
    if target.token and client.named:
        texts = [snippet.text for snippet in steps.snippets]
        named = f"{TOKEN_VARIABLE} is to hold the proxy's token where the client is started."
        placed = f"Put it in the place of {TOKEN}."
        about = ((TOKEN_VARIABLE, named), (TOKEN, placed))
        yield "Token", " ".join(said for sign, said in about if any(sign in text for text in texts))
    if client.named:
        yield (
            "Name",
            f"The control room shows {target.agent} after its first request. What follows /agent/ is yours to choose:"
            " give each terminal its own.",
        )
    yield from (("Note", note) for note in steps.notes)
    yield from (("More", page) for page in client.docs)
