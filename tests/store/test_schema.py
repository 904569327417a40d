"""What is written comes back, and what is old enough goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from store.records import DAY_S, agent, batch, run, task

from hivemind.records import replace
from hivemind.scheduler.accounts import Unpriced
from hivemind.scheduler.tasks import SavedTask
from hivemind.scheduler.types import Usage
from hivemind.scheduler.work import Work
from hivemind.store import schema
from hivemind.store.schema import SavedBatch, SavedState

Database = sqlite3.Connection


@pytest.fixture
def database() -> Iterator[Database]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.prepare(connection)
    yield connection
    connection.close()


def tasks_of(*tasks: SavedTask, wall: float = 0.0) -> SavedBatch:
    return SavedBatch(tasks={each.spec.id: each for each in tasks}, wall=wall)


def test_nothing_yet(database: Database) -> None:
    """A new database is of a run that came to its end, on no day."""
    assert schema.load(database, 0.0) == SavedState()


def test_everything_comes_back(database: Database) -> None:
    """Each record as it was, those seen longest ago first."""
    agents = [agent("b", decided=True), agent("ä / é"), agent("")]
    for wall, each in enumerate(agents, 1):
        schema.write(database, batch(each, wall=wall, day="2026-11-21"))
    tasks, runs = [task("t"), task("u", "running")], [run(1), run(2, "b", ended_at=3.0)]
    schema.write(
        database, SavedBatch(tasks={each.spec.id: each for each in tasks}, runs={each.id: each for each in runs})
    )
    assert schema.load(database, 5.0) == SavedState(
        tuple(agents), tuple(tasks), tuple(reversed(runs)), 3, "2026-11-21", clean=False
    )


def test_many_records_take_few_statements(database: Database) -> None:
    """Each gives up the interpreter's lock, so there are fewer than records. SQLite of before 3.35 takes them too."""
    statements: list[str] = []
    agents = [agent(f"a{number}") for number in range(100, 220)]
    database.set_trace_callback(statements.append)
    schema.write(database, batch(*agents))
    schema.write(database, SavedBatch(forgotten=frozenset(each.name for each in agents[100:])))
    assert (len(statements) < 16, "CONFLICT DO UPDATE" in str(statements)) == (True, False)
    assert [each.name for each in schema.load(database, 0.0).agents] == [each.name for each in agents[:100]]


def test_work_comes_back_for_a_month(database: Database) -> None:
    """By its id, the oldest first, until its provider forgets it too or the proxy does; a database of before gets its
    table."""
    works = {name: Work("a", "l", "m", "batch", began, names=("f",)) for name, began in (("w", 9.0), ("v", 1.0))}
    schema.write(database, SavedBatch(works={**works}, wall=9.0))
    assert schema.load(database, 9.0).works == (("v", works["v"]), ("w", works["w"]))
    schema.write(database, SavedBatch(works={"w": None}, wall=9.0))
    assert schema.load(database, 9.0).works == (("v", works["v"]),)
    assert schema.load(database, schema.TASK_KEPT_S + 2.0).works == ()
    database.execute("DROP TABLE work")
    schema.prepare(database)
    assert schema.load(database, 9.0).works == ()


def test_what_waits_for_its_price_keeps_its_tier(database: Database) -> None:
    """A record of before tiers were known is of the standard one."""
    usages = [Usage(1, 2, 3, 4, tier="fast"), Usage(5, 6, 7, 8)]
    kept = replace(agent(), unpriced=tuple(Unpriced("anthropic", "m", usage) for usage in usages))
    schema.write(database, batch(kept))
    assert schema.load(database, 0.0).agents == (kept,)
    database.execute(
        "UPDATE agents SET record = replace(replace(record, ',\"tier\":\"fast\"', ''), ',\"tier\":\"\"', '')"
    )
    assert "tier" not in database.execute("SELECT record FROM agents").fetchone()[0]
    (older,) = schema.load(database, 0.0).agents
    assert [each.usage for each in older.unpriced] == [Usage(1, 2, 3, 4), Usage(5, 6, 7, 8)]


def test_a_later_record_takes_the_place_of_an_earlier_one(database: Database) -> None:
    """Of an agent, a task and a run; a task can be forgotten, and a run come to its end."""
    schema.write(database, SavedBatch({"a": agent(tokens=1)}, {"a": 9.0}, {"t": task("t")}, runs={1: run(1)}))
    schema.write(
        database, SavedBatch({"a": agent(tokens=2)}, {}, {"t": None}, runs={1: run(1, ended_at=9.0)}, clean=True)
    )
    kept = schema.load(database, 10.0)
    assert kept == SavedState((agent(tokens=2),), (), (run(1, ended_at=9.0),), 2, "", clean=True)
    assert database.execute("SELECT seen FROM agents").fetchall() == [(9.0,)]


def test_all_or_nothing(database: Database) -> None:
    """A batch of which something can't be written leaves no trace, and the next one can be."""
    schema.write(database, batch(agent(tokens=1)))
    bad = SavedBatch({"a": agent(tokens=2)}, runs={2**70: run(2**70)})
    with pytest.raises(OverflowError):
        schema.write(database, bad)
    assert schema.load(database, 0.0).agents == (agent(tokens=1),)
    schema.write(database, batch(agent(tokens=3)))
    assert schema.load(database, 0.0).agents == (agent(tokens=3),)


def test_numbers_beyond_what_sqlite_counts_to(database: Database) -> None:
    """Records are text, so what a provider makes up can't stop anything from being written."""
    schema.write(database, batch(agent(tokens=2**63)))
    assert schema.load(database, 0.0).agents == (agent(tokens=2**63),)


def test_agents_that_were_not_seen_for_long(database: Database) -> None:
    """They are forgotten, unless somebody decided something about them; the pool never is."""
    schema.write(database, batch(agent("old"), agent("decided", decided=True), agent(""), wall=0.0))
    schema.write(database, batch(agent("new"), wall=DAY_S))
    kept = schema.load(database, 90 * DAY_S + 1)
    assert {each.name for each in kept.agents} == {"decided", "", "new"}
    assert [each.name for each in schema.load(database, 91 * DAY_S + 1).agents] == ["decided", ""]


def test_batches_that_ended_long_ago(database: Database) -> None:
    """A batch goes as a whole, thirty days after the last of its tasks moved; a task that is open or that an open one
    waits for stays."""
    ended = [task("one.a", batch="one"), task("one.b", "failed", batch="one"), task("alone")]
    schema.write(database, tasks_of(*ended, task("two.a", batch="two"), task("two.b", "blocked", batch="two")))
    schema.write(
        database, tasks_of(task("three.a", batch="three"), task("needed"), task("w", "ready", after=("needed",)))
    )
    schema.write(database, tasks_of(task("three.b", batch="three"), wall=DAY_S))
    kept = schema.load(database, 30 * DAY_S + 1)
    assert {each.spec.id for each in kept.tasks} == {"two.a", "two.b", "three.a", "three.b", "needed", "w"}
    assert {each.spec.id for each in schema.load(database, 31 * DAY_S + 1).tasks} == {"two.a", "two.b", "needed", "w"}


def test_runs(database: Database) -> None:
    """The last of each agent, the newest first."""
    runs = [run(1, "a", ended_at=DAY_S), run(2, "b", started_at=DAY_S), run(3, "a", started_at=DAY_S)]
    schema.write(database, SavedBatch(runs={each.id: each for each in runs}))
    assert [each.id for each in schema.runs(database)] == [3, 2]
    schema.load(database, 91 * DAY_S + 1)
    assert list(schema.runs(database)) == []


def test_a_record_that_cannot_be_read(database: Database) -> None:
    """It is told by its name, because nobody wants to begin with a part of the truth."""
    schema.write(database, batch(agent()))
    database.execute("UPDATE agents SET record = '{}'")
    with pytest.raises(schema.NotOurs, match="has a record of agent 'a' that can't be read"):
        schema.load(database, 0.0)


def test_no_room(database: Database) -> None:
    """SQLite's own word for a full disk ends a batch without a trace, and when there is room again it goes through."""
    schema.write(database, batch(agent(tokens=1)))
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    large = batch(*(agent(f"{number:0100}") for number in range(200)), agent(tokens=2))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        schema.write(database, large)
    assert schema.load(database, 0.0).agents == (agent(tokens=1),)
    database.execute("PRAGMA max_page_count = 100000")
    schema.write(database, large)
    assert len(schema.load(database, 0.0).agents) == 201


def test_a_forgotten_agent_s_record_goes(database: Database) -> None:
    """Before what the batch brings, so one that has come again since is there, as new; merged batches come to the
    same as one after the other."""
    first = batch(agent("a"), agent("b"), wall=5.0)
    second = SavedBatch(forgotten=frozenset({"a", "b"}))
    third = batch(agent("b", tokens=1))
    for several in ((first, second, third), (first, third.over(second)), (third.over(second.over(first)),)):
        database.execute("DELETE FROM agents")
        for each in several:
            schema.write(database, each)
        assert schema.load(database, 0.0).agents == (agent("b", tokens=1),)
        assert database.execute("SELECT seen FROM agents").fetchall() == [(0.0,)]
    assert bool(second)
