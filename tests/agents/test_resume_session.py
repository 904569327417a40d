"""`hivemind resume` of an agent whose client keeps sessions, with a stand-in for Claude Code."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from agents.kept import checkpoint
from agents.running import PLAIN, Place
from agents.test_resume import Stage, stage

from hivemind.agents.clients.facts import GO_ON
from hivemind.agents.resumption import AIDER, Resumption, prompts_in, resumption_of
from hivemind.cli.agents.resume import how_it_goes_on
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.commands import SetBudget
from hivemind.store.checkpoints import ClientSession, StoppedRequest, folder_in, listed

CLAUDE = """\
#!/usr/bin/env python
import http.client, json, os, pathlib, sys, urllib.parse, uuid
words = sys.argv[1:]
if words[0] == "--settings":
    del words[:2]
resumed = "--resume" in words
session = words[words.index("--resume") + 1] if resumed else str(uuid.uuid4())
kept = pathlib.Path.home() / ".claude/projects/here" / f"{session}.jsonl"
said = json.loads(kept.read_text()) if resumed else []
said.append(words[-1] if words[-1] != "-p" else sys.stdin.read().strip())
kept.parent.mkdir(parents=True, exist_ok=True)
kept.write_text(json.dumps(said))
url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
asked = http.client.HTTPConnection(url.netloc)
body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text} for text in said]}
headers = {"content-type": "application/json", "x-claude-code-session-id": session}
for turn in range(2):
    asked.request("POST", url.path + "/v1/messages", json.dumps(body), headers)
    answer = asked.getresponse()
    answer.read()
    if answer.status != 200:
        break
open("said", "a").write(json.dumps([answer.status, session[:8] if resumed else "new", *said]) + "\\n")
sys.exit(answer.status != 200)
"""
"""It asks twice, with all that was said in its session, and notes that."""


def install(folder: Path) -> dict[str, str]:
    """Put the client in PATH, for what runs in this folder."""
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    wrapper = folder / "bin" / "work"
    wrapper.write_text('#!/bin/sh\nexec claude -p "$@"\n')
    wrapper.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{PLAIN['PATH']}", "HOME": str(folder / "home")}


def said(place: Place) -> list[str]:
    """What the client noted, a line for each call."""
    return (place.folder / "said").read_text().splitlines()


async def stopped_by_its_budget(on: Stage, *command: str) -> str:
    """An agent whose budget is used up after one answer: the first eight characters of its session."""
    on.place.environ |= install(on.place.folder)
    ran = await on.place.called("run", "--name", "alice", "--budget", "7", "--", *command)
    assert ran.code == 1, ran.err
    (found,), _ = listed(folder_in(on.place.folder / "state"))
    assert found.checkpoint.session is not None
    return found.checkpoint.session.id[:8]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["claude", "-p", "fix it"], marks=pytest.mark.slow),
        pytest.param(["sh", "-c", "claude -p 'fix it'"], marks=pytest.mark.slow),
        pytest.param(["sh", "-c", "echo fix it | claude -p"], marks=pytest.mark.slow),
        ["work", "fix it"],
    ],
)
async def test_a_session_goes_on(command: list[str], tmp_path: Path) -> None:
    """Stopped by its budget, which is raised, the client continues its session, however it is called."""
    async with stage(tmp_path) as on:
        session = await stopped_by_its_budget(on, *command)
        assert (await on.resume("alice")).code == 1
        on.running.proxy.apply(SetBudget("alice", 100), "ann")
        ran = await on.resume("alice")
        assert (ran.code, f"alice goes on in claude-code's session {session}" in ran.err) == (0, True), ran.err
        assert said(on.place) == ['[402, "new", "fix it"]', f'[200, "{session}", "fix it", "{GO_ON}"]']


@pytest.mark.e2e
async def test_a_script_with_several_calls(tmp_path: Path) -> None:
    """Only the call that was stopped continues its session; what came before it and after it is called as written."""
    script = "for what in one two three; do claude -p $what || exit 1; done"
    async with stage(tmp_path) as on:
        on.place.environ |= install(on.place.folder)
        assert (await on.place.called("run", "--name", "alice", "--budget", "28", "--", "sh", "-c", script)).code == 1
        on.running.proxy.apply(SetBudget("alice", 200), "ann")
        assert (await on.resume("alice")).code == 0
        assert [line.partition(", ")[2] for line in said(on.place)][2:] == [
            '"new", "three"]',
            '"new", "one"]',
            '"new", "two"]',
            f'"{said(on.place)[-1][7:15]}", "three", "{GO_ON}"]',
        ]


@pytest.mark.e2e
async def test_a_session_that_is_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The client has removed it, so the command starts anew, and says so."""
    async with stage(tmp_path) as on:
        await stopped_by_its_budget(on, "claude", "-p", "fix it")
        for file in (tmp_path / "home").rglob("*.jsonl"):
            file.unlink()
        on.running.proxy.apply(SetBudget("alice", 100), "ann")
        assert (await on.resume("alice")).code == 0
        assert said(on.place)[1:] == ['[200, "new", "fix it"]']
    assert "claude-code starts anew: it keeps no session" in capfd.readouterr().err


def test_what_is_continued() -> None:
    """The session that the client has named, with the prompts of it where the run had several."""
    body = b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "fix it"}, {"type": "image"}]}]}'
    one = checkpoint(session=ClientSession("codex", "s-1"))
    assert resumption_of(one, body) == Resumption("codex:s-1")
    several = checkpoint(session=ClientSession("codex", "s-1", 2))
    assert resumption_of(several, body) == Resumption("codex:s-1", ("fix it",))
    assert resumption_of(several, None) == Resumption("codex:s-1")
    assert resumption_of(checkpoint(session=ClientSession("vercel-ai", "s-1")), body) is None
    by_litellm = StoppedRequest("POST", "/v1/messages", "lab", "litellm", "anthropic", "m", 1.0)
    assert resumption_of(checkpoint(request=by_litellm), body) == Resumption(AIDER)
    assert resumption_of(checkpoint(), body) is None


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        (b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, 1]}', ("a",)),
        (b'{"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}, {"type": "x"}]}', ("a",)),
        (b'{"contents": [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]}', ("a", "b")),
        (b'{"input": "a"}', ()),
        (b"[]", ()),
        (b"\xff", ()),
    ],
)
def test_prompts(body: bytes, prompts: tuple[str, ...]) -> None:
    """The user's texts, in every form of a conversation."""
    assert prompts_in(body) == prompts


def test_how_it_goes_on() -> None:
    """A line says whether the session continues; where it doesn't, what the run has cost so far."""
    kept = checkpoint(run=Spent(120, 0.5))
    lost = "no session of alice's client is known, so it starts anew; the earlier run used 120 tokens, $0.50"
    assert how_it_goes_on(kept, Resumption("codex:s-1")) == "alice goes on in codex's session s-1"
    assert how_it_goes_on(kept, None) == lost
    assert "unless it is aider, which goes on from its chat history, it starts" in how_it_goes_on(
        kept, Resumption(AIDER)
    )
    assert how_it_goes_on(checkpoint(run=Spent()), None).endswith("it starts anew")
