"""The tables, and how batches go into them and records come out."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import TypeVar

import msgspec

from hivemind.scheduler.agents import PAST_KEPT
from hivemind.scheduler.persistence import SavedAgent
from hivemind.scheduler.tasks.graph import OPEN, SavedTask
from hivemind.store.records import Batch, Run, SavedState
from hivemind.store.spellings import joined, key, spellings

_log = logging.getLogger(__name__)

T = TypeVar("T")

APPLICATION = 0x4869_7665  # marks the file as ours, in SQLite's header
VERSION = 1
"""Of the tables. A file of another version isn't read; every change of them needs a step from the one before."""
AGENT_KEPT_S = 90 * 86400.0
"""How long an agent that isn't seen is remembered, unless somebody decided something about it (a priority, a pause, a
stop, a budget): those are kept for ever. Runs likewise. Of the others there are at most
:data:`~hivemind.scheduler.agents.PAST_KEPT` besides those that a proxy has at hand; the record of one that the proxy
forgets goes. Of whoever goes only the sums remain, which are in the records of the pool and of its ancestors."""
WORTH_PAGES = 256
"""Free pages of usually 4 KiB below which a file isn't made smaller: they will be used again."""
TASK_KEPT_S = 30 * 86400.0  # how long the tasks of a batch are remembered when all of them have ended

_TABLES = f"""
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), day TEXT NOT NULL, clean INTEGER NOT NULL);
CREATE TABLE agents (name TEXT PRIMARY KEY, seen REAL NOT NULL, decided INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE tasks (id TEXT PRIMARY KEY, changed REAL NOT NULL, record TEXT NOT NULL);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, agent TEXT NOT NULL, command TEXT NOT NULL, cwd TEXT NOT NULL, task TEXT,
    started_at REAL NOT NULL, ended_at REAL, exit_code INTEGER,
    tokens INTEGER NOT NULL, dollars REAL NOT NULL, unpriced INTEGER NOT NULL
);
CREATE INDEX runs_of_agent ON runs (agent, id);
INSERT INTO state VALUES (1, '', 1);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_RUN = ", ".join(field.name for field in fields(Run))
_PLACES = ", ".join("?" for _ in fields(Run))


class NotOurs(Exception):
    """The file can't be used as it is; the text says why."""


def prepare(connection: sqlite3.Connection) -> bool:
    """Make the tables where there are none. Returns whether there were none.

    Raises: NotOurs; sqlite3.Error: the file is no database, is damaged, or can't be written.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION:
        raise NotOurs("is the database of another program")
    if version > VERSION:
        raise NotOurs("was written by a newer HiveMind")
    # A process that is killed loses nothing that was committed: that is in the system's hands by then. Only when the
    # machine itself loses power the last moments may be missing, and even then the file is consistent.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if not tables:
        connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}COMMIT;")
    return not tables


def write(connection: sqlite3.Connection, batch: Batch) -> None:
    """All of the batch, or nothing. Raises: sqlite3.Error; OverflowError: a number is too large for a column."""
    with _whole(connection):
        _write(connection, batch)


@contextlib.contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is done inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have ended it already
            connection.execute("ROLLBACK")
        raise


def _write(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.execute(
        "UPDATE state SET day = CASE ?1 WHEN '' THEN day ELSE ?1 END, clean = ?2", (batch.day, batch.clean)
    )
    connection.executemany("DELETE FROM agents WHERE name = ?", ((name,) for name in batch.forgotten))
    connection.executemany(
        "INSERT INTO agents VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        " seen = max(seen, excluded.seen), decided = excluded.decided, record = excluded.record",
        (
            (name, batch.seen.get(name, 0.0), saved.decided or not name, _text(saved))
            for name, saved in batch.agents.items()
        ),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)",
        ((name, batch.wall, _text(saved)) for name, saved in batch.tasks.items() if saved is not None),
    )
    connection.executemany(
        "DELETE FROM tasks WHERE id = ?", ((n,) for n, saved in batch.tasks.items() if saved is None)
    )
    connection.executemany(
        f"INSERT OR REPLACE INTO runs ({_RUN}) VALUES ({_PLACES})", (_row(run) for run in batch.runs.values())
    )


def load(connection: sqlite3.Connection, wall: float) -> SavedState:
    """What there is, without what was forgotten by now, which is removed.

    Raises: NotOurs: a record can't be read; sqlite3.Error.
    """
    with _whole(connection):  # so that what can't be read as a whole stays as it was
        _prune(connection, wall)
        _join_spellings(connection)
        day, clean = connection.execute("SELECT day, clean FROM state").fetchone()
        agents = connection.execute("SELECT name, record FROM agents ORDER BY seen")
        (last,) = connection.execute("SELECT max(id) FROM runs").fetchone()
        return SavedState(
            agents=tuple(_records("agent", SavedAgent, agents)),
            tasks=tuple(task for task, _ in _tasks(connection)),
            runs=tuple(runs(connection, last_only=True)),
            next_run=(last or 0) + 1,
            day=day,
            clean=bool(clean),
        )


def shrink(connection: sqlite3.Connection) -> None:
    """Give the disk back what is no longer used, where that is most of the file and worth it. Takes a moment and, for
    that long, as much room again as is used. Raises: sqlite3.Error: there is none, or somebody else has the file."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free >= WORTH_PAGES and free > pages / 2:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def runs(
    connection: sqlite3.Connection, agent: str | None = None, limit: int = -1, *, last_only: bool = False
) -> Iterator[Run]:
    """Runs, the newest first; of one agent, or only the last of each. Raises: sqlite3.Error."""
    chosen = "id IN (SELECT max(id) FROM runs GROUP BY agent)" if last_only else "?1 IS NULL OR agent = ?1"
    found = connection.execute(f"SELECT {_RUN} FROM runs WHERE {chosen} ORDER BY id DESC LIMIT ?2", (agent, limit))
    for number, name, command, *rest in found:
        yield Run(number, name, tuple(next(_records("run", list[str], [(name, command)]))), *rest)


def _prune(connection: sqlite3.Connection, wall: float) -> None:
    gone = _ended_long_ago(_tasks(connection), wall - TASK_KEPT_S)
    connection.execute("DELETE FROM agents WHERE seen < ? AND NOT decided", (wall - AGENT_KEPT_S,))
    _forget_least(connection)
    connection.execute("DELETE FROM runs WHERE coalesce(ended_at, started_at) < ?", (wall - AGENT_KEPT_S,))
    connection.executemany("DELETE FROM tasks WHERE id = ?", ((name,) for name in gone))


def _join_spellings(connection: sqlite3.Connection) -> None:
    """Make one record of those that earlier versions kept of one agent under several spellings of its name.

    Raises: NotOurs: a record can't be read; sqlite3.Error.
    """
    rows = connection.execute("SELECT name, seen, decided, record FROM agents ORDER BY seen").fetchall()
    tasks = [task for task, _ in _tasks(connection)]
    ran = [name for (name,) in connection.execute("SELECT DISTINCT agent FROM runs")]
    called = {task.spec.id: task.spec.agent or task.spec.id for task in tasks}
    spelled = spellings(((name, bool(decided)) for name, _, decided, _ in rows), (*ran, *called.values()))
    stray = [name for name, *_ in rows if name and spelled[key(name)] != name]
    if stray:
        # Seen last first, after those about whom something was decided.
        ordered = sorted(rows, key=lambda row: (row[2], row[1]), reverse=True)
        saved = list(_records("agent", SavedAgent, ((name, record) for name, _, _, record in ordered if name)))
        seen = {name: at for name, at, *_ in rows}
        groups: dict[str, list[SavedAgent]] = {}
        for each in saved:
            groups.setdefault(spelled[key(each.name)], []).append(each)
        for name, records in groups.items():
            whole = joined(name, records, spelled)
            if records == [whole]:
                continue
            if len(records) > 1:
                _log.warning("%s are one agent, kept as %s from now on", " and ".join(r.name for r in records), name)
            connection.executemany("DELETE FROM agents WHERE name = ?", ((record.name,) for record in records))
            at = max(seen[record.name] for record in records)
            connection.execute("INSERT INTO agents VALUES (?, ?, ?, ?)", (name, at, whole.decided, _text(whole)))
    connection.executemany(
        "UPDATE runs SET agent = ? WHERE agent = ?",
        ((spelled[key(name)], name) for name in ran if spelled[key(name)] != name),
    )
    connection.executemany(
        "UPDATE tasks SET record = ? WHERE id = ?",
        (
            (_text(replace(task, spec=replace(task.spec, agent=name))), task.spec.id)
            for task in tasks
            if (name := spelled[key(called[task.spec.id])]) != called[task.spec.id]
        ),
    )


class _Ever(msgspec.Struct):
    tokens: int


class _Tree(msgspec.Struct):
    ever: _Ever


class _Use(msgspec.Struct):
    """The little of an agent's record by which is decided who is forgotten."""

    parent: str | None
    tree: _Tree


def _forget_least(connection: sqlite3.Connection) -> None:
    """Forget agents as a proxy does (:data:`~hivemind.scheduler.agents.PAST_KEPT`): earlier versions kept all of
    them."""
    (many,) = connection.execute("SELECT count(*) FROM agents WHERE NOT decided").fetchone()
    if many <= PAST_KEPT:
        return
    rows = connection.execute("SELECT name, seen, decided, record FROM agents ORDER BY seen").fetchall()
    records = _records("agent", _Use, ((name, record) for name, _, _, record in rows))
    uses = {name: use for (name, *_), use in zip(rows, records, strict=True)}
    ordinary = [name for name, _, decided, _ in rows if not decided]
    ordinary.sort(key=lambda name: uses[name].tree.ever.tokens)
    gone = set(ordinary[: len(ordinary) - PAST_KEPT])
    for name in uses.keys() - gone:
        parent = uses[name].parent
        while parent in gone:  # what its child uses counts to its ancestors by it
            gone.remove(parent)
            parent = uses[parent].parent
    # Few are kept of many: to write those anew is a hundred times as fast as to delete the others one by one.
    kept = [row for row in rows if row[0] not in gone]
    connection.execute("DELETE FROM agents")
    connection.executemany("INSERT INTO agents VALUES (?, ?, ?, ?)", kept)


def _ended_long_ago(tasks: Iterable[tuple[SavedTask, float]], horizon: float) -> list[str]:
    """Ids of whole batches (and of tasks without one) that nobody waits for and that didn't change since."""
    needed: set[str] = set()
    batches: dict[tuple[str, str], list[str]] = {}
    recent: set[tuple[str, str]] = set()
    found = list(tasks)
    for task, _ in found:
        if task.state in OPEN:
            needed.update(task.spec.after)
    for task, changed in found:
        key = (task.spec.batch, "" if task.spec.batch else task.spec.id)
        batches.setdefault(key, []).append(task.spec.id)
        if task.state in OPEN or changed >= horizon or task.spec.id in needed:
            recent.add(key)
    return [name for key, names in batches.items() if key not in recent for name in names]


def _tasks(connection: sqlite3.Connection) -> Iterator[tuple[SavedTask, float]]:
    found = connection.execute("SELECT id, record, changed FROM tasks").fetchall()
    records = _records("task", SavedTask, ((name, record) for name, record, _ in found))
    return zip(records, (changed for *_, changed in found), strict=True)


def _records(what: str, kind: type[T], rows: Iterable[tuple[str, str]]) -> Iterator[T]:
    decoder = msgspec.json.Decoder(kind)
    for name, text in rows:
        try:
            yield decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise NotOurs(f"has a record of {what} {name!r} that can't be read ({error})") from None


def _text(record: object) -> str:
    return msgspec.json.encode(record).decode()


def _row(run: Run) -> tuple[object, ...]:
    values = {field.name: getattr(run, field.name) for field in fields(Run)}
    return tuple((values | {"command": _text(run.command)}).values())
