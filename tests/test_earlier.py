"""Names of earlier versions in journals, databases and the screen's file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from hivemind.earlier import CHANGED_EVENTS, SCREEN_NAMES, today
from hivemind.journal.codec import KINDS, event_of
from hivemind.store import schema
from hivemind_tui.panels.agent_table import COLUMNS

LANE: Mapping[str, Any] = {
    **{"lane": "a", "upstream": "a", "provider": "p", "active": 0, "waiting": 1, "retrying": 0, "level": 2.0},
    **{"ceiling": 4.0, "floor": 1.0, "latency_target_s": 3.0, "circuit_window": 9, "circuit_threshold": 0.5},
    "parked_for_s": 7.5,
    "upcoming": [{"ticket": 1, "gate": "parked", "opens_in_s": 7.5, "estimate_s": None}],
    "lease": {"state": "leased", "members": 2, "slots": 3.0, "level": 6.0, "flying": 4},
}


def read(name: str, **values: object) -> Any:
    return event_of(json.dumps({"v": 1, "event": name, "at": 1.0, **values}, separators=(",", ":")).encode() + b"\n")


def test_events() -> None:
    """A journal of version 1 is read under the names of today."""
    assert read("Abandoned", ticket=1, agent="a", lane="a", flying=True).in_flight
    assert read("LaneParked", lane="a", for_s=3.0, cause="429").for_s == 3.0
    (lane,) = read("Sampled", lanes=[LANE]).lanes
    assert (lane.rate_limited_for_s, lane.upcoming[0].gate, lane.lease.in_flight) == (7.5, "rate_limited", 4)


def test_what_is_carried_over() -> None:
    """Agents, counts, notes of requests and lanes in the state that a later part begins with."""
    agent = {"name": "ann", "rescued": 2, "paused": True}
    ticket = {"gate": "parked", "notes": [[1.0, "parked", [3, 2.0, 7.5]], [2.0, "slot", []]]}
    values: dict[str, Any] = {
        "state": {"agents": [agent], "counts": {"rescued": 5}, "tickets": [ticket], "lanes": [dict(LANE)]}
    }
    assert today("Carried", values) == "Carried"
    assert agent == {"name": "ann", "retried_ok": 2, "held": True}
    assert ticket == {"gate": "rate_limited", "notes": [[1.0, "rate_limited", [3, 2.0, 7.5]], [2.0, "slot", []]]}
    assert values["state"]["counts"] == {"retried_ok": 5}
    assert "rate_limited_for_s" in values["state"]["lanes"][0]


@pytest.mark.parametrize("event", sorted(CHANGED_EVENTS))
@pytest.mark.parametrize("damaged", [None, 5, "x", [], [5], [[]], [None], {"agents": 5}, {"lanes": [5, {"lease": 5}]}])
def test_damage(event: str, damaged: object) -> None:
    """What isn't of the right form stays as it is."""
    assert today(event, {"state": damaged, "lanes": damaged}) in KINDS


def test_databases() -> None:
    """A database of version 1 becomes one of today's version once, and a text that resembles a name stays."""
    record = {"name": 'say "flying": 1', "own": {"flying": {"tokens": 3}}, "tree": {"flying": {"tokens": 4}}}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        schema.prepare(database)
        database.execute("INSERT INTO agents VALUES ('a', 1.0, 0, ?)", (json.dumps(record, separators=(",", ":")),))
        database.execute("PRAGMA user_version = 1")
        for _ in range(2):
            assert not schema.prepare(database)
            (text,) = database.execute("SELECT record FROM agents").fetchone()
            assert json.loads(text) == {
                "name": 'say "flying": 1',
                "own": {"in_flight": {"tokens": 3}},
                "tree": {"in_flight": {"tokens": 4}},
            }
        assert database.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_columns() -> None:
    """Names of columns in a screen's file lead to columns that there are."""
    assert set(SCREEN_NAMES.values()) <= set(COLUMNS)
    assert not set(SCREEN_NAMES) & set(COLUMNS)
