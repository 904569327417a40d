"""Claude Code's plugin: what `hivemind setup` writes, and what its hooks say with a proxy and without one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from commands.kit import Desk, desk
from control.kit import TOKEN
from program import Ended, called
from trusted import trusted_settings

from hivemind.cli.claude_code import main
from hivemind.scheduler.commands import BeginAgent, SetBudget
from hivemind.setup.claude_plugin import BEFORE, MANIFEST, SKILL

FILES = {MANIFEST, "hooks/hooks.json", SKILL}
EVENTS = ("SessionStart", "Stop", "SubagentStop")


def written(folder: Path, name: str = "a plugin") -> Ended:
    """Have the plugin written."""
    return called(folder, ("setup", "claude-code", "--plugin", name), {})


def files_in(folder: Path) -> set[str]:
    """Return the paths of all files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def hooks_of(plugin: Path) -> dict[str, str]:
    """Return the command line of each hook."""
    hooks = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]
    return {event: entry["hooks"][0]["command"] for event, (entry,) in hooks.items()}


def test_files(tmp_path: Path) -> None:
    """All three, in a new folder or an empty one, with nothing left beside it."""
    (tmp_path / "a plugin").mkdir()
    done = written(tmp_path)
    plugin = tmp_path / "a plugin"
    assert (done.code, done.err) == (0, "")
    assert f"claude --plugin-dir '{plugin}'" in done.out
    assert files_in(tmp_path) == {f"a plugin/{name}" for name in FILES}
    manifest = json.loads((plugin / MANIFEST).read_text())
    assert (manifest["name"], manifest["skills"]) == ("hivemind", ["./"])
    assert tuple(hooks_of(plugin)) == EVENTS
    assert plugin.stat().st_mode & 0o777 == 0o755
    command = (plugin / SKILL).read_text()
    assert command.startswith("---\nname: hivemind\n"), "else it is named after the folder"
    assert f"!`{shlex.join((sys.executable, '-P', '-m', 'hivemind.cli.claude_code', 'status'))}`" in command


def test_only_its_own_is_replaced(tmp_path: Path) -> None:
    """An older one of ours is renewed; what is somebody else's stays as it is."""
    assert written(tmp_path).code == 0
    (tmp_path / "a plugin" / "hooks" / "hooks.json").write_text("{}")
    (tmp_path / "a plugin" / "commands").mkdir()
    (tmp_path / "a plugin" / BEFORE).write_text("an older version's")
    assert written(tmp_path).code == 0
    assert files_in(tmp_path / "a plugin") == FILES
    assert tuple(hooks_of(tmp_path / "a plugin")) == EVENTS
    (tmp_path / "a plugin" / MANIFEST).write_text('{"name": "hivemind"}')
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("a plugin", "file", "link"):
        line = f"hivemind: {name}: is there already, and not by this command; name another folder"
        assert written(tmp_path, name).both == (2, line)
    assert (tmp_path / MANIFEST).exists() is False
    assert (tmp_path / "file").read_text() == "mine"


def test_wrong_use(tmp_path: Path) -> None:
    """Another client has no plugin, and a folder that can't be made is one line."""
    assert called(tmp_path, ("setup", "codex", "--plugin", "x"), {}).code == 2
    (tmp_path / "file").write_text("")
    done = written(tmp_path, "file/x")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("hivemind: file/x: ")


@pytest.mark.parametrize("event", [*EVENTS, "Other"])
def test_without_a_proxy(tmp_path: Path, event: str) -> None:
    """A hook as Claude Code starts it, in a folder that would break it: silent, and 0."""
    assert written(tmp_path).code == 0
    (tmp_path / "json.py").write_text("raise SystemExit(2)")
    (tmp_path / "hivemind.toml").write_text("port = [")
    command = hooks_of(tmp_path / "a plugin").get(event, hooks_of(tmp_path / "a plugin")["Stop"] + "ped")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/agent/ann"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], input="{}", capture_output=True, text=True, cwd=tmp_path, env=environ
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@asynccontextmanager
async def session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """Yield somebody before a proxy, whose agent ann this process is a session of."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO("{}"))
    for name in [name for name in os.environ if name.startswith(("HIVEMIND", "ANTHROPIC"))]:
        monkeypatch.delenv(name)
    async with desk(folder) as at:
        monkeypatch.setenv("HIVEMIND_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("HIVEMIND_CONTROL_TOKEN", TOKEN)
        monkeypatch.setenv("HIVEMIND_URL", at.proxy.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{at.proxy.url}/token/x/agent/ANN")
        yield at


async def said(event: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the hook prints."""
    capsys.readouterr()
    assert await asyncio.to_thread(main, [event]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return str(out)


async def test_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line of context: the agent's name as the proxy spells it, its budgets and the room."""
    async with session(tmp_path, monkeypatch) as at:
        at.proxy.proxy.apply(SetBudget("ann", 100_000), "test")
        found = json.loads(await said("SessionStart", capsys))["hookSpecificOutput"]
        assert found["hookEventName"] == "SessionStart"
        line = found["additionalContext"]
        assert "\n" not in line
        assert line.startswith(f"HiveMind: this session is the agent ann behind the proxy at {at.proxy.url}. Of ann's")
        assert "of 100,000 tokens used" in line
        assert "Room: 0 in flight of " in line
        monkeypatch.setenv("ANTHROPIC_BASE_URL", at.proxy.url)
        assert "this session goes by its id behind" in await said("SessionStart", capsys)


@pytest.mark.parametrize("event", ["Stop", "SubagentStop"])
async def test_end(
    event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line from 85 % of a budget on, its own or that of all; nothing before."""
    async with session(tmp_path, monkeypatch) as at:
        assert await said(event, capsys) == ""
        at.proxy.proxy.apply(SetBudget("ann", 1_000_000), "test")
        assert await said(event, capsys) == ""
        at.proxy.proxy.apply(SetBudget("ann", 1), "test")
        line = json.loads(await said(event, capsys))["systemMessage"]
        assert "% of ann's budget is used (" in line
        at.proxy.proxy.apply(SetBudget("ann", None), "test")
        at.proxy.proxy.apply(SetBudget(None, 1), "test")
        assert "% of the budget of all agents is used (" in await said(event, capsys)


@pytest.mark.parametrize("named", [True, False])
async def test_sub_agent(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that stops has ended: the session's own, whether the session has a name or goes by its id."""
    told = {"session_id": "5f1e0a52-0000-4000-8000-000000000000", "agent_id": "a8a6c3e2f1d90b7aa"}
    async with session(tmp_path, monkeypatch) as at:
        names = ("ann", "claude-code-5f1e0a52", "ann/a8a6c3e2", "claude-code-5f1e0a52/a8a6c3e2", "bob/a8a6c3e2")
        for name in names:
            at.proxy.proxy.apply(BeginAgent(name), "test")
        if not named:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", at.proxy.url)
        for text in ("no JSON", "{}", '{"session_id": "5f1e0a52", "agent_id": "unknown"}'):
            monkeypatch.setattr("sys.stdin", io.StringIO(text))
            assert await said("SubagentStop", capsys) == ""
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(told)))
        assert await said("SubagentStop", capsys) == ""
        ended = {view.name: view.state for view in at.proxy.proxy.snapshot().agents if view.state == "ended"}
        assert list(ended) == ["ann/a8a6c3e2" if named else "claude-code-5f1e0a52/a8a6c3e2"]


async def test_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command shows: the proxy's status, and the budgets that hold for the session alone."""
    async with session(tmp_path, monkeypatch) as at:
        at.proxy.proxy.apply(SetBudget("bob", 77_777), "test")
        text = await said("status", capsys)
        assert f"serving at {at.proxy.url}" in text
        assert ("LEVEL" in text, "(all agents)" in text, "bob" in text, "\x1b" in text) == (True, True, False, False)
    assert "No HiveMind proxy answers" in await said("status", capsys)


async def test_token_stays_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control token isn't sent to another server that a base URL or a project's settings file names."""
    async with session(tmp_path, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.settimeout(0.2)
            port = other.getsockname()[1]
            monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}/agent/ann")
            assert await said("SessionStart", capsys) == ""
            monkeypatch.delenv("HIVEMIND_URL")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://hive.example:8765/agent/ann")
            trusted_settings(tmp_path, 'host = "hive.example"\n')
            assert await said("SessionStart", capsys) == ""
            with pytest.raises(TimeoutError):
                other.accept()
