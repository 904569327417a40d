"""A proxy with a database, from one run to the next, on a clock of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from proxy.kit import settings_for
from scheduler.driving import LANE, lane_config, request
from waiting import until

from hivemind.api_types import PlaceRelease, PlaceRequest
from hivemind.cli.operator.budget import shown
from hivemind.host.proxy import Kept, Proxy
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Period
from hivemind.scheduler.places import LEASE_S
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import TaskSpec, Usage
from hivemind.store import schema
from hivemind.store.schema import SavedRun
from hivemind.store.store import opened

EVENING = time.mktime((2026, 11, 21, 23, 59, 50, 0, 0, -1))


def runs_in(path: Path) -> list[SavedRun]:
    """The last run of each agent."""
    with contextlib.closing(sqlite3.connect(path)) as found:
        return list(schema.runs(found))


class Clock:
    """The time of day, as the test says."""

    def __init__(self, wall: float = EVENING) -> None:
        self.wall = wall

    def __call__(self) -> float:
        return self.wall


class Crash(Exception):
    """The proxy is gone without a word."""


@contextlib.asynccontextmanager
async def living(folder: Path, clock: Clock, *, crash: bool = False) -> AsyncIterator[Proxy]:
    """A proxy that goes on from what is in the folder, and ends in good order or not."""
    proxy = Proxy(settings_for("lab=http://127.0.0.1:9"), wall=clock)
    with contextlib.suppress(Crash), opened(folder, 1, clock.wall) as store:
        await proxy.start(Kept(store))
        proxy.engine.open_lane(LANE, lane_config(slots=50))
        try:
            yield proxy
            await proxy.engine.settled()
            if crash:
                raise Crash
        finally:
            await proxy.aclose()


def use(proxy: Proxy, name: str, tokens: int, parent: str | None = None) -> Ticket:
    """One request that is answered, where it is let go."""
    ticket = proxy.engine.arrive(request(name, parent=parent))
    if ticket.refusal is None:
        proxy.engine.succeed(ticket, 200, Usage(tokens, 0, 0, 0))
    return ticket


def used(proxy: Proxy, name: str) -> dict[Period, int]:
    account = proxy.budgets(name).agents[0]
    return {"run": account.run.tokens, "day": account.day.tokens, "ever": account.ever.tokens}


async def test_a_run_ends_in_good_order_only(tmp_path: Path) -> None:
    """After a crash it goes on; after an end in good order another one begins."""
    clock = Clock()
    async with living(tmp_path, clock, crash=True) as proxy:
        use(proxy, "a", 10)
    async with living(tmp_path, clock) as proxy:
        assert used(proxy, "a") == {"run": 10, "day": 10, "ever": 10}
        use(proxy, "a", 5)
    async with living(tmp_path, clock) as proxy:
        assert used(proxy, "a") == {"run": 0, "day": 15, "ever": 15}
        use(proxy, "a", 1)
        assert used(proxy, "a") == {"run": 1, "day": 16, "ever": 16}


@pytest.mark.parametrize("most", [200, 2, 0])
@pytest.mark.parametrize("crash", [False, True])
async def test_rows_add_up_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: bool, most: int
) -> None:
    """Agents that haven't asked since are listed, up to a bound, and the rest in one sum; the table shows it so."""
    monkeypatch.setattr("hivemind.host.proxy.PAST_SHOWN", most)
    clock = Clock()
    async with living(tmp_path, clock, crash=crash) as proxy:
        for name, parent, tokens in _FAMILY:
            use(proxy, name, tokens, parent)
        _assert_adds_up(proxy)
        before = {each.agent: each for each in proxy.budgets(None).agents}
        assert before["boss/dig"].within == "boss", "a part of it"
        assert before["child"].within is None, "a child with a process of its own"
    async with living(tmp_path, clock, crash=crash) as proxy:
        _assert_adds_up(proxy)
        rows = [each.agent for each in proxy.budgets(None).agents]
        assert rows == [*sorted(before, key=lambda name: -before[name].ever.tokens)][:most]
        if crash:
            assert [each.run for each in proxy.budgets(None).agents] == [before[name].run for name in rows]
        use(proxy, "boss/dig", 100, "boss")
        use(proxy, "new", 10)
        _assert_adds_up(proxy)
    clock.wall += 86400
    async with living(tmp_path, clock, crash=crash) as proxy:
        _assert_adds_up(proxy)
        assert proxy.budgets(None).pool.day.tokens == 0
        use(proxy, "key-1", 5)
        _assert_adds_up(proxy)
        assert proxy.budgets("boss").others is None


_FAMILY = (
    ("boss", None, 1000),
    ("boss/dig", "boss", 300),
    ("child", "boss", 70),
    ("key-1", None, 40),
    ("s-2", None, 9),
)


def _assert_adds_up(proxy: Proxy) -> None:
    told = proxy.budgets(None)
    apart = [each for each in told.agents if each.within is None]
    day, ever = sum(each.day.tokens for each in apart), sum(each.ever.tokens for each in apart)
    if told.others is not None:
        day, ever = day + told.others.day.tokens, ever + told.others.ever.tokens
    assert (day, ever) == (told.pool.day.tokens, told.pool.ever.tokens)
    table = shown(told, None)
    assert len(table) == 2 + len(told.agents) + (told.others is not None)
    for each in told.agents:
        indent = "" if each.within is None else "  "
        assert any(line.startswith(f"{indent}{each.agent} ") for line in table)


async def test_midnight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts for a day begins again, and whoever had used up a day's budget may ask; a restart changes nothing of
    that, also one that comes before anything else is used."""
    monkeypatch.setattr("hivemind.proxy.engine.SAMPLE_EVERY_S", 0.001)
    clock = Clock()
    async with living(tmp_path, clock, crash=True) as proxy:
        proxy.apply(cmd.SetBudget("a", 10, per="day"))
        use(proxy, "a", 20)
        use(proxy, "b", 3)
        assert use(proxy, "a", 1).refusal is not None
        clock.wall += 20
        await until(lambda: use(proxy, "a", 0).refusal is None)
        assert [used(proxy, name)["day"] for name in "ab"] == [0, 0]
        assert [used(proxy, name)["run"] for name in "ab"] == [20, 3]
    async with living(tmp_path, clock) as proxy:
        assert [used(proxy, name)["day"] for name in "ab"] == [0, 0]
        assert use(proxy, "a", 7).refusal is None
        assert used(proxy, "a") == {"run": 27, "day": 7, "ever": 27}


async def test_a_clock_that_jumps_a_day_and_back_renews_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while the proxy runs nor over a restart: what was used today is still used."""
    monkeypatch.setattr("hivemind.proxy.engine.SAMPLE_EVERY_S", 0.001)
    clock = Clock()
    async with living(tmp_path, clock, crash=True) as proxy:
        proxy.apply(cmd.SetBudget("a", 10, per="day"))
        use(proxy, "a", 20)
        for jump_s in (86400, -86400, -86400, 86400):
            clock.wall += jump_s
            await asyncio.sleep(0.01)
            assert use(proxy, "a", 1).refusal is not None
        assert used(proxy, "a")["day"] == 20
    clock.wall -= 86400
    async with living(tmp_path, clock, crash=True) as proxy:
        assert use(proxy, "a", 1).refusal is not None
    clock.wall += 86400
    async with living(tmp_path, clock) as proxy:
        assert use(proxy, "a", 1).refusal is not None
        assert used(proxy, "a")["day"] == 20


@pytest.mark.parametrize("crash", [True, False])
async def test_midnight_while_nobody_was_there(tmp_path: Path, crash: bool) -> None:
    """The next start notices, whichever way the last run ended."""
    clock = Clock()
    async with living(tmp_path, clock, crash=crash) as proxy:
        use(proxy, "a", 20)
    clock.wall += 20
    async with living(tmp_path, clock, crash=crash) as proxy:
        assert used(proxy, "a") == {"run": 20 * crash, "day": 0, "ever": 20}
        use(proxy, "a", 1)
    async with living(tmp_path, clock) as proxy:
        assert used(proxy, "a")["day"] == 1


async def test_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used is written by and by, in parts, and what a stream has used too while it goes on."""
    monkeypatch.setattr("hivemind.store.ledger.EVERY_S", 0.001)
    monkeypatch.setattr("hivemind.store.ledger.AGENTS_AT_ONCE", 2)
    async with living(tmp_path, Clock()) as proxy:
        for name in ("b", "c", "d", "e", "f"):
            use(proxy, name, 1)
        use(proxy, "a", 10)
        stream = proxy.engine.arrive(request("a"))
        proxy.engine.first_content(stream, Usage(3, 0, 0, 0))
        proxy.engine.progress([(stream, 1, Usage(3, 0, 0, 1))])
        assert proxy.kept.store is not None
        path, used_up = proxy.kept.store.path, {"": 15, "a": 10, **dict.fromkeys("bcdef", 1)}
        await _written(path, used_up, {"a": 4})
        proxy.engine.succeed(stream, 200, Usage(3, 0, 0, 2))
        await _written(path, used_up | {"": 20, "a": 15}, {})


async def _written(path: Path, *expected: dict[str, int]) -> None:
    """Wait until the file says that, as :func:`_read` returns it."""
    while _read(path) != expected:  # noqa: ASYNC110 - another thread writes it
        await asyncio.sleep(0.001)


def _read(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """The tokens that each agent has used, and that its requests in flight have."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        agents = database.execute("SELECT name, record FROM agents")
        ever = {name: json.loads(text)["own"]["ever"]["tokens"] for name, text in agents}
        rows = database.execute("SELECT agent, record FROM in_flight")
        return ever, {name: json.loads(text)["tokens"] for name, text in rows}


async def test_who_is_forgotten(tmp_path: Path) -> None:
    """An agent is, ninety days after it was seen last, however often the proxy was started and the day turned since."""
    clock = Clock()
    async with living(tmp_path, clock) as proxy:
        use(proxy, "a", 10)
        proxy.apply(cmd.SubmitTasks((TaskSpec("t"),)))
        proxy.apply(cmd.ClaimTask("t"))
        proxy.apply(cmd.FinishTask("t", True))
    for day in range(1, 90, 10):
        clock.wall = EVENING + day * 86400
        async with living(tmp_path, clock) as proxy:
            assert used(proxy, "a")["ever"] == 10
            assert len(proxy.processes.tasks(None)) == (day < 30)
            use(proxy, "b", 1)
    clock.wall = EVENING + 91 * 86400
    async with living(tmp_path, clock) as proxy:
        with pytest.raises(cmd.Rejected):
            used(proxy, "a")
        assert proxy.budgets(None).pool.ever.tokens == 19
        assert used(proxy, "b")["ever"] == 9


async def test_made_up_names_do_not_let_it_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of most only what they add to the pool remains; who has a budget, or used much, is remembered."""
    for name, value in (("KEPT", 10), ("PAST_KEPT", 20), ("_LEFT_ROOM", 5), ("REAP_EVERY_S", 0.0)):
        monkeypatch.setattr(f"hivemind.scheduler.agents.{name}", value)
    async with living(tmp_path, Clock()) as proxy:
        use(proxy, "worker", 1000)
        proxy.apply(cmd.SetBudget("told", 10, per="ever"))
        use(proxy, "told", 5)
        for n in range(300):
            use(proxy, f"made-up-{n}", 1)
            if n % 50 == 0:
                await proxy.engine.settled()
    assert len(_read(tmp_path / "proxy-1.db")) <= 10 + 20 + 20 + 3, "at hand twice as many as are kept at most"
    async with living(tmp_path, Clock()) as proxy:
        assert proxy.budgets(None).pool.ever.tokens == 1305
        assert used(proxy, "worker")["ever"] == 1000
        assert used(proxy, "told")["ever"] == 5
        use(proxy, "made-up-0", 1)
        assert used(proxy, "made-up-0")["ever"] == 1
        assert proxy.budgets(None).pool.ever.tokens == 1306
        _assert_adds_up(proxy)
        assert proxy.budgets(None).others is not None, "the forgotten"
    assert len(_read(tmp_path / "proxy-1.db")) <= 10 + 20 + 20 + 3


async def test_runs_of_processes(tmp_path: Path) -> None:
    """What was started, when, how it ended and what it used; a process that outlives the proxy has one run."""
    clock = Clock(1000.0)
    want = PlaceRequest("a", command=("claude", "-p"), cwd="/tmp", task="t")
    async with living(tmp_path, clock, crash=True) as proxy:
        use(proxy, "a", 100)
        assert proxy.processes.place(want, "r").granted
        use(proxy, "a", 5)
    clock.wall = 2000.0
    async with living(tmp_path, clock) as proxy:
        known = proxy.processes.process("a")
        assert known is not None
        assert (known.command, known.cwd, known.task) == (("claude", "-p"), "/tmp", "t")
        assert proxy.processes.place(replace(want, running=True), "r").granted
        use(proxy, "a", 2)
        assert (await proxy.leave(PlaceRelease("a", -9), "r")).tokens == 7
        clock.wall = 2500.0
        assert proxy.processes.place(PlaceRequest("b", command=("sh",)), "r").granted
        await proxy.engine.settled()
        assert proxy.kept.store is not None
        assert runs_in(proxy.kept.store.path)[1:] == [
            SavedRun(1, "a", ("claude", "-p"), "/tmp", "t", 1000.0, 2000.0, -9, 7)
        ]
        assert [(each.id, each.agent, each.ended_at) for each in runs_in(proxy.kept.store.path)] == [
            (2, "b", None),
            (1, "a", 2000.0),
        ]


async def test_a_runner_that_falls_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent's run has ended too, nobody knows how."""
    async with living(tmp_path, Clock(5.0)) as proxy:
        assert proxy.processes.place(PlaceRequest("a", command=("sh",)), "r").granted
        later = proxy.engine.now() + LEASE_S + 1
        monkeypatch.setattr(proxy.engine, "now", lambda: later)
        proxy.processes.lapse()
        await proxy.engine.settled()
        assert proxy.kept.store is not None
        assert runs_in(proxy.kept.store.path) == [SavedRun(1, "a", ("sh",), "", None, 5.0, 5.0, None)]


async def test_without_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything works, days too; nothing is written anywhere, and who asks is told so."""
    monkeypatch.setattr("hivemind.proxy.engine.SAMPLE_EVERY_S", 0.001)
    clock = Clock()
    proxy = Proxy(settings_for("lab=http://127.0.0.1:9", state_dir=tmp_path), wall=clock)
    await proxy.start()
    proxy.engine.open_lane(LANE, lane_config(slots=50))
    use(proxy, "a", 20)
    clock.wall += 20
    await until(lambda: not used(proxy, "a")["day"])
    assert proxy.processes.place(PlaceRequest("a", command=("sh",)), "r").granted
    await proxy.engine.settled()
    assert proxy.about().state_dir is None
    await proxy.aclose()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("date", "renewed"), [((2026, 11, 30), True), ((2026, 11, 29), False)])
@pytest.mark.parametrize("away", [True, False])
async def test_the_first_of_a_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, date: tuple[int, int, int], renewed: bool, away: bool
) -> None:
    """A budget for the month begins again at its midnight alone, whether the proxy ran or not; restarts keep it."""
    monkeypatch.setattr("hivemind.proxy.engine.SAMPLE_EVERY_S", 0.001)
    clock = Clock()
    clock.wall = time.mktime((*date, 23, 59, 50, 0, 0, -1))
    async with living(tmp_path, clock, crash=True) as proxy:
        proxy.apply(cmd.SetBudget("a", 10, per="month"))
        use(proxy, "a", 20)
    async with living(tmp_path, clock) as proxy:
        assert use(proxy, "a", 1).refusal is not None
        if not away:
            clock.wall += 20
            await until(lambda: not used(proxy, "a")["day"])
    clock.wall += 20 * away
    async with living(tmp_path, clock) as proxy:
        assert (use(proxy, "a", 1).refusal is None) is renewed
        account = proxy.budgets("a").agents[0]
        assert (account.day.tokens, account.month.tokens) == ((1, 1) if renewed else (0, 20))


async def test_a_proxy_that_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No runner could renew its place meanwhile, as on a machine that slept; every run was told as lost then."""
    async with living(tmp_path, Clock(5.0)) as proxy:
        assert proxy.processes.place(PlaceRequest("a", command=("sh",)), "r").granted
        processes, loop, stood_s = proxy.processes, asyncio.get_running_loop(), 2 * LEASE_S
        later = proxy.engine.now() + stood_s
        monkeypatch.setattr(proxy.engine, "now", lambda: later)
        processes._timer.cancel()
        processes._timer = late = loop.call_at(loop.time() - stood_s, processes._check_again)
        await until(lambda: processes._timer is not late)
        assert processes.agents == ("a",)
        assert not processes.lost


async def test_a_clock_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown of the time of day follows, as after a sleep of the machine, and so do deadlines from then on."""
    monkeypatch.setattr("hivemind.proxy.engine.SAMPLE_EVERY_S", 0.001)
    clock = Clock()
    async with living(tmp_path, clock) as proxy:
        clock.wall += 8 * 3600
        await until(lambda: proxy.snapshot().wall >= clock.wall)
        assert proxy.engine.tasks.epoch == pytest.approx(clock.wall - proxy.engine.now(), abs=60)
