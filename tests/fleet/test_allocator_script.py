"""The script of lanes in a real store."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec
import pytest
import redis
from fleet.lua import State, sync
from redis_server import running

from benchmarks.fleet.simulation import Case, Crowd, Simulation
from hivemind.fleet.messages import PROTOCOL, SyncReply, SyncReport
from hivemind.scheduler.types import Priority

pytestmark = pytest.mark.e2e
KEY = "hm:lane:0123456789abcdef0123456789abcdef"
SCRIPT = resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8")
SEED = "0a1b2c3d"
START = 1_000.0


@pytest.fixture(scope="module")
def store() -> Iterator[redis.Redis]:
    with running(unix=True) as server, redis.Redis.from_url(server.url) as client:
        yield client


def test_redis_runs_it_as_it_runs_here(store: redis.Redis) -> None:
    """The same answers, also after the state was lost."""
    script = store.register_script(SCRIPT)

    def both(state: State | None, report: SyncReport, now: float, seed: str) -> tuple[State, SyncReply]:
        if state is None:
            store.delete(KEY)
        answer: Any = script(keys=[KEY], args=[msgspec.json.encode(report), seed, repr(now)])
        state, expected = sync(state, report, now, seed)
        same(msgspec.to_builtins(expected), msgspec.to_builtins(msgspec.json.decode(answer, type=SyncReply)))
        return state, expected

    crowds = (Crowd(0, 6), Crowd(1, 3), Crowd(2, 1, Priority.CRITICAL, thinks_s=3.0))
    run = Simulation(Case("both", crowds, rpm=120, slots=6, lasts_s=40.0, lost=(20.0,)), both).run()
    assert run.syncs > 150


def same(expected: Any, found: Any) -> None:
    """Compare, numbers with the precision in which the store keeps them."""
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected)
        for name in expected:
            same(expected[name], found[name])
    else:
        assert found == (pytest.approx(expected, abs=2e-3) if isinstance(expected, float) else expected)


def test_what_it_refuses(store: redis.Redis) -> None:
    """A report or a state of another protocol, and a key that holds something else, get an error with its code."""
    script = store.register_script(SCRIPT)
    report = msgspec.json.encode(SyncReport(PROTOCOL, "a", 1))
    store.delete(KEY)
    with pytest.raises(redis.ResponseError, match=r"^HMPROTOCOL the report is of protocol 9, this is 2"):
        script(keys=[KEY], args=[msgspec.json.encode(SyncReport(9, "a", 1)), SEED])
    script(keys=[KEY], args=[report, SEED])
    held: Any = store.get(KEY)
    other = held.replace(b'"protocol":2', b'"protocol":3')
    assert other != held
    store.set(KEY, other)
    with pytest.raises(redis.ResponseError, match=r"^HMPROTOCOL the state is of protocol 3, this is 2"):
        script(keys=[KEY], args=[report, SEED])
    assert store.get(KEY) == other
    for value in (b"hello", b"[]", b"{}"):
        store.set(KEY, value)
        with pytest.raises(redis.ResponseError, match=r"^HMSTATE hm:lane:"):
            script(keys=[KEY], args=[report, SEED])


def test_it_kicks_those_who_are_due_something(store: redis.Redis) -> None:
    """A member that can have a slot now hears of it on the lane's channel, once until it syncs."""
    script = store.register_script(SCRIPT)
    store.delete(KEY)
    waits: dict[str, Any] = {"waiting": [1], "ceiling": 2.0}
    busy: dict[str, Any] = {"in_flight": [0, 0, 2], "ceiling": 2.0}
    ends: dict[str, Any] = {"ceiling": 2.0}
    steps = [(0, "a", busy), (5, "a", busy), (5.1, "b", waits), (5.2, "a", ends), (5.3, "a", ends), (5.4, "a", ends)]
    with store.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(KEY.replace("lane", "kick"))
        kicks = []
        for seq, (at, member, fields) in enumerate(steps, start=1):
            report = msgspec.json.encode(SyncReport(PROTOCOL, member, seq, **fields))
            answer: Any = script(keys=[KEY], args=[report, SEED, repr(START + at)])
            kicks.append(msgspec.json.decode(answer, type=SyncReply).kick)
        assert kicks == [[], [], ["a"], ["a"], ["b"], []]
        told: list[bytes | int] = []
        while len(told) < 4:
            told.append(heard.get_message(timeout=20)["data"])
    assert told == [1, b"a", b"a", b"b"]


def test_it_reads_the_stores_clock_and_keeps_the_state_for_an_hour(store: redis.Redis) -> None:
    """Without a time among the arguments, as always but in tests."""
    store.delete(KEY)
    answer: Any = store.register_script(SCRIPT)(
        keys=[KEY], args=[msgspec.json.encode(SyncReport(PROTOCOL, "a", 1)), SEED]
    )
    epoch = msgspec.json.decode(answer, type=SyncReply).epoch
    seconds: Any = store.time()
    assert abs(seconds[0] - int(epoch[:13]) / 1000) < 60
    assert epoch[13:] == SEED
    left: Any = store.pttl(KEY)
    assert 3_500_000 < left <= 3_600_000
