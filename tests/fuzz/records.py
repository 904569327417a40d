"""What HiveMind itself has written, damaged: every command that reads it ends as it should, and says what is wrong."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from pathlib import Path

import msgspec
from fuzz.kit import choices, require, target
from program import called

from hivemind.errors import HiveMindError, UsageError
from hivemind.journal.figures import FiguresFold
from hivemind.journal.index.builder import build
from hivemind.journal.index.index import index_path
from hivemind.journal.index.player import Player
from hivemind.journal.read.several import open_journals
from hivemind.lab.report.fold import RunFold
from hivemind.lab.trace.trace import Trace
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.invariants import violations
from hivemind.scheduler.scheduler import Scheduler
from hivemind.store import schema

_FOLDER = tempfile.TemporaryDirectory(prefix="hivemind-fuzz-")
_NAME = "20261121-182341-8765.jsonl"
_COMMANDS = (
    ("journal", "show", _NAME),
    ("journal", "show", _NAME, "--json"),
    ("journal", "stats", _NAME),
    ("journal", "stats", _NAME, "--json"),
    ("journal", "export", _NAME, "--csv", "--out", "out.csv"),
    ("journal", "export", _NAME, "--har", "--out", "out.har"),
    ("report", _NAME, "--markdown", "--out", "report.md", "--force"),
    ("report", _NAME, "--out", "report.html", "--force"),
    ("what-if", _NAME, "--set", "max_concurrency=2"),
    ("replay", _NAME, "--against", "http://127.0.0.1:9", "--dry-run"),
    ("journal", "ls"),
)


@target(
    "journal",
    [
        *(b'{"v":1,"event":"JournalBegan","at":', b'{"v":1,"event":"Arrived","at":', b'"ticket":', b'"lane":"', b"\n"),
        *(b'{"v":1,"event":"Granted",', b'{"v":1,"event":"Finished",', b'{"v":1,"event":"AttemptFailed",', b"null"),
        b"-1",
        *(b'{"v":1,"event":"Gap",', b'{"v":1,"event":"Carried",', b'{"v":3,"event":"', b"1e308", b'"at":0.0', b"\xff"),
    ],
    longest=16384,
)
def journal(data: bytes) -> None:
    """Whatever its lines are, each command reads what can be read, and reports the rest in a line each."""
    (which,), text = choices(data, 1)
    folder = Path(_FOLDER.name)
    (folder / _NAME).write_bytes(text)
    for index in folder.glob("*.index"):
        index.unlink()
    which %= len(_COMMANDS) + 2
    if which >= len(_COMMANDS):
        _play(folder / _NAME, indexed=which == len(_COMMANDS))
        return
    done = called(folder, _COMMANDS[which], {"HIVEMIND_STATE_DIR": str(folder), "PATH": "/usr/bin:/bin", "TZ": "UTC"})
    require(done.code in (0, 1, 2), "not an exit code", done.code)
    require("Traceback" not in done.err, "a traceback", done.err)
    for line in done.err.splitlines():
        require(line.isprintable(), "not a line", line)
    require(done.code != 2 or done.err, "it says nothing", done)


def _play(path: Path, *, indexed: bool) -> None:
    """Go through it as the control room does, with an index and without."""
    try:
        if indexed:
            build(path, index_path(path), priced=False)
        player = Player(path, indexed=False)
    except HiveMindError as error:
        require(str(error).isprintable(), "not a line", error)
        return
    try:
        length = player.ends_at - player.begins_at
        for share in (0.5, 0.0, 1.0):
            player.seek(player.begins_at + length * share)
            msgspec.json.encode(player.world.snapshot(player.at))
        player.overview(9)
        require(all(line.isprintable() for line in player.damage), "not lines", player.damage)
    finally:
        player.close()


_NEXT = b"\n---\n"
"""Between two journals."""


@target(
    "journals",
    [
        *(b'{"v":1,"event":"JournalBegan","at":', b'{"v":1,"event":"Arrived","at":', b'"ticket":', b'"lane":"', _NEXT),
        *(b'"wall":', b'"upstreams":[["a","http://a"]]', b'"fleet":true', b'"machine":"', b'"reset_in_s":', b"null"),
        *(b'{"v":1,"event":"Carried",', b'{"v":1,"event":"LaneOpened",', b"-1", b"1e308", b"1e15", b'"at":0.0', b"\n"),
    ],
    longest=16384,
)
def several(data: bytes) -> None:
    """Several journals, whatever their lines are, are one run with all of their requests, or refused in one line."""
    paths = []
    for number, lines in enumerate(data.split(_NEXT)[:4]):
        paths.append(Path(_FOLDER.name) / f"several-{number}.jsonl")
        paths[-1].write_bytes(lines)
    try:
        journals = open_journals(paths)
    except UsageError as error:
        require(str(error).isprintable(), "not a line", error)
        return
    together, alone = FiguresFold(), 0
    report, trace = RunFold(journals.began), Trace(journals.began, len(paths))
    for proxy, event in journals.events():
        together.apply(event)
        report.apply(event)
        trace.apply(event, proxy)
    report.end()
    for path in paths:
        tally = FiguresFold()
        for _, event in open_journals(path).events():
            tally.apply(event)
        alone += tally.figures().requests
    require(together.figures().requests == alone == len(trace.requests), "requests were lost", alone)
    for line in journals.notes():
        require(line.isprintable(), "not a line", line)


_TABLES = {"agents": 4, "tasks": 3, "runs": 11, "state": 3, "in_flight": 2}


@target(
    "database",
    [
        *(
            b"agents\t",
            b"tasks\t",
            b"runs\t",
            b"state\t",
            b"in_flight\t",
            b"\t1.5\t",
            b'{"name":"a"',
            b'"parent":"a"',
            b'"tokens":',
        ),
        *(b"null", b'"spec":{"id":"t"', b'"state":"running"', b'"after":["t"]', b'"budget":{'),
        *(b"9223372036854775808", b"-1", b"\n"),
    ],
    longest=8192,
)
def database(data: bytes) -> None:
    """A line is a row. The file is refused in one line, or a scheduler that starts from it is consistent."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.prepare(connection)
        for line in data.decode("utf-8", "replace").split("\n"):
            table, *values = line.split("\t")
            if table in _TABLES and len(values) == _TABLES[table]:
                _insert(connection, table, values)
        try:
            saved = schema.load(connection, 1.8e9)
        except (schema.NotOurs, sqlite3.Error) as error:
            require(str(error), "it says nothing")
            return
        schema.write(connection, schema.SavedBatch(wall=1.8e9, clean=True))
        again = schema.load(connection, 1.8e9)
        require(
            (again.agents, again.tasks, again.runs, again.in_flight)
            == (saved.agents, saved.tasks, saved.runs, saved.in_flight),
            "read again, it differs",
        )
    finally:
        connection.close()
    scheduler = Scheduler(SchedulerConfig(), random.Random(1).random)
    scheduler.restore(saved.agents, saved.tasks, saved.in_flight, 1.0, new_run=saved.clean)
    list(violations(scheduler, 1.0))
    scheduler.take_unsaved()


def _insert(connection: sqlite3.Connection, table: str, values: list[str]) -> None:
    places = ", ".join("?" for _ in values)
    try:
        given = [None if value == "NULL" else value for value in values]
        connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", given)
    except (sqlite3.Error, OverflowError):
        return
