"""The fleet on the screen, and as a source: what it shows, and what it has carried out where."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import redis_server
from fleet.fleets import fleet
from fleet.members import Proxy, lease, member, present
from tui.kit import press, room, screen, text
from tui.worlds import FakeSource, world
from waiting import until
from world.kit import arrived, commanded, first_content, granted, sampled, state, told

from hivemind.errors import UsageError
from hivemind.fleet import watcher
from hivemind.records import replace
from hivemind.scheduler.commands import Conflict, PauseAgent, PinLevel, Rejected
from hivemind.settings.write import Draft
from hivemind.world.fleet import Fleet, gathered
from hivemind.world.snapshot import Snapshot
from hivemind_tui.commands import navigation
from hivemind_tui.commands.actions import text_to_copy
from hivemind_tui.panels import agent_page, agent_table, connect, fleet_page, header, log
from hivemind_tui.program.main import parse
from hivemind_tui.render.pen import Pen
from hivemind_tui.sources.fleet import FleetSource, attached_to_fleet
from hivemind_tui.state.view import View, ViewBuilder
from hivemind_tui.widgets.line_table import Render

EVIL = "a\x1b[2J\n\t宽い" * 6
SIZES = {"160x45": (160, 42), "80x24": (80, 21)}


def looked(known: Fleet, page: str = "fleet", snapshot: Snapshot | None = None, **about: object) -> View:
    """The page of that fleet, a while after its proxies were started."""
    found = snapshot or world()
    view = View(replace(found, wall=1_700_009_000.0), trail=(page,), fleet=known, **about)  # type: ignore[arg-type]
    return ViewBuilder().arrange(view)


def spread(**machines: tuple[str, ...]) -> Snapshot:
    """The world, agents by name on these machines, the others on the laptop."""
    full = world()
    agents = tuple(replace(agent, machines=machines.get(agent.name, ("laptop",))) for agent in full.agents)
    lines = tuple(replace(line, machine=("laptop", "ci-runner-2")[n % 2]) for n, line in enumerate(full.lines))
    return replace(full, agents=agents, lines=lines)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_page_looks_as_agreed(size: str, count: int, golden: Callable[[str, str], None]) -> None:
    """The proxies, who took what of the key, and the selected proxy closer; what doesn't fit is counted."""
    width, height = SIZES[size]
    view = looked(fleet(count, keys=2))
    golden(f"fleet_{count}_{size}", text(fleet_page.render(view, width, height, Pen(boxed=width > 100))))


def test_a_store_that_is_away(golden: Callable[[str, str], None]) -> None:
    """This proxy knows its own state; of the others nothing is heard, so none of them is called silent."""
    known = fleet(3, away="the fleet's store redis://10.0.0.5:6379 doesn't answer", state="safe")
    golden("fleet_away", text(fleet_page.render(looked(known), 100, 24, Pen(boxed=False))))
    assert [known.state_of(each) for each in known.members] == ["unknown", "unknown", "safe"]


def test_trouble(golden: Callable[[str, str], None]) -> None:
    """A proxy on its safe share, one that is silent, one that drains, and one that joins."""
    known = fleet(4)
    states = [{"state": "safe"}, {}, {}, {"state": "joining", "lease_age_s": None, "slots": 0.0}]
    members = [
        replace(each, lanes=tuple(replace(lane, **change) for lane in each.lanes))  # type: ignore[arg-type]
        for each, change in zip(known.members, states, strict=True)
    ]
    members[1] = replace(members[1], seen_s=4.2)
    members[2] = replace(members[2], mode="draining")
    known = gathered(members, store=known.store, me=members[0].id)
    golden("fleet_trouble", text(fleet_page.render(looked(known), 160, 42, Pen())))


def test_without_a_fleet_it_says_how_to_get_one() -> None:
    """In its first line; below it what a fleet is, on the smallest screen too."""
    small = text(fleet_page.render(looked(Fleet()), 80, 21, Pen(boxed=False)))
    assert "hivemind-tui --fleet redis://HOST" in small
    assert all(f"{title} " in small for title in ("what", "gains", "start", "look", "failure"))
    rows = text(fleet_page.render(looked(Fleet()), 120, 20, Pen()))
    assert "In no fleet. Proxies that share a key join one" in rows
    assert "hivemind-tui --fleet redis://HOST" in rows
    assert text(header.render(looked(Fleet()), 160, 2, Pen())).count("leet") == 1  # the page's name


def test_without_proxies_or_keys_it_says_so() -> None:
    """A store that was just emptied, and a proxy without requests."""
    empty = Fleet(store="redis://h")
    assert "No proxy of the fleet is there" in text(fleet_page.render(looked(empty), 100, 20, Pen()))
    empty = Fleet(store="redis://h", away="it doesn't answer")
    assert "it doesn't answer" in text(fleet_page.render(looked(empty), 100, 20, Pen()))
    idle = gathered([member("a")], store="redis://h", me="a-1")
    assert "a lane opens with the first request" in text(fleet_page.render(looked(idle), 100, 20, Pen()))


@pytest.mark.parametrize("renders", [fleet_page.render, fleet_page.render_key, header.render])
def test_any_text_and_any_size_fits(renders: Render) -> None:
    """Whatever other machines are called, rows are as wide as asked."""
    strange = [
        replace(each, machine=EVIL, address=EVIL, version=EVIL, mode=EVIL, pid=10**9, in_flight=10**9)
        for each in fleet(4).members
    ]
    bent = tuple(
        replace(each, lanes=tuple(replace(lane, shown=EVIL, state=EVIL, windows=()) for lane in each.lanes))
        for each in strange[:2]
    )
    known = replace(gathered([*bent, *strange[2:]], store=EVIL, me="00000000", away=EVIL), state=EVIL)
    for width, height in ((1, 1), (12, 5), (60, 3), (80, 21), (160, 42)):
        rows = renders(looked(known), width, height, Pen(boxed=height % 2 == 1))
        assert [row.cell_length for row in rows] == [width] * height


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("leased", "● fleet of 3"),
        ("learning", "◐ fleet of 3 learning"),
        ("safe", "▲ store away, SAFE SHARE"),
        ("alone", "✕ ALONE, without the fleet"),
        ("joining", "◌ joining the fleet"),
        ("trouble", "fleet of 3, 1 in trouble"),
    ],
)
def test_the_header_has_the_fleets_state(state: str, shown: str) -> None:
    """At eighty columns too; other proxies in trouble, which this one may not feel, where there is more room."""
    known = fleet()
    if state == "trouble":
        members = [known.members[0], replace(known.members[1], seen_s=5.0), known.members[2]]
        known = gathered(members, store=known.store, me=known.members[2].id)
    else:
        known = replace(known, state=state)
    assert shown in text(header.render(looked(known, "overview"), 160 if state == "trouble" else 80, 2, Pen()))


def test_agents_of_all_machines_have_a_column_for_them(golden: Callable[[str, str], None]) -> None:
    """One that runs on several names them all."""
    view = looked(fleet(), "agents", spread(bob=("ci-runner-2",), carol=("laptop", "ci-runner-2")), everywhere=True)
    golden("agents_everywhere", text(agent_table.render(view, 140, 20, Pen())))
    assert "MACHINE" not in text(agent_table.render(looked(fleet(), "agents"), 140, 20, Pen()))


def test_lines_of_all_machines_say_where() -> None:
    """In the log, and for its filter."""
    view = looked(fleet(), "log", spread(), log_filter="machine:ci")
    rows = text(log.render(view, 120, 20, Pen()))
    assert rows.count("ci-runner-2") == 15
    assert "laptop" not in rows


def test_a_proxy_whose_agents_arent_known_says_so() -> None:
    """Its snapshot comes within a second."""
    view = navigation.edge(looked(fleet(), snapshot=spread()), 0)
    inside = ViewBuilder().arrange(navigation.into(view))
    assert "build-server.example.net has no agent" in text(agent_table.render(inside, 120, 20, Pen()))


def test_lines_to_copy_name_the_proxy_that_serves_the_agent() -> None:
    """Never the store, which is no address for an agent."""
    whole = replace(fleet(), me="")
    at_store = replace(spread(bob=("ci-runner-2",)), address=whole.store)
    view = replace(looked(whole, "agents", at_store), selected="bob")
    assert "http://10.0.0.12:8765/agent/bob" in text_to_copy(view)
    card = text(agent_page.render_card(view, 50, 42, Pen()))
    assert "http://10.0.0.12:8765/agent/bob" in card
    assert text_to_copy(looked(whole)) == "http://10.0.0.13:8765"
    assert "redis" not in text(connect.render(looked(whole, "start", at_store), 100, 40, Pen()))
    assert text_to_copy(looked(Fleet(), "agents")).endswith("http://127.0.0.1:8765/agent/alice")


def test_tab_turns_to_the_next_key_and_steers_its_lane() -> None:
    """Only a lane that this screen knows can be steered."""
    known, full = fleet(keys=2), world()
    named = replace(full.lanes[0], state=replace(full.lanes[0].state, lane="openai:99aa88bb"))
    view = looked(known, snapshot=replace(full, lanes=(named,)))
    assert (view.key, view.lane) == (known.lanes[0], None)
    view = replace(view, lane_index=1)
    assert (view.key, view.lane) == (known.lanes[1], named)


async def test_the_page_on_a_screen() -> None:
    """Keys lead to a proxy's agents and back, and steer them; the footer says how."""
    source = FakeSource(world())
    source.its_fleet = fleet()
    source.everywhere = spread(bob=("ci-runner-2",), dave=("ci-runner-2",)).agents
    async with screen(source, size=(160, 45)) as pilot:
        await press(pilot, "7 k enter")
        view = room(pilot).view
        assert (view.trail, view.machine) == (("fleet", "agents"), "ci-runner-2")
        assert [agent.name for agent in view.agents] == ["bob", "dave"]
        await press(pilot, "j k h")
        assert source.applied == [PauseAgent("bob", True)]
        await press(pilot, "escape")
        assert room(pilot).view.trail == ("fleet",)
        await press(pilot, "a")
        assert not any(isinstance(each, PinLevel) for each in source.applied)


WHO = {"USER": "ann"}


def proxy(machine: str, agent: str) -> Proxy:
    """One request streams, one waits."""
    world = told(
        *(arrived(1, agent), granted(1, agent), first_content(1, agent)),
        arrived(2, agent, at=2.0),
        sampled(4.0, state()),
    )
    return Proxy(member(machine, lease()), world.snapshot(5.0))


@contextlib.asynccontextmanager
async def attached(*proxies: Proxy) -> AsyncIterator[tuple[FleetSource, redis_server.RedisServer]]:
    with redis_server.running() as server:
        async with present(server.url, proxies), attached_to_fleet(server.url, WHO) as source:
            yield source, server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is read often."""
    monkeypatch.setattr(watcher, "EVERY_S", 0.01)
    monkeypatch.setattr(watcher, "SHOWN_S", 0.0)


async def test_all_machines_stand_in_one_room() -> None:
    """Agents, open requests and the fleet, from the first frame on."""
    async with attached(proxy("a", "ann"), proxy("b", "bob")) as (source, server):
        await until(lambda: len(source.snapshot().agents) == 2)
        world = source.snapshot()
        assert {agent.name: agent.machines for agent in world.agents} == {"ann": ("a",), "bob": ("b",)}
        assert source.agents_everywhere() == world.agents
        requests = source.requests()
        assert source.requests() is requests or source.snapshot() is not world
        assert sorted((each.agent, each.state) for each in requests) == [
            *(("ann", "queued"), ("ann", "streaming")),
            *(("bob", "queued"), ("bob", "streaming")),
        ]
        assert (source.link.kind, source.link.where, source.link.lost_for_s) == (
            "fleet",
            f"redis://127.0.0.1:{server.port}",
            None,
        )
        view = ViewBuilder().look(View(world), source)
        row = "".join(segment.text for segment in header.render(view, 160, 2, Pen())[0])
        assert "fleet of 2" in row
        assert "attached" in row


async def test_agents_are_steered_where_they_live() -> None:
    """And the line about it is the operator's own."""
    here, there = proxy("a", "ann"), proxy("b", "bob")
    async with attached(here, there) as (source, _):
        await source.apply(PauseAgent("bob", True))
        ((command, who),) = there.applied
        assert (command, here.applied) == (PauseAgent("bob", True), [])
        assert who.startswith("ann@")
        world = told(arrived(1, "bob"), commanded("PauseAgent", who=who, agent="bob", paused=True)).snapshot(5.0)
        there.world = replace(world, wall=there.world.wall)
        await until(lambda: any(line.tag == "you" and line.machine == "b" for line in source.snapshot().lines))
        with pytest.raises(Conflict, match="no proxy of the fleet knows 'eve'"):
            await source.apply(PauseAgent("eve", True))


async def test_what_only_a_proxys_own_screen_has() -> None:
    """Its settings file, and the details of a request."""
    async with attached(proxy("a", "ann")) as (source, _):
        assert await source.detail(1) is None
        for wanted in (source.draft({}), source.write(Draft(Path("x"), "", ""))):
            with pytest.raises(Rejected, match="settings file of its own"):
                await wanted


async def test_a_store_that_goes_away_is_told() -> None:
    """What was known stays, marked as outdated."""
    async with attached(proxy("a", "ann")) as (source, server):
        await until(lambda: source.snapshot().agents)
        server.kill()
        await until(lambda: source.snapshot() and "isn't there" in source.link.why)
        assert source.link.lost_for_s is not None
        assert source.snapshot().agents


async def test_an_empty_store_shows_an_empty_room() -> None:
    """At once."""
    async with asyncio.timeout(60), attached() as (source, _):
        assert source.snapshot().agents == ()
        assert source.requests() == ()
        assert source.fleet().members == ()


def test_the_flag_knows_a_stores_url(tmp_path: Path) -> None:
    """A proxy's token is of no use there; a proxy's URL stays one."""
    options = parse(["--attach", "redis://host:7000/1"], {}, tmp_path)
    assert options.remote is not None
    assert options.remote.store
    options = parse(["--attach", "http://host:7000"], {}, tmp_path)
    assert options.remote is not None
    assert not options.remote.store
    with pytest.raises(UsageError, match="--token-file"):
        parse(["--attach", "unix:///run/redis.sock", "--token-file", "x"], {}, tmp_path)
