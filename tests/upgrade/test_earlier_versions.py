"""Files of every earlier version, read by this one: journals, databases, settings, checkpoints and batches."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import sys
import tarfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ports import unused_port
from program import Ended, called
from trusted import trusted_settings
from upgrade.kept import FIXTURES, VERSIONS, Kept, unpacked

from hivemind.journal.index.index import Stale, header_of, index_path, open_index
from hivemind.journal.index.player import Player
from hivemind.journal.read.reader import open_journal
from hivemind.records import replace
from hivemind.settings.load import _note_removed, load
from hivemind.settings.write import draft, write
from hivemind.store import schema

HIVEMIND = Path(sys.executable).with_name("hivemind")
HANGS_S = 120
NO_EFFECT = "no effect any more"
AGENTS = {"alice", "bob", "carol", "alice-helper"}
each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def kept(version: str, tmp_path: Path) -> Kept:
    """The files of one version."""
    return unpacked(version, tmp_path)


def does(kept: Kept, *words: str) -> Ended:
    """Run a command where the files are; notes of settings that there aren't any more are left out."""
    ended = called(kept.folder, words, {"HOME": str(kept.folder)})
    said = [line for line in ended.err.splitlines(keepends=True) if NO_EFFECT not in line]
    return replace(ended, err="".join(said))


def test_versions() -> None:
    """There are files of every version before this one."""
    assert VERSIONS[:3] == ["0.1", "0.2", "0.3"]


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.gz")), ids=lambda path: path.name)
def test_fixtures_are_small_and_neutral(path: Path) -> None:
    """They name no host, no home and no key but the made-up ones."""
    assert path.stat().st_size < 150_000
    wrong = re.compile(rb"/(?:home|root|work|Users)/|@(?!machine\b|anthropic)[\w-]+\"|sk-(?:ant|proj)-\w")
    with tarfile.open(path) as packed:
        for entry in packed:
            file = packed.extractfile(entry) if entry.isfile() else None
            assert (entry.uid, entry.uname) == (0, "")
            assert not entry.name.startswith(("/", ".."))
            assert file is None or wrong.search(file.read()) is None, entry.name


@each_version
def test_journals(kept: Kept) -> None:
    """Every line is understood, over all parts; one that was killed ends without its end, and with whole lines."""
    first, second = kept.journals
    whole, cut = open_journal(first), open_journal(second)
    assert len(whole.parts) > 3
    for journal, ends in ((whole, True), (cut, False)):
        written = [part.read_bytes() for part in journal.parts]
        lines = sum(part.count(b"\n") - part.count(b'"event":"Nudged"') for part in written)  # of removed settings
        assert len(list(journal.events())) == lines
        assert (journal.damage.bad_lines, journal.damage.newer, journal.damage.torn) == (0, 0, False)
        assert journal.damage.ended == ends
    listed = does(kept, "journal", "ls")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.count("\n") == 3


@each_version
@pytest.mark.parametrize("words", ["stats", "show", "export --csv"])
def test_journal_commands(kept: Kept, words: str) -> None:
    """They say what happened, and nothing about damage."""
    command, *flags = words.split()
    for path, agents in zip(kept.journals, (AGENTS, {"alice", "erin"}), strict=True):
        said = does(kept, "journal", command, path.name, *flags)
        assert (said.code, said.err) == (0, "")
        assert command == "stats" or all(agent in said.out for agent in agents)


@each_version
def test_har(kept: Kept) -> None:
    """A HAR file is the one that the version made of the same journal, and becomes a journal again."""
    said = does(kept, "journal", "export", kept.journals[0].name, "--har")
    ours, theirs = (json.loads(text)["log"] for text in (said.out, (kept.folder / "export.har").read_text()))
    for log in (ours, theirs):
        assert len(log["entries"]) >= 17
    assert [_asked(entry) for entry in ours["entries"]] == [_asked(entry) for entry in theirs["entries"]]
    made = does(kept, "journal", "import", "export.har")
    assert made.code == 0, made.err
    assert does(kept, "journal", "stats", made.out.split()[-1]).code in (0, 2)


_COUNTED = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


def _asked(entry: dict[str, dict[str, Any]]) -> tuple[object, ...]:
    request, response = entry["request"], entry["response"]
    content = dict(response["content"])
    if "_usage" in content:  # without counts that earlier versions didn't keep
        content["_usage"] = {name: content["_usage"].get(name, 0) for name in _COUNTED}
    return request["method"], request["url"], request.get("postData"), response["status"], content


@each_version
def test_an_index_of_another_version_is_made_anew(kept: Kept) -> None:
    """It isn't used, and the journal plays to its end without it."""
    first = kept.journals[0]
    journal = open_journal(first)
    with pytest.raises(Stale):
        open_index(index_path(first), header_of(first, priced=True), journal.parts)
    last = list(journal.events())[-1]
    with closing(Player(first, indexed=False)) as player:
        player.seek(last.at)
        agents = {agent.name for agent in player.world.snapshot(last.at).agents}
    assert agents >= AGENTS


@each_version
@pytest.mark.slow
def test_simulations(kept: Kept) -> None:
    """What-if takes its journals, and one that its own what-if made; so does the report."""
    for name in (kept.journals[0].name, "whatif.jsonl"):
        said = does(kept, "what-if", name, "--set", "max_concurrency=2")
        warned = [line for line in said.err.splitlines() if "simulating, " not in line]  # said where it takes long
        assert (said.code, warned) == (0, [])
        if name != "whatif.jsonl" and "[feedback]" in (kept.folder / "hivemind.toml").read_text():
            assert f"it was recorded with feedback.enabled, which has {NO_EFFECT}" in " ".join(said.out.split())
    said = does(kept, "report", kept.journals[0].name, "--markdown")
    assert said.code == 0, said.err


@each_version
def test_settings(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    """A settings file of every kind is taken as it is, and knobs can be written into it."""
    before = (kept.folder / "hivemind.toml").read_text()
    trusted_settings(kept.folder, before)
    _note_removed.cache_clear()
    settings = load([], environ={}, cwd=kept.folder)
    assert (f"hivemind.toml feedback: has {NO_EFFECT}" in capsys.readouterr().err) == ("[feedback]" in before)
    assert (settings.max_concurrency, settings.aimd.alpha, settings.circuit.when_open) == (4, 0.5, "refuse")
    assert (settings.budget.pool_tokens, settings.journal.bodies) == (10**6, True)
    write(draft(kept.folder / "hivemind.toml", {"aimd.alpha": 0.75}))
    assert (kept.folder / "hivemind.toml").read_text() == before.replace("alpha = 0.5", "alpha = 0.75")
    assert load([], environ={}, cwd=kept.folder).journal.bodies, "it is still trusted"


@each_version
def test_checkpoints(kept: Kept) -> None:
    """They are listed and shown, conversation included."""
    said = does(kept, "checkpoints")
    assert (said.code, said.err) == (0, "")
    assert all(agent in said.out for agent in ("bob", "runner", "work.fails"))
    said = does(kept, "checkpoints", "show", "bob", "--conversation")
    assert json.loads(said.out)["messages"] == [{"role": "user", "content": "question 3 of bob"}]


@each_version
def test_database(kept: Kept) -> None:
    """Usage is what its records say, decisions and tasks are there, and the last run didn't come to its end."""
    used = kept.used()
    with closing(sqlite3.connect(kept.database, isolation_level=None)) as connection:
        assert not schema.prepare(connection)
        saved = schema.load(connection, time.time())
    assert not saved.clean
    agents = {agent.name: agent for agent in saved.agents}
    assert agents.keys() == used.keys()
    for name, agent in agents.items():
        assert agent.own.ever.tokens == used[name]
    assert agents["bob"].stopped
    assert agents["alice"].budget is not None
    assert agents["alice"].budget.tokens == 50_000
    assert {task.spec.id: task.state for task in saved.tasks} == {
        "site.design": "running",
        "site.build": "waiting",
        "work.first": "done",
        "work.fails": "failed",
        "work.skipped": "skipped",
        "work.killed": "running",
        "work.last": "waiting",
    }
    assert {run.agent: run.exit_code for run in saved.runs}["runner"] == 3


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    """The proxy doesn't start on one, says so in a line, and changes nothing."""
    kept, port = unpacked(VERSIONS[-1], tmp_path), str(unused_port())
    kept.move_to(port)
    database = kept.state / f"proxy-{port}.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = database.read_bytes()
    said = does(kept, "proxy", "--port", port)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"{database.name} was written by a newer HiveMind: move it away" in said.err
    assert database.read_bytes() == before


@pytest.mark.e2e
@each_version
async def test_it_goes_on(kept: Kept) -> None:
    """A proxy on the old folder, with the old settings, knows its books and tasks; the batch goes on to its end, and an
    agent where it was stopped."""
    port = str(unused_port())
    used = {name or None: tokens for name, tokens in kept.used().items()}
    kept.move_to(port)
    environ = {"HOME": str(kept.folder), "HIVEMIND_PORT": port, "PATH": "/usr/bin:/bin"}  # where the file is trusted
    proxy = await asyncio.create_subprocess_exec(
        *(HIVEMIND, "proxy"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=kept.folder,
        env=environ,
    )
    assert proxy.stdout is not None

    async def ran(*words: str) -> tuple[int | None, str, str]:
        async with asyncio.timeout(HANGS_S):
            return await _ran(kept.folder, environ, *words)

    try:
        async with asyncio.timeout(HANGS_S):
            assert b"ready" in await proxy.stdout.readline()
        _, said, _ = await ran("budget", "--json")
        books = json.loads(said)
        shown = {each["agent"]: each["ever"]["tokens"] for each in (*books["agents"], books["pool"])}
        assert shown.items() <= used.items()
        assert shown.keys() >= {None, "alice", "bob", "carol"}
        code, said, _ = await ran("resume", "bob")
        assert (code, "question 3 of bob" in said) == (0, True)
        (kept.folder / "gate").touch()
        code, said, errors = await ran("batch", "work.yaml", "--resume", "--json", "report.json")
        assert code == 1, errors
        assert "killed: lost without a result; it goes back" in errors
    finally:
        proxy.send_signal(signal.SIGTERM)
        _, errors_of_proxy = await proxy.communicate()
    assert b"Traceback" not in errors_of_proxy
    states = {task["task"]: task["state"] for task in json.loads((kept.folder / "report.json").read_text())["tasks"]}
    assert states == {"first": "done", "fails": "failed", "skipped": "skipped", "killed": "done", "last": "done"}
    done = (kept.folder / "done").read_text().splitlines()
    assert [done.count(f"ok {name}") for name in ("first", "killed", "last")] == [1, 1, 1]


async def _ran(folder: Path, environ: dict[str, str], *words: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        HIVEMIND, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=folder, env=environ
    )
    out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()
