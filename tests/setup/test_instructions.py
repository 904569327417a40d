from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hivemind.cli.setup import as_text
from hivemind.setup.clients import CLIENTS, Client, Instructions, Snippet, instructions, quick_lines
from hivemind.text.shells import SHELLS, TOKEN, Shell
from hivemind.upstream.origin import is_loopback, is_public
from hivemind.wire.request_head import parse_path

URL = "http://127.0.0.1:8765"
PUBLIC = "https://hive.example.com"
TOKENS = "HIVEMIND_CONTROL_TOKEN"
ODD = "../a b/é$x'\"%&?#"
"""A name that no URL and no shell takes as it is."""

every = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
Golden = Callable[[str, str], None]


def each_of(client: Client) -> Iterator[tuple[Instructions, str, str, bool]]:
    """A client's instructions for each proxy, name and shell, with its URL, the name, and whether it wants a token."""
    for url, token in ((URL, False), (PUBLIC, True), ("http://[::1]:8765", False)):
        for agent, shell in itertools.product((client.agent, ODD), SHELLS):
            yield instructions(client, url, agent, token, shell=shell), url, agent, token


def snippets(found: Instructions, *languages: str) -> list[Snippet]:
    """Those in these languages."""
    return [snippet for snippet in found.steps.snippets if snippet.language in languages]


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_text(client: Client, golden: Golden) -> None:
    """What a client's user reads, on the machine that the proxy runs on."""
    golden(client.name, as_text(instructions(client, URL, client.agent, False)))


@pytest.mark.parametrize("shell", ["fish", "powershell"])
def test_text_elsewhere(shell: Shell, golden: Golden) -> None:
    """What is read in another shell, for a proxy on another machine, which asks for a token."""
    texts = [as_text(instructions(client, PUBLIC, "alice", True, shell=shell)) for client in CLIENTS.values()]
    golden(f"{shell}_token", ("-" * 80 + "\n").join(texts))


def test_quick_lines(golden: Golden) -> None:
    """The lines of the control room's first page."""
    golden("quick_lines", "\n".join(f"{title:<16}{line}" for title, line in quick_lines(URL)))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("token", [False, True])
def test_quick_lines_are_in_the_long_form(shell: Shell, token: bool) -> None:
    """Each quick line is a line of its client's instructions as well."""
    long = {
        line
        for client in CLIENTS.values()
        for line in as_text(instructions(client, URL, client.agent, token, shell=shell)).splitlines()
    }
    lines = quick_lines(URL, token=token, shell=shell)
    assert {line for _, line in lines} - long == set()
    assert len({title for title, _ in lines}) == len(lines) == 6


def test_quick_lines_are_short() -> None:
    """They fit beside their titles in a terminal of 80 columns or a few more."""
    assert max(len(line) for _, line in quick_lines(URL)) <= 76


@every
def test_layout(client: Client) -> None:
    """What is to be pasted is alone on its lines, as it is; prose has 80 columns, but for a page's address."""
    for found, *_ in each_of(client):
        blocks = as_text(found).split("\n\n")
        snippets = (*found.steps.snippets, found.check, found.steps.undo)
        pasted = "\n\n".join(snippet.text for snippet in snippets).split("\n\n")
        assert [block for block in pasted if block and block not in blocks] == []
        prose = [line for block in blocks if block not in pasted for line in block.splitlines()]
        assert [line for line in prose if len(line) > 80 and "https://" not in line] == []
        assert all(snippet.text for snippet in found.steps.snippets)


def urls_in(content: object) -> list[str]:
    """Every URL of the proxy's in a file's content."""
    if isinstance(content, dict):
        return [url for value in content.values() for url in urls_in(value)]
    if isinstance(content, list):
        return [url for value in content for url in urls_in(value)]
    return [content] if isinstance(content, str) and "/agent/" in content else []


def contents(found: Instructions) -> list[Any]:
    """The files, read."""
    read: dict[str, Callable[[str], Any]] = {
        "json": json.loads,
        "toml": tomllib.loads,
        "dotenv": lambda text: dict(line.split("=", 1) for line in text.splitlines()),
        "url": lambda text: [text],
    }
    return [read[snippet.language](snippet.text) for snippet in snippets(found, *read)]


@every
def test_files(client: Client) -> None:
    """Every file parses and code compiles, and the URLs in files bring the agent's name to the proxy, whatever is in
    that."""
    for found, url, agent, _ in each_of(client):
        for file_url in urls_in(contents(found)):
            assert file_url.startswith(url)
            reached = parse_path(file_url.removeprefix(url).encode())
            assert reached.agent == agent
            assert reached.path in ("/", "/v1", "/v1beta", "/v1/messages")
            assert reached.token in (None, TOKEN, "{env:HIVEMIND_TOKEN}")
        for snippet in snippets(found, "python"):
            compile(snippet.text, "snippet", "exec")


def test_codex_configuration() -> None:
    """The provider that is chosen is the one that is defined; with a token it is sent from the variable."""
    for token in (False, True):
        found = instructions(CLIENTS["codex"], URL, "bob", token)
        (file,) = contents(found)
        provider = file["model_providers"][file["model_provider"]]
        assert provider["base_url"] == f"{URL}/agent/bob/v1"
        assert provider.get("env_http_headers") == ({"x-hivemind-token": "HIVEMIND_TOKEN"} if token else None)


@every
def test_nothing_is_left_to_guess(client: Client) -> None:
    """Where a token has a place or a variable, both are explained; where none is asked for, neither is there."""
    for found, _, _, token in each_of(client):
        facts = " ".join(text for label, text in found.facts if label == "Token")
        pasted = " ".join(snippet.text for snippet in found.steps.snippets)
        for word in (TOKEN, "HIVEMIND_TOKEN"):
            assert (word in pasted) == (word in facts)
            assert token or word not in pasted
        assert any(label == "Needs" for label, _ in found.facts)


@pytest.mark.parametrize(
    ("url", "loopback", "public"),
    [
        ("http://127.0.0.1:8765", True, False),
        ("http://[::1]:8765", True, False),
        ("http://localhost", True, False),
        ("http://10.0.0.5:8765", False, False),
        ("https://10.0.0.5:8765", False, False),
        ("https://mac.local", False, False),
        ("https://box", False, False),
        ("https://hive.example.com", False, True),
        ("http://hive.example.com", False, False),
        ("https://1.1.1.1", False, True),
    ],
)
def test_reach(url: str, loopback: bool, public: bool) -> None:
    """What is on this machine, and what a server on the internet may call."""
    assert (is_loopback(url), is_public(url)) == (loopback, public)


@pytest.mark.parametrize(("url", "variables"), [(URL, []), (PUBLIC, [TOKENS])])
def test_tools_are_added_the_same_everywhere(url: str, variables: list[str]) -> None:
    """Each client starts the same command; Codex, which hides variables, is told which ones the command wants."""
    found = instructions(CLIENTS["mcp"], url, "worker", False)
    command = ["hivemind", "mcp", "--attach", url]
    assert [snippet.text.endswith(" ".join(command)) for snippet in snippets(found, "command")] == [True, True]
    codex = tomllib.loads(snippets(found, "toml")[0].text)["mcp_servers"]["hivemind"]
    opencode, cursor, code = (json.loads(snippet.text) for snippet in snippets(found, "json"))
    others = [codex, cursor["mcpServers"]["hivemind"], code["servers"]["hivemind"]]
    assert [[each["command"], *each["args"]] for each in others] == [command] * 3
    assert opencode["mcp"]["hivemind"]["command"] == command
    assert codex["env_vars"] == ["HIVEMIND_AGENT", "HIVEMIND_RUN_TOKEN", *variables]
