"""The task that keeps lanes in step, with a store that does as the test says, and no scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import msgspec
import pytest
from fleet.lua import State, sync
from waiting import until

from hivemind.fleet import link
from hivemind.fleet.link import Link
from hivemind.fleet.messages import SyncReport
from hivemind.fleet.store import Fault, FleetStore, Script, ScriptRun, StoreError
from hivemind.scheduler.lease import LaneReport, Lease, LeaseState

pytestmark = pytest.mark.e2e
AWAY = StoreError("the store isn't there", "refused", Fault.AWAY)
UNREACHABLE = StoreError("the store can't be reached", "timeout", Fault.UNREACHABLE)


class FakeStore:
    """Runs the allocator itself, unless it is told to fail."""

    shown = "redis://fake"

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.reports: list[SyncReport] = []
        self.channels: dict[str, Callable[[str | None], object]] = {}
        self.error: Exception | None = None
        self.at_once: list[int] = []
        self.garbage = False

    async def call(self, *command: str) -> bytes:
        await self.pipeline([])
        return b"PONG"

    async def pipeline(self, runs: Sequence[ScriptRun]) -> list[Any]:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.at_once.append(len(runs))
        return [self._run(each) for each in runs]

    def _run(self, run: ScriptRun) -> bytes:
        report = msgspec.json.decode(cast(bytes, run.arguments[0]), type=SyncReport)
        self.reports.append(report)
        now = asyncio.get_running_loop().time() + 1e6
        state, reply = sync(self.states.get(run.key), report, now, str(run.arguments[1]))
        self.states[run.key] = state
        return b"[]" if self.garbage else msgspec.json.encode(reply)

    def subscribe(self, channel: str, on_message: Callable[[str | None], object]) -> None:
        self.channels[channel] = on_message

    def unsubscribe(self, channel: str) -> None:
        self.channels.pop(channel, None)


class FakeLeases:
    """Lanes that want nothing."""

    def __init__(self) -> None:
        self.taken: dict[str, list[Lease]] = {}
        self.gone: set[str] = set()

    def take_lease(self, key: str, lease: Lease) -> None:
        self.taken.setdefault(key, []).append(lease)

    def lease_report(self, key: str) -> LaneReport | None:
        return None if key in self.gone else LaneReport({}, [0] * 4, [0] * 4, [0] * 4)

    def states(self, key: str) -> list[LeaseState]:
        """The states of the lane one after the other."""
        found: list[LeaseState] = []
        for lease in self.taken.get(key, []):
            if found[-1:] != [lease.state]:
                found.append(lease.state)
        return found


@contextlib.asynccontextmanager
async def linked(store: FakeStore) -> AsyncIterator[tuple[Link, FakeLeases]]:
    leases = FakeLeases()
    made = Link(cast(FleetStore, store), leases, Script.of(""), lambda key: f"name of {key[0]}", member="me")
    made.start()
    try:
        async with asyncio.timeout(20):
            yield made, leases
    finally:
        await made.aclose()


async def test_many_lanes_take_turns() -> None:
    store = FakeStore()
    async with linked(store) as (made, leases):
        keys = [f"{chr(97 + number)}" for number in range(26)] + [f"{number}" for number in range(10)]
        for key in keys:
            made.open(key, "up")
        await until(lambda: len(leases.taken) == len(keys))
    assert max(store.at_once) == link.MOST_AT_ONCE
    assert store.channels.keys() == {f"hm:kick:name of {key}" for key in keys}
    # At the end each has left.
    assert not [state for state in store.states.values() if len(state["members"])]


async def test_two_lanes_of_one_name_are_two_members() -> None:
    """One upstream under two names; and a lane that was forgotten and opened again counts its reports anew."""
    store = FakeStore()
    async with linked(store) as (made, leases):
        made.open("a1", "up")
        made.open("a2", "up")
        await until(lambda: {"a1", "a2"} <= leases.taken.keys())
        assert sorted(store.states["hm:lane:name of a"]["members"]) == ["me", "me.2"]
        made.open("a1", "up")
        await until(lambda: sorted(store.states["hm:lane:name of a"]["members"]) == ["me.2", "me.3"])
        before = len(store.reports)
        store.channels["hm:kick:name of a"]("me.3")
        await until(lambda: len(store.reports) > before)
        assert store.reports[before].member == "me.3"
        leases.gone.add("a2")
        made.hurry("a2")
        await until(lambda: sorted(store.states["hm:lane:name of a"]["members"]) == ["me.3"])


async def test_a_lane_without_requests_leaves_until_it_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "DORMANT_AFTER_S", 0.0)
    store = FakeStore()
    async with linked(store) as (made, leases):
        made.open("a", "up")
        await until(lambda: leases.states("a")[-1:] == [LeaseState.JOINING])
        await until(lambda: not len(store.states["hm:lane:name of a"]["members"]))
        assert made.view().lanes == 0
        monkeypatch.undo()
        made.hurry("a")
        await until(lambda: sorted(store.states["hm:lane:name of a"]["members"]) == ["me.2"])
        await until(lambda: leases.states("a")[-1] is not LeaseState.JOINING)


@pytest.mark.parametrize(("error", "state"), [(AWAY, LeaseState.SAFE), (UNREACHABLE, LeaseState.ALONE)])
async def test_leases_end_and_come_back(
    error: StoreError, state: LeaseState, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With one line each way; and an answer that is late doesn't look like a network that is gone."""
    monkeypatch.setattr("hivemind.fleet.messages.CREDITS_TTL_S", 0.5)
    caplog.set_level("INFO")
    store = FakeStore()
    async with linked(store) as (made, leases):
        made.open("a", "up")
        await until(lambda: made.view().state == "leased")
        store.error = error
        await until(lambda: leases.states("a")[-1] is state)
        await until(lambda: made.view().errors[error.kind] > 1)
        store.error = None
        await until(lambda: made.view().state == "leased")
        assert leases.states("a") == [LeaseState.LEARNING, LeaseState.LEASED, state, LeaseState.LEASED]
    assert len([line for line in caplog.messages if "is back" in line]) == 1
    assert len([line for line in caplog.messages if str(error) in line]) == 1


async def test_a_defect_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next sync may go well again."""
    store = FakeStore()
    async with linked(store) as (made, leases):
        store.error = ZeroDivisionError("a defect")
        made.open("a", "up")
        await until(lambda: "defect" in made.view().errors)
        store.error = None
        await until(lambda: "a" in leases.taken)
        store.garbage = True
        made.hurry("a")
        await until(lambda: "version" in made.view().errors)
        store.garbage = False
        await until(lambda: made.view().text == "requests go on with leases")
    assert "a defect" in caplog.text
