"""Agents that earlier versions kept under several spellings of one name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from proxy.kit import settings_for
from store.records import agent, batch, run, task

from hivemind.host.proxy import Proxy
from hivemind.scheduler.accounts import Budget
from hivemind.scheduler.types import Priority
from hivemind.store import schema
from hivemind.store.schema import Batch
from hivemind.store.store import Store

Database = sqlite3.Connection


@pytest.fixture
def database() -> Iterator[Database]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.prepare(connection)
    yield connection
    connection.close()


def test_two_records_become_one(database: Database) -> None:
    """What both used counts, the lower ceiling holds, and what was decided about either stays; once for all."""
    capital = replace(agent("Alice", 100), budget=Budget(500, 2.0, "day"), priority=Priority.LOW, parent="boss")
    small = replace(agent("alice", 10), budget=Budget(300, None, "day"), stopped=True)
    spaced = agent("alice ", 1)
    for wall, each in enumerate((capital, small, spaced, agent("bob")), 1):
        schema.write(database, batch(each, wall=wall))
    for _ in range(2):
        kept = schema.load(database, 10.0)
        found = {each.name: each for each in kept.agents}
        assert list(found) == ["alice", "bob"]
        joined = found["alice"]
        assert (joined.parent, joined.priority, joined.stopped) == ("boss", Priority.LOW, True)
        assert joined.budget == Budget(300, 2.0, "day")
        assert (joined.own.ever.tokens, joined.own.ever.unpriced) == (111, 9)
        assert joined.own.ever.dollars == pytest.approx(0.3)
        assert joined.own.flying.tokens == joined.tree.flying.tokens == 12
    assert database.execute("SELECT seen FROM agents WHERE name = 'alice'").fetchone() == (3.0,)


def test_a_decision_names_the_agent(database: Database) -> None:
    """Its spelling is kept rather than one that was seen later; else the one that was seen last."""
    for wall, each in enumerate((agent("Alice", decided=True), agent("alice"), agent("BOB"), agent("Bob")), 1):
        schema.write(database, batch(each, wall=wall))
    kept = schema.load(database, 10.0)
    assert [each.name for each in kept.agents] == ["Alice", "Bob"]
    assert kept.agents[0].budget == Budget(5, 1.5, "day", "subtree")


def test_what_refers_to_it_goes_along(database: Database) -> None:
    """Sub-agents and children, runs, and tasks, by agent or by a name of their own."""
    child, sub = replace(agent("child"), parent="ALICE"), replace(agent("ALICE/sub"), parent="ALICE")
    for wall, each in enumerate((agent("ALICE"), child, sub, agent("alice")), 1):
        schema.write(database, batch(each, wall=wall))
    named = replace(task("t"), spec=replace(task("t").spec, agent="Alice"))
    itself = replace(task("ALICE"), spec=replace(task("ALICE").spec, agent=""))
    schema.write(database, Batch(tasks={"t": named, "ALICE": itself}, runs={1: run(1, "ALICE"), 2: run(2, "alice")}))
    kept = schema.load(database, 10.0)
    assert {each.name: each.parent for each in kept.agents} == {"alice": None, "child": "alice", "alice/sub": "alice"}
    assert {each.spec.id: each.spec.agent for each in kept.tasks} == {"t": "alice", "ALICE": "alice"}
    assert [each.agent for each in kept.runs] == ["alice"]


def test_a_parent_of_another_spelling_counts_once(database: Database) -> None:
    """What a child used is part of what its parent's subtree did."""
    schema.write(database, batch(agent("Alice", 100), replace(agent("alice", 10), parent="Alice")))
    (joined,) = schema.load(database, 10.0).agents
    assert (joined.parent, joined.own.ever.tokens, joined.tree.ever.tokens) == (None, 110, 100)


async def test_a_proxy_begins_with_the_joined_budget(tmp_path: Path) -> None:
    """Of an old database with two budgets neither is lost, and every spelling is charged to one."""
    store = Store(tmp_path / "old.db", 0.0)
    store.put(batch(replace(agent("Alice", 3), budget=Budget(10, None, "ever")), agent("alice", 9), wall=1.0))
    store.start()
    store.close(clean=True)
    proxy = Proxy(settings_for("http://127.0.0.1:9"))
    proxy.store = Store(tmp_path / "old.db", 2.0)
    await proxy.start()
    (told,) = proxy.budgets("ALICE").agents
    assert told.budget is not None
    assert (told.agent, told.budget.tokens, told.budget.used_tokens) == ("Alice", 10, 20)
    await proxy.aclose()
    proxy.store.close(clean=True)
