"""`hivemind run`: the command's environment, its exit code, and what is said of it."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
from agents.running import ASK, at, before, ended, providing
from ports import unused_port
from proxy.kit import client

from hivemind.cli.main import main
from hivemind.scheduler.types import Priority

ASKS = """\
import anthropic, openai
claude = anthropic.Anthropic(api_key="k").messages.create(
    model="claude-sonnet-4-5", max_tokens=99, messages=[{"role": "user", "content": "hello"}]
)
gpt = openai.OpenAI(api_key="k").chat.completions.create(
    model="gpt-5", messages=[{"role": "user", "content": "hello"}]
)
print(claude.usage.input_tokens + claude.usage.output_tokens + gpt.usage.total_tokens)
"""

QUICK = f"{ASK}print(used)\n"


@pytest.mark.e2e
async def test_sdks_find_the_proxy(tmp_path: Path) -> None:
    """The official SDKs, with nothing set in code, ask through the agent's own path, and what they used is told."""
    (tmp_path / "asks.py").write_text(ASKS)
    async with before(tmp_path) as (running, place):
        flags = ("--name", "alice", "--priority", "high", "--budget", "200k,$5/day", "--covers", "subtree")
        ran = await place.ran(*flags, "--report", "report.json", "--", "python", "-Wignore", "asks.py")
        snapshot = running.snapshot()
    assert (ran.code, ran.out.strip().isdigit()) == (0, True), ran.err
    used = int(ran.out)
    assert re.fullmatch(rf"hivemind: alice: exit code 0 after [\d.]+ m?s, {used:,} tokens, \$0\.\d{{4}}\n", ran.err)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report == {
        "agent": "alice",
        "exit_code": 0,
        "signal": None,
        "seconds": report["seconds"],
        "tokens": used,
        "dollars": report["dollars"],
        "unpriced_tokens": 0,
        "estimated_tokens": 0,
        "requests": 2,
        "elsewhere": [],
        "checkpoint": None,
        "restarts": 0,
        "worktree": None,
    }
    assert 0 < report["dollars"] < 1
    (alice,) = snapshot.agents
    assert (alice.name, alice.priority, alice.exit_code) == ("alice", Priority.HIGH, 0)
    assert alice.budget is not None
    assert (alice.budget.tokens, alice.budget.dollars, alice.budget.per) == (200_000, 5.0, "day")


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("exit 0", 0, "sh-1: exit code 0 after"),
        ("exit 3", 3, "sh-1: exit code 3 after"),
        ("kill -TERM $$", 143, "sh-1: killed by SIGTERM after"),
        ("kill -KILL $$", 137, "sh-1: killed by SIGKILL after"),
    ],
)
async def test_exit_code(tmp_path: Path, script: str, code: int, words: str) -> None:
    """It is the command's, or as a shell has it where a signal ended the command; its name is made from it."""
    async with before(tmp_path) as (running, place):
        ran = await place.called("run", "--", "sh", "-c", script)
        (agent,) = running.snapshot().agents
    assert ran.code == code
    assert words in ran.err
    assert agent.exit_code == (code if code < 128 else 128 - code)


async def test_held_answers(tmp_path: Path) -> None:
    """A run whose answers are held has a path that says so."""
    async with before(tmp_path) as (running, place):
        script = 'echo "$OPENAI_BASE_URL" > url'
        await place.called("run", "--hold-answers", "--name", "crew", "--", "sh", "-c", script)
        assert (tmp_path / "url").read_text() == f"{running.url}/hold-answers/agent/crew/v1\n"


@pytest.mark.e2e
async def test_the_command_line_stays_as_it_is(tmp_path: Path) -> None:
    """What follows -- isn't looked at, another -- and flags like ours included; standard streams are inherited."""
    async with before(tmp_path) as (_, place):
        words = ("--name", "--max_tokens=1", "--", "a b", "")
        ran = await place.ran("--quiet", "--", "printf", "<%s>", *words)
    assert (ran.code, ran.out, ran.err) == (0, "<--name><--max_tokens=1><--><a b><>", "")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--", "nosuch"), 127, "nosuch: no such command in PATH\n"),
        (("--", "./nosuch"), 127, "./nosuch: there is no such file\n"),
        (("--", "./plain"), 126, "./plain: isn't a program that can be executed\n"),
        (("ls",), 2, "the command goes after --, as in hivemind run --name alice -- claude"),
        (("--",), 2, "the command goes after --"),
        ((), 2, "the command goes after --"),
        (("--budget", "lots", "--", "ls"), 2, "--budget: 'lots' is no budget"),
        (("--budget", "+5k", "--", "ls"), 2, "--budget +5k: must be the whole amount"),
        (("--priority", "urgent", "--", "ls"), 2, "--priority: invalid choice: 'urgent'"),
        (("--covers", "subtree", "--", "ls"), 2, "--covers: says whose use a budget counts"),
        (("--covers", "all", "--budget", "1k", "--", "ls"), 2, "--covers: invalid choice: 'all'"),
        (("--cwd", "nosuch", "--", "ls"), 2, "--cwd nosuch: there is no such folder"),
        (("--report", "no/such", "--", "ls"), 2, "--report no/such: there is no such folder"),
        (("--budget", "/day", "--", "ls"), 2, "--budget: '/day' is no budget; it is 200k"),
        (("--name", "x" * 99, "--", "ls"), 2, "--name: an agent's name must be printable and at most 80"),
        (("--name", "", "--", "ls"), 2, "--name: an agent's name"),
        (("--name", "..", "--", "ls"), 2, "--name: an agent's name can't be .., which clients leave out"),
        (("--nmae", "x", "--", "ls"), 2, "--nmae: no such flag; did you mean --name?"),
        (("--worktre", "--", "ls"), 2, "--worktre: no such flag; did you mean --worktree?"),
        (("--work", "--", "ls"), 2, "--work: no such flag; did you mean --worktree?"),
        (("--token-f", "x", "--", "ls"), 2, "--token-f: no such flag; did you mean --token-file?"),
        (("--prot", "1", "--", "ls"), 2, "--prot: no such flag; did you mean --port?"),
        (("--attach", "nowhere", "--", "ls"), 2, "the URL of a proxy must begin with http"),
        (("--attach", "http://127.0.0.1:9", "--", "ls"), 1, "no proxy at http://127.0.0.1:9: nothing listens there"),
    ],
)
def test_what_is_wrong_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """One line, before any proxy is started, and the exit code of a shell, or 2."""
    (tmp_path / "plain").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVEMIND_CONTROL_TOKEN", "a-token")
    assert main(["run", *args]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"hivemind: {words}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--", "./odd"), 126, "./odd: can't be started (Exec format error)\n"),
        (("--task", "t.x", "--", "ls"), 2, "--task t.x: there is no such task"),
        (("--to", "nosuch", "--", "ls"), 2, "--to nosuch: the proxy has no such upstream; it has mock\n"),
    ],
)
async def test_what_the_proxy_finds_wrong(tmp_path: Path, args: tuple[str, ...], code: int, words: str) -> None:
    """One line too, and nothing is left of it in the proxy."""
    (tmp_path / "odd").write_text("no program")
    (tmp_path / "odd").chmod(0o755)
    async with before(tmp_path) as (running, place):
        ran = await place.called("run", *args)
        assert running.proxy.processes.agents == ()
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"hivemind: {words}")
    assert ran.err.count("\n") == 1


@pytest.mark.e2e
async def test_a_name_that_runs(tmp_path: Path) -> None:
    """The same name can't run twice at a time; without one, the next number is taken."""
    async with before(tmp_path) as (running, place):
        first = await place.run("--name", "sleep-1", "--", "sleep", "60")
        await running.until(lambda world: any(agent.name == "sleep-1" for agent in world.agents))
        again = await place.ran("--name", "sleep-1", "--", "true")
        other = await place.ran("--", "sleep", "0")
        first.terminate()
        await ended(first)
    assert (again.code, again.err) == (2, "hivemind: sleep-1 runs already; choose another name, or stop it first\n")
    assert "hivemind: sleep-2: exit code 0" in other.err


@pytest.mark.e2e
async def test_brings_a_proxy_along(tmp_path: Path) -> None:
    """Where none runs, one is started that goes on: with the user's settings, and its log in a file. However short the
    run, its costs are known."""
    (tmp_path / "asks.py").write_text(QUICK)
    port = unused_port()
    async with providing() as (mock, upstream), at(tmp_path, HIVEMIND_UPSTREAM=upstream) as place:
        ran = await place.ran("--port", str(port), "--", "sh", "-c", "python -Wignore asks.py > used")
        again = await place.called("run", "--port", str(port), "--", "true")
    assert ran.code == 0, ran.err
    assert re.fullmatch(r"hivemind: true-1: exit code 0 after .*\nhivemind: true-1: sent no request .*\n", again.err)
    first, last = ran.err.splitlines()
    log = tmp_path / "state" / f"proxy-{port}.log"
    assert first == (
        f"hivemind: no proxy ran, so one was started, and ends when it is idle: http://127.0.0.1:{port}"
        f" -> local {upstream} (log: {log})"
    )
    assert re.search(rf" {int((tmp_path / 'used').read_text()):,} tokens, \$0\.0\d*[1-9]\d*$", last)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert mock.stats.answered == 1


async def test_the_port_is_somebody_elses(tmp_path: Path) -> None:
    """A port that something else has is told, and nothing runs."""
    async with providing() as (_, upstream), at(tmp_path, HIVEMIND_UPSTREAM=upstream) as place:
        port = upstream.rpartition(":")[2]
        ran = await place.called("run", "--port", port, "--", "touch", "ran")
    assert ran.code == 1
    assert ran.err == (
        f"hivemind: port {port} on 127.0.0.1 is in use, and not by a proxy of yours; choose another with --port, or"
        " --port 0 for any free one\n"
    )
    assert not (tmp_path / "ran").exists()


async def test_settings_of_another(tmp_path: Path) -> None:
    """Settings on the command line that a running proxy doesn't take are told."""
    async with before(tmp_path) as (_, place):
        ran = await place.called("run", "--max-agents", "3", "--quiet", "--", "true")
    assert "keeps its own settings, so --max-agents isn't used" in ran.err


async def test_agents_token(tmp_path: Path) -> None:
    """A proxy that wants a token of its agents gets it from the command; without one it is asked for."""
    (tmp_path / "asks.py").write_text(QUICK)
    async with before(tmp_path, token="agents-own-token") as (_, place):
        without = await place.called("run", "--", "python", "-Wignore", "asks.py")
        place.environ["HIVEMIND_TOKEN"] = "agents-own-token"
        ran = await place.called("run", "--", "python", "-Wignore", "asks.py")
    assert without.code == 2
    assert "wants a token of its agents: set HIVEMIND_TOKEN" in without.err
    assert ran.code == 0, ran.err


TRIES = """\
import os, urllib.error, urllib.request
token = os.environ["HIVEMIND_TOKEN"]
assert token != os.environ.get("EVERYBODYS", "") and token in os.environ["ANTHROPIC_BASE_URL"]
for name, shown in (("alice", token), ("ALICE", ""), ("alice", os.environ["EVERYBODYS"]), ("bob", token)):
    request = urllib.request.Request(
        f"{os.environ['HIVEMIND_URL']}/agent/{name}/v1/messages",
        b'{"model": "m", "max_tokens": 9, "messages": []}',
        {"content-type": "application/json", "x-hivemind-token": shown},
    )
    try:
        status = urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        status = error.code
    print(status, file=open("tried", "a"))
"""


@pytest.mark.parametrize("credentials", [{}, {"Alice": "alices-own-token"}], ids=["of the run", "of the settings"])
async def test_a_name_is_bound_while_it_runs(tmp_path: Path, credentials: dict[str, str]) -> None:
    """The process gets a token of its own instead of the one for all, and nobody else goes by its name meanwhile."""
    (tmp_path / "tries.py").write_text(TRIES)
    everybodys = "agents-own-token"
    async with before(tmp_path, token=everybodys, agents={"credentials": credentials}) as (running, place):
        place.environ |= {"HIVEMIND_TOKEN": everybodys, "EVERYBODYS": everybodys}
        ran = await place.called("run", "--name", "alice", "--", "python", "tries.py")
        async with client() as web:
            headers = {"x-hivemind-token": everybodys}
            after = await web.post(f"{running.url}/agent/alice/v1/messages", json={"model": "m"}, headers=headers)
    assert (ran.code, (tmp_path / "tried").read_text().split()) == (0, ["200", "401", "401", "400"]), ran.err
    assert after.status_code == (401 if credentials else 200)
