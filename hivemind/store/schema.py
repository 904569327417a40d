"""The tables and the records in them: how batches go in, and what comes out."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from hivemind import earlier
from hivemind.records import replace
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.persistence import SavedAgent, Unsaved
from hivemind.scheduler.tasks import OPEN, SavedTask
from hivemind.scheduler.work import Work

_log = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

APPLICATION = 0x4869_7665  # marks the file as ours, in SQLite's header
VERSION = 2
"""Of the tables. A file of another version isn't read; every change of them needs a step from the one before."""
AGENT_KEPT_S = 90 * 86400.0
"""How long an agent that isn't seen is remembered, unless something was decided about it (a priority, a pause, a stop,
a budget): those are kept for ever. Runs likewise. Of the others there are at most
:data:`~hivemind.scheduler.agents.PAST_KEPT` besides those that a proxy has at hand; the record of one that the proxy
forgets goes. Of those that go only the sums remain, which are in the records of the pool and of its ancestors."""
WORTH_PAGES = 256
"""Free pages of usually 4 KiB below which a file isn't made smaller: they will be used again."""
TASK_KEPT_S = 30 * 86400.0
"""How long the tasks of a batch are remembered when all of them have ended; and work since it began, because providers
keep what it brings for as long."""

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

_LEDGER = "CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL)"
_WORK = "CREATE TABLE IF NOT EXISTS work (id TEXT PRIMARY KEY, began REAL NOT NULL, record TEXT NOT NULL)"
_IN_FLIGHT = "CREATE TABLE IF NOT EXISTS in_flight (agent TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
"""Earlier versions leave these three tables alone, so they need no step from one version to the next."""


class SavedRun(Struct, frozen=True):
    """One run of an agent's process, which the runner started."""

    id: int
    agent: str
    command: tuple[str, ...]  # whole, so it may hold secrets: not for logs or screens
    cwd: str
    task: str | None
    started_at: float  # seconds since the epoch
    ended_at: float | None = None  # None: it runs, or its end is unknown
    exit_code: int | None = None
    """Negative: the number of the signal that ended it; None: it runs, never ran, or its runner fell silent."""
    tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0  # of the tokens those whose price isn't known


class SavedBatch(Unsaved, frozen=True):
    """What is to be written, all of it or nothing. Records are whole, so a later batch goes over an earlier one.

    Here :attr:`seen`, and when work began, are in seconds since the epoch. Forgotten agents go before the records of
    the batch are written.
    """

    runs: dict[int, SavedRun] = field(default_factory=dict)
    wall: float = 0.0  # when it was made, in seconds since the epoch
    day: str = ""  # the day that the counts of a day belong to; empty: as it was
    clean: bool = False  # the run has come to its end

    def __bool__(self) -> bool:
        return bool(super().__bool__() or self.runs or self.clean)

    def over(self, earlier: SavedBatch) -> SavedBatch:
        """Return one batch for both, with this one's records over the earlier ones, which are used up by that: so it
        takes no longer than this one is large."""
        for name in self.forgotten:
            for records in (earlier.agents, earlier.seen, earlier.in_flight):
                records.pop(name, None)
        return replace(
            self,
            agents=_added(earlier.agents, self.agents),
            seen=_added(earlier.seen, self.seen),
            tasks=_added(earlier.tasks, self.tasks),
            forgotten=earlier.forgotten | self.forgotten,
            works=_added(earlier.works, self.works),
            in_flight=_added(earlier.in_flight, self.in_flight),
            runs=_added(earlier.runs, self.runs),
            day=self.day or earlier.day,
        )


class SavedState(Struct, frozen=True):
    """Everything that a proxy starts from."""

    agents: tuple[SavedAgent, ...] = ()  # those that were seen longest ago first
    tasks: tuple[SavedTask, ...] = ()
    runs: tuple[SavedRun, ...] = ()  # the last of each agent
    next_run: int = 1  # number that no run has yet
    day: str = ""  # the day that the counts of a day belong to; empty: there are none
    clean: bool = True  # the last run had come to its end
    works: tuple[tuple[str, Work], ...] = ()  # work that goes on after a reply, by id, the oldest first
    in_flight: dict[str, Spent] = field(default_factory=dict)  # known use of requests that were in flight, by agent


_FIELDS = SavedRun.__struct_fields__
_RUN = ", ".join(_FIELDS)
_NEWER = (
    "ON CONFLICT (name) DO UPDATE SET seen = max(seen, excluded.seen), decided = excluded.decided,"
    " record = excluded.record"  # SQLite before 3.35, as in Debian 11, wants the column to be named
)
_ROWS = 50
"""Of one statement; the oldest SQLite takes 999 values in one."""


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
    elif version < VERSION:
        connection.executescript(f"BEGIN IMMEDIATE;{earlier.DATABASE_STEP}PRAGMA user_version = {VERSION};COMMIT;")
    connection.execute(_LEDGER)
    connection.execute(_WORK)
    connection.execute(_IN_FLIGHT)
    return not tables


def ledger(connection: sqlite3.Connection) -> str:
    """Return what tells this ledger from those of other proxies, in whatever process; random. Raises: sqlite3.Error."""
    connection.execute("INSERT OR IGNORE INTO ledger VALUES (1, ?)", (secrets.token_hex(8),))
    (name,) = connection.execute("SELECT name FROM ledger").fetchone()
    return str(name)


def write(connection: sqlite3.Connection, batch: SavedBatch) -> None:
    """Write all of the batch, or nothing. Raises: sqlite3.Error; OverflowError: a number is too large for a column."""
    with connection:  # commits at the end, or rolls back
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE state SET day = coalesce(nullif(?, ''), day), clean = ?", (batch.day, batch.clean))
        used, works, tasks = batch.in_flight.items(), batch.works.items(), batch.tasks.items()
        _delete(connection, "agents", "name", batch.forgotten)
        _delete(connection, "in_flight", "agent", (*batch.forgotten, *(name for name, each in used if each is None)))
        _delete(connection, "tasks", "id", (name for name, task in tasks if task is None))
        _delete(connection, "work", "id", (name for name, work in works if work is None))
        _put(connection, "in_flight", ((name, _text(each)) for name, each in used if each is not None))
        agents = ((n, batch.seen.get(n, 0.0), a.decided or not n, _text(a)) for n, a in batch.agents.items())
        _put(connection, "agents", agents, _NEWER)
        _put(connection, "tasks", ((name, batch.wall, _text(task)) for name, task in tasks if task is not None))
        _put(connection, "work", ((name, work.began_at, _text(work)) for name, work in works if work is not None))
        _put(connection, f"runs ({_RUN})", (_row(run) for run in batch.runs.values()))


def _put(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]], conflict: str = "") -> None:
    """Insert rows, or put them in place of those with their keys.

    Many by one statement: each statement gives the interpreter's lock up, and waits for it while the loop is busy.
    """
    verb, rows = ("INSERT" if conflict else "INSERT OR REPLACE"), iter(rows)
    while some := list(islice(rows, _ROWS)):
        places = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
        connection.execute(f"{verb} INTO {table} VALUES {places} {conflict}", list(chain.from_iterable(some)))


def _delete(connection: sqlite3.Connection, table: str, key: str, values: Iterable[str]) -> None:
    """Delete the rows that have these keys."""
    values = iter(values)
    while some := list(islice(values, _ROWS)):
        connection.execute(f"DELETE FROM {table} WHERE {key} IN ({', '.join('?' * len(some))})", some)


def load(connection: sqlite3.Connection, wall: float) -> SavedState:
    """Return what there is, without what was forgotten by now, which is removed.

    Raises: NotOurs: a record can't be read; sqlite3.Error.
    """
    with connection:  # what can't be read as a whole stays as it was
        connection.execute("BEGIN IMMEDIATE")
        _prune(connection, wall)
        day, clean = connection.execute("SELECT day, clean FROM state").fetchone()
        agents = connection.execute("SELECT name, record FROM agents ORDER BY seen")
        works = connection.execute("SELECT id, record FROM work ORDER BY began").fetchall()
        in_flight = connection.execute("SELECT agent, record FROM in_flight").fetchall()
        (last,) = connection.execute("SELECT max(id) FROM runs").fetchone()
        return SavedState(
            agents=tuple(_records("agent", SavedAgent, agents)),
            tasks=tuple(task for task, _ in _tasks(connection)),
            works=tuple(zip((name for name, _ in works), _records("work", Work, works), strict=True)),
            runs=tuple(runs(connection)),
            next_run=(last or 0) + 1,
            day=day,
            clean=bool(clean),
            in_flight=dict(zip((name for name, _ in in_flight), _records("use", Spent, in_flight), strict=True)),
        )


def shrink(connection: sqlite3.Connection) -> None:
    """Give the disk back what is no longer used, where that is most of the file and worth it. Takes a moment and, for
    that long, as much room again as is used. Raises: sqlite3.Error: there is none, or another program has the file."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free >= WORTH_PAGES and free > pages / 2:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def runs(connection: sqlite3.Connection) -> Iterator[SavedRun]:
    """Yield the last run of each agent, the newest first. Raises: sqlite3.Error."""
    found = connection.execute(
        f"SELECT {_RUN} FROM runs WHERE id IN (SELECT max(id) FROM runs GROUP BY agent) ORDER BY id DESC"
    )
    for number, name, command, *rest in found:
        words = next(_records("run", list[str], [(name, command)]))
        try:
            yield msgspec.convert(dict(zip(_FIELDS, (number, name, words, *rest), strict=True)), SavedRun)
        except msgspec.ValidationError as error:
            raise NotOurs(f"has a run of {name!r} that can't be read ({error})") from None


def _added(records: dict[K, T], more: dict[K, T]) -> dict[K, T]:
    records.update(more)
    return records


def _prune(connection: sqlite3.Connection, wall: float) -> None:
    gone = _ended_long_ago(_tasks(connection), wall - TASK_KEPT_S)
    connection.execute("DELETE FROM agents WHERE seen < ? AND NOT decided", (wall - AGENT_KEPT_S,))
    connection.execute("DELETE FROM work WHERE began < ?", (wall - TASK_KEPT_S,))
    connection.execute("DELETE FROM runs WHERE coalesce(ended_at, started_at) < ?", (wall - AGENT_KEPT_S,))
    connection.executemany("DELETE FROM tasks WHERE id = ?", ((name,) for name in gone))


def _ended_long_ago(tasks: Iterable[tuple[SavedTask, float]], horizon: float) -> list[str]:
    """Ids of whole batches (and of tasks without one) that none waits for and that didn't change since."""
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
    return zip(records, (_time(name, changed) for name, _, changed in found), strict=True)


def _time(name: str, value: object) -> float:
    if not isinstance(value, float):  # SQLite takes text in any column
        raise NotOurs(f"has a task {name!r} whose time can't be read")
    return value


def _records(what: str, kind: type[T], rows: Iterable[tuple[str, str]]) -> Iterator[T]:
    decoder = msgspec.json.Decoder(kind)
    for name, text in rows:
        try:
            yield decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise NotOurs(f"has a record of {what} {name!r} that can't be read ({error})") from None


def _text(record: object) -> str:
    return msgspec.json.encode(record).decode()


def _row(run: SavedRun) -> tuple[object, ...]:
    values = asdict(run)
    return tuple((values | {"command": _text(run.command)}).values())
