"""What an agent's process is told of the proxy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hivemind.agents.clients.facts import RESUME_VARIABLE, Call
from hivemind.agents.environment import ProxyRoute, command_for, environment_for
from hivemind.api_types import PlaceResponse
from hivemind.setup.routes import VIBE_MISTRAL
from hivemind.wire.request_head import parse_path

URL = "http://127.0.0.1:8765"
BASE = f"{URL}/agent/alice"


def made(way: ProxyRoute, task: str | None = None, **environ: str) -> Mapping[str, str]:
    """Alice's environment."""
    return environment_for(way, "alice", environ, task=task)


@pytest.mark.parametrize(
    ("way", "base"),
    [
        (ProxyRoute(URL, hold_answers=True), f"{URL}/hold-answers/agent/alice"),
        (ProxyRoute(URL, "secret", to="lab", hold_answers=True), f"{URL}/hold-answers/to/lab/token/secret/agent/alice"),
    ],
)
def test_held_answers(way: ProxyRoute, base: str) -> None:
    """That a run's answers are held is part of its path, so every client says so."""
    environ = made(way)
    assert (environ["OPENAI_BASE_URL"], environ["HIVEMIND_ROUTE"]) == (f"{base}/v1", base)
    assert Call([], {}, base).base_with("T") == base.replace("secret", "T")
    path = parse_path(f"{base.removeprefix(URL)}/v1/messages".encode())
    assert (path.path, path.agent, path.holds) == ("/v1/messages", "alice", True)


def test_every_sdk() -> None:
    """Each variable has the agent's own path in the form that its readers want; what was there otherwise stays."""
    providers = {name: {"options": {"baseURL": f"{BASE}/v1"}} for name in ("anthropic", "openai")}
    assert made(ProxyRoute(URL), EDITOR="vi", ANTHROPIC_BASE_URL="https://elsewhere") == {
        "EDITOR": "vi",
        "HIVEMIND_AGENT": "alice",
        "HIVEMIND_URL": URL,
        "HIVEMIND_ROUTE": BASE,
        "ANTHROPIC_BASE_URL": BASE,
        "ANTHROPIC_API_URL": BASE,
        "ANTHROPIC_API_BASE": BASE,
        "OPENAI_BASE_URL": f"{BASE}/v1",
        "OPENAI_API_BASE": f"{BASE}/v1",
        "GOOGLE_GEMINI_BASE_URL": BASE,
        "OLLAMA_HOST": BASE,
        "OLLAMA_API_BASE": BASE,
        "AIDER_OPENAI_API_BASE": f"{BASE}/v1",
        "ANTHROPIC_API_ENDPOINT": BASE,
        "OPENAI_API_ENDPOINT": f"{BASE}/v1",
        "VIBE_PROVIDERS": json.dumps([{**VIBE_MISTRAL, "api_base": f"{BASE}/v1"}]),
        "GEMINI_API_ENDPOINT": BASE,
        **dict.fromkeys(("OPENCODE_CONFIG_CONTENT", "KILO_CONFIG_CONTENT"), json.dumps({"provider": providers})),
        "KIMI_BASE_URL": f"{BASE}/v1",
        "NO_PROXY": "127.0.0.1,localhost,::1",
        "no_proxy": "127.0.0.1,localhost,::1",
    }


def test_a_name_for_a_url() -> None:
    """A name is quoted where a URL holds it."""
    found = environment_for(ProxyRoute(URL), "team a/ann", {})
    assert (found["HIVEMIND_AGENT"], found["ANTHROPIC_BASE_URL"]) == ("team a/ann", f"{URL}/agent/team%20a%2Fann")


def test_task() -> None:
    """Its own task, and not that of the agent that starts it."""
    assert made(ProxyRoute(URL), task="nightly.lint", HIVEMIND_TASK="nightly")["HIVEMIND_TASK"] == "nightly.lint"
    assert "HIVEMIND_TASK" not in made(ProxyRoute(URL), HIVEMIND_TASK="nightly")


def test_token() -> None:
    """Where agents must show a token it stands in the path, and in the variable that setup's lines read."""
    found = made(ProxyRoute(URL, token="to/ken"))
    assert found["HIVEMIND_TOKEN"] == "to/ken"
    assert found["OPENAI_BASE_URL"] == f"{URL}/token/to%2Fken/agent/alice/v1"
    assert f"{URL}/token/{{env:HIVEMIND_TOKEN}}/agent/alice/v1" in found["OPENCODE_CONFIG_CONTENT"]
    assert "to/ken" not in repr(ProxyRoute(URL, token="to/ken"))


def test_one_upstream() -> None:
    """All requests go to the upstream that is named, whatever their paths."""
    way = ProxyRoute(URL, token="t", upstreams=(("work", "https://api.anthropic.com"),), to="work")
    assert made(way)["ANTHROPIC_BASE_URL"] == f"{URL}/to/work/token/t/agent/alice"


def test_azure() -> None:
    """Only before an upstream at Azure: the SDKs take another path with this variable."""
    azure = ("azure", "https://x.openai.azure.com")
    assert made(ProxyRoute(URL, upstreams=(azure,)))["AZURE_OPENAI_ENDPOINT"] == BASE
    elsewhere = ProxyRoute(URL, upstreams=(azure, ("openai", "https://api.openai.com")), to="openai")
    assert "AZURE_OPENAI_ENDPOINT" not in made(elsewhere)


def test_no_proxy() -> None:
    """A proxy on this machine isn't reached through another; one elsewhere may be."""
    assert made(ProxyRoute(URL), no_proxy="intra, localhost")["NO_PROXY"] == "intra,localhost,127.0.0.1,::1"
    assert made(ProxyRoute(URL), NO_PROXY="*")["NO_PROXY"] == "*"
    assert "NO_PROXY" not in made(ProxyRoute("https://hive.example.com"))


def test_state_dir(tmp_path: Path) -> None:
    """A run inside finds the proxy's note where it is."""
    assert made(ProxyRoute(URL, state_dir=tmp_path))["HIVEMIND_STATE_DIR"] == str(tmp_path)


def test_credentials() -> None:
    """A run gets its own token for the control API, and none that the runner has."""
    theirs = {"HIVEMIND_RUN_TOKEN": "outer", "HIVEMIND_CONTROL_TOKEN": "control", "HIVEMIND_FLEET": "redis://store"}
    way = ProxyRoute(URL, "agents").with_tokens(PlaceResponse(True, 0, "own", "inner"))
    found = made(way, **theirs)
    assert (found["HIVEMIND_RUN_TOKEN"], found["HIVEMIND_TOKEN"]) == ("inner", "own")
    assert [name for name, value in found.items() if value in ("outer", "control", "redis://store", "agents")] == []
    assert not {"HIVEMIND_RUN_TOKEN", *theirs} & set(made(ProxyRoute(URL), **theirs))
    assert "inner" not in repr(way)


def installed(folder: Path, *names: str) -> str:
    """A PATH with programs of these names, which print their name and arguments."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
        (folder / name).chmod(0o755)
    return str(folder)


def test_client_by_its_path(tmp_path: Path) -> None:
    """The shim starts a client that is named by its path, and any client where no folder of shims can be made."""
    environ = environment_for(
        ProxyRoute(URL, state_dir=tmp_path), "alice", {"PATH": installed(tmp_path / "b", "codex")}
    )
    words = (str(tmp_path / "b/codex"), "exec", "hello")
    for command, where in ((words, environ), (("codex", *words[1:]), {**environ, "PATH": str(tmp_path / "b")})):
        ended = subprocess.run(command_for(command, where), env=where, capture_output=True, text=True, timeout=60)
        assert ended.stdout.startswith(f"codex -c openai_base_url={BASE}/v1 -c ")
        assert ended.stdout.endswith(" exec hello\n")
    assert command_for(("codex", "exec"), environ) == ("codex", "exec")
    assert command_for(("/usr/bin/claudette", "codex"), environ) == ("/usr/bin/claudette", "codex")


def test_shims_are_in_front(tmp_path: Path) -> None:
    """One folder, whatever PATH had: a run inside of a run has one, too."""
    path = installed(tmp_path / "bin", "codex")
    way = ProxyRoute(URL, state_dir=tmp_path / "state")
    first = made(way, PATH=path)["PATH"]
    shims, _, rest = first.partition(":")
    assert (rest, sorted(os.listdir(shims))) == (path, [".hivemind-shims", "codex"])
    assert made(way, PATH=first)["PATH"] == first
    other = made(ProxyRoute(URL, state_dir=tmp_path / "other"), PATH=first)["PATH"]
    assert other.partition(":")[2] == path
    assert other != first


def test_session_to_resume() -> None:
    """Only its own run's: what a run starts doesn't continue the session of the agent that started it."""
    assert RESUME_VARIABLE not in environment_for(ProxyRoute(URL), "alice", {RESUME_VARIABLE: "codex:1"})


def test_opencode() -> None:
    """The user's configuration stays, but for the address; what isn't an object is left for opencode to refuse."""
    given = {"theme": "x", "provider": {"openai": {"options": {"baseURL": "https://elsewhere", "timeout": 5}}}}
    found = json.loads(made(ProxyRoute(URL), OPENCODE_CONFIG_CONTENT=json.dumps(given))["OPENCODE_CONFIG_CONTENT"])
    assert found["theme"] == "x"
    assert found["provider"]["openai"] == {"options": {"baseURL": f"{BASE}/v1", "timeout": 5}}
    assert found["provider"]["anthropic"] == {"options": {"baseURL": f"{BASE}/v1"}}
    for wrong in ("[1]", "{", '{"provider": 5}', "5"):
        assert made(ProxyRoute(URL), OPENCODE_CONFIG_CONTENT=wrong)["OPENCODE_CONFIG_CONTENT"] == wrong


def test_gemini(tmp_path: Path) -> None:
    """Gemini CLI is told to log in with the key, unless the user's settings or variables say otherwise."""
    variable = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
    way = ProxyRoute(URL, state_dir=tmp_path)
    found = made(way, GEMINI_API_KEY="k")[variable]
    assert json.loads(Path(found).read_text()) == {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    assert variable not in made(way)
    assert made(way, GEMINI_API_KEY="k", **{variable: "/mine"})[variable] == "/mine"


@pytest.mark.parametrize(
    ("environ", "values"),
    [
        ({}, {}),
        ({"ANTHROPIC_API_KEY": "k"}, {"TYPE": "anthropic", "BASE_URL": BASE, "API_KEY": "k"}),
        ({"COPILOT_PROVIDER_TYPE": "openai"}, {"TYPE": "openai", "BASE_URL": f"{BASE}/v1"}),
        ({"COPILOT_PROVIDER_BASE_URL": "https://elsewhere"}, {"BASE_URL": f"{BASE}/v1"}),
    ],
)
def test_copilot(environ: dict[str, str], values: dict[str, str]) -> None:
    """Copilot's command line uses models of the user's own key; without one nothing is changed."""
    found = made(ProxyRoute(URL), **environ)
    prefix = "COPILOT_PROVIDER_"
    assert {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)} == values
