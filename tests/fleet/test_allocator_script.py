"""The script of lanes in a real store: random lives of a lane there and here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec
import pytest
import redis
from fleet.lua import State, sync
from hypothesis import given
from hypothesis import strategies as st
from redis_server import running

from hivemind.fleet.messages import PROTOCOL, Reply, Report, Stated, WindowDemand

KEY = "hm:lane:0123456789abcdef0123456789abcdef"
SCRIPT = resources.files("hivemind.fleet").joinpath("allocator.lua").read_text("utf-8")
SEED = "0a1b2c3d"
START = 1_000.0  # so that the store's digits suffice
MEMBERS = ("amber", "birch", "cedar", "dune")
WINDOWS = ("default|requests", "default|input")


@pytest.fixture(scope="module")
def store() -> Iterator[redis.Redis]:
    with running(unix=True) as server, redis.Redis.from_url(server.url) as client:
        yield client


def amounts(most: float) -> st.SearchStrategy[float]:
    """Amounts that a double and 14 digits tell alike, 0 often among them."""
    return st.one_of(st.just(0.0), st.integers(1, int(most * 8)).map(lambda value: value / 8))


counts = st.lists(st.integers(0, 6), max_size=4)
uses = st.lists(st.tuples(st.integers(-1, 70), st.integers(-40, 400).map(lambda value: value / 8)), max_size=3)
stated = st.builds(
    Stated,
    limit=st.sampled_from([0.0, 20.0, 60.0, 600.0]),
    remaining=amounts(600).map(lambda value: value - 5),
    age_s=st.sampled_from([0.0, 0.25, 2.0]),
)
demands = st.builds(
    WindowDemand,
    used=uses,
    left=st.one_of(amounts(50), st.just(-3.5)),
    wanted=st.lists(amounts(90), max_size=5),
    first=st.sampled_from([0.0, 1.0, 1.0, 2.5, 18.0, 700.0]),
    limit=st.sampled_from([None, 1.0, 20.0, 60.0, 600.0, 1e6]),
    rank=st.integers(0, 2),
    stated=st.one_of(st.none(), stated),
)
told = st.fixed_dictionaries(
    {},
    optional={
        "windows": st.dictionaries(st.sampled_from(WINDOWS), demands, max_size=2),
        "minute": st.dictionaries(st.sampled_from(WINDOWS), uses, max_size=2),
        "flying": counts,
        "waiting": counts,
        "agents": st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 6.0]), max_size=4),
        "ceiling": st.sampled_from([None, 1.0, 4.0, 5.5, 40.0]),
        "floor": st.sampled_from([1.0, 2.0]),
        "level": st.sampled_from([None, 3.0]),
        "cut": st.sampled_from([None, 0.5]),
        "cuts": st.integers(0, 3),
        "grow": st.sampled_from([0.0, 1.0]),
        "settle_s": st.sampled_from([0.0, 2.0]),
        "paused_for_s": st.sampled_from([0.0, 0.0, 4.0]),
        "resumed": st.booleans(),
        "trips": st.integers(0, 3),
        "opened_for_s": st.sampled_from([None, 1.0]),
        "probe_ok": st.sampled_from([None, True, False]),
        "forced": st.sampled_from([None, None, None, "auto", "open", "closed", "probe"]),
        "pin": st.sampled_from([None, None, 0.0, 3.0]),
        "leaving": st.sampled_from([False] * 9 + [True]),
    },
)
steps = st.tuples(
    st.sampled_from([0.0, 0.05, 0.25, 0.25, 0.25, 1.0, 3.25, 11.0, 31.0, 62.5, -0.5, -100.0]),
    st.sampled_from(MEMBERS),
    st.sampled_from(["report"] * 12 + ["repeat", "stale", "lost", "behind", "unknown"]),
    told,
)


class Both:
    """A lane in a store and here, and the members' memories."""

    def __init__(self, store: redis.Redis) -> None:
        self.store = store
        self.script = store.register_script(SCRIPT)
        store.delete(KEY)
        self.now = START
        self.last: dict[str, Report] = {}
        self.known: dict[str, Reply] = {}
        self.seq = 0
        self.state: State | None = None
        self.replica: tuple[Any, State] | None = None

    def step(self, passed_s: float, name: str, kind: str, fields: dict[str, Any]) -> None:
        self.now += passed_s
        if kind == "lost":
            self.store.delete(KEY)
            self.state = None
        elif kind == "behind" and self.replica is not None:
            data, state = self.replica
            self.store.set(KEY, data)
            self.state = state.copied()
        elif kind == "unknown":
            self.known.pop(name, None)
        if kind not in ("repeat", "stale") or name not in self.last:
            self.seq += 1
            if name in self.known:
                fields = {"epoch": self.known[name].epoch, "version": self.known[name].version} | fields
            self.last[name] = Report(PROTOCOL, name, self.seq, **fields)
        report = self.last[name]
        if kind == "stale":
            report = msgspec.structs.replace(report, seq=max(1, report.seq - 5))
        self.known[name] = self.sync(report)

    def sync(self, report: Report) -> Reply:
        """Sync both, and compare."""
        answer: Any = self.script(keys=[KEY], args=[msgspec.json.encode(report), SEED, repr(self.now)])
        reply = msgspec.json.decode(answer, type=Reply)
        self.state, expected = sync(self.state, report, self.now, SEED)
        self.replica = self.replica or (self.store.get(KEY), self.state.copied())
        same(msgspec.to_builtins(expected), msgspec.to_builtins(reply))
        return reply


def same(expected: Any, found: Any) -> None:
    """Compare, numbers with the precision in which the store keeps them."""
    assert type(expected) is type(found) or {type(expected), type(found)} == {int, float}
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected)
        for name in expected:
            same(expected[name], found[name])
    else:
        assert found == (pytest.approx(expected, abs=2e-3) if isinstance(expected, float) else expected)


@given(st.lists(steps, min_size=1, max_size=25))
def test_redis_runs_it_as_it_is_run_here(
    store: redis.Redis, life: list[tuple[float, str, str, dict[str, Any]]]
) -> None:
    """Whatever members report, after whatever silence and loss."""
    both = Both(store)
    for step in life:
        both.step(*step)


def test_what_it_refuses(store: redis.Redis) -> None:
    """A report or a state of another protocol, and a key that holds something else, get an error with its code."""
    script = store.register_script(SCRIPT)
    report = msgspec.json.encode(Report(PROTOCOL, "a", 1))
    store.delete(KEY)
    with pytest.raises(redis.ResponseError, match=r"^HMPROTOCOL the report is of protocol 9, this is 1"):
        script(keys=[KEY], args=[msgspec.json.encode(Report(9, "a", 1)), SEED])
    script(keys=[KEY], args=[report, SEED])
    held: Any = store.get(KEY)
    other = held.replace(b'"protocol":1', b'"protocol":2')
    assert other != held
    store.set(KEY, other)
    with pytest.raises(redis.ResponseError, match=r"^HMPROTOCOL the state is of protocol 2, this is 1"):
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
    busy: dict[str, Any] = {"flying": [0, 0, 2], "ceiling": 2.0}
    ends: dict[str, Any] = {"ceiling": 2.0}
    steps = [(0, "a", busy), (5, "a", busy), (5.1, "b", waits), (5.2, "a", ends), (5.3, "a", ends), (5.4, "a", ends)]
    with store.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(KEY.replace("lane", "kick"))
        kicks = []
        for seq, (at, member, fields) in enumerate(steps, start=1):
            report = msgspec.json.encode(Report(PROTOCOL, member, seq, **fields))
            answer: Any = script(keys=[KEY], args=[report, SEED, repr(START + at)])
            kicks.append(msgspec.json.decode(answer, type=Reply).kick)
        assert kicks == [[], [], ["a"], ["a"], ["b"], []]
        told: list[bytes | int] = []
        while len(told) < 4:
            told.append(heard.get_message(timeout=20)["data"])
    assert told == [1, b"a", b"a", b"b"]


def test_it_reads_the_stores_clock_and_keeps_the_state_for_an_hour(store: redis.Redis) -> None:
    """Without a time among the arguments, as always but in tests."""
    store.delete(KEY)
    answer: Any = store.register_script(SCRIPT)(keys=[KEY], args=[msgspec.json.encode(Report(PROTOCOL, "a", 1)), SEED])
    epoch = msgspec.json.decode(answer, type=Reply).epoch
    seconds: Any = store.time()
    assert abs(seconds[0] - int(epoch[:13]) / 1000) < 60
    assert epoch[13:] == SEED
    left: Any = store.pttl(KEY)
    assert 3_500_000 < left <= 3_600_000
