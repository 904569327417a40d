"""The cursor stays on whom it is on; a command goes to whoever is looked at."""

from __future__ import annotations

from functools import partial

from tui.kit import SMALLEST, frame, press, room, said, screen, seen, whole_screen
from tui.worlds import FakeSource, busy_source, world

from hivemind.journal.past import Cost
from hivemind.records import replace
from hivemind.scheduler.commands import PauseAgent
from hivemind.world.health import Finding, Verdict
from hivemind.world.snapshot import AgentView, Snapshot
from hivemind_tui.commands import navigation
from hivemind_tui.state.lists import COST_KEYS
from hivemind_tui.state.view import View, ViewBuilder


def with_agent(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    """The same world but for one agent."""
    agents = [replace(agent, **changes) if agent.name == name else agent for agent in snapshot.agents]  # type: ignore[arg-type]
    return replace(snapshot, agents=tuple(agents))


def name_of(agent: AgentView | None) -> str:
    """Its name; empty where there is none."""
    return "" if agent is None else agent.name


def test_the_cursor_stays_on_its_agent_when_the_list_is_sorted_anew() -> None:
    """From when it was moved by hand; before, it stays on top, so that who died or waits for long is in sight."""
    source, gatherer = FakeSource(world()), ViewBuilder()
    top = gatherer.look(navigation.sort_by(View(source.snapshot()), "cost"), source)
    moved = gatherer.look(navigation.move(navigation.move(top, 1), -1), source)
    first = name_of(top.agent)
    assert name_of(moved.agent) == first
    source.become(with_agent(world(), top.agents[3].name, dollars=1e6))
    top, moved = gatherer.look(top, source), gatherer.look(moved, source)
    assert top.agents[0].name != first
    assert top.agent is top.agents[0]
    assert name_of(moved.agent) == first
    assert gatherer.look(navigation.edge(moved, 0), source).agent is top.agents[0]


async def test_a_key_that_acts_on_an_agent_keeps_the_cursor_on_it() -> None:
    """It was first when the key was pressed, whoever has come before it by now: the first such key says whom it chose,
    and changes nothing yet. The order stays for a while, and the panel says so. Other keys leave the list on top."""
    source = busy_source()
    async with screen(source, size=(80, 24)) as pilot:
        first = name_of(room(pilot).view.agent)
        await press(pilot, "p p")
        assert room(pilot).view.selected == ""
        await press(pilot, "h")
        assert f"the cursor stays on {first} now: the same key again changes it" in said(pilot)
        assert PauseAgent(first, True) not in source.applied
        died = room(pilot).view.agents[3].name
        source.become(with_agent(source.snapshot(), died, state="died", running=False, exit_code=3))
        await frame(pilot)
        assert room(pilot).view.agents[3].name == died
        assert "order kept while you choose" in whole_screen(pilot)
        await press(pilot, "h")
        assert source.applied[-1] == PauseAgent(first, True)
        room(pilot)._order_until_s = 0.0
        await frame(pilot)
        assert room(pilot).view.agents[0].name == died
        assert "order kept" not in whole_screen(pilot)
        assert name_of(room(pilot).view.agent) == first


def test_the_cursor_stays_in_its_row_when_its_agent_is_filtered_away() -> None:
    """It is on whatever stands there then, not on the first of all."""
    source, gatherer = FakeSource(world()), ViewBuilder()
    view = gatherer.look(navigation.filtered(View(source.snapshot()), "state:stream"), source)
    view = gatherer.arrange(navigation.move(view, 2))
    gone, after = view.agents[2].name, view.agents[3].name
    assert name_of(view.agent) == gone
    source.become(with_agent(world(), gone, state="idle"))
    view = gatherer.look(view, source)
    assert name_of(view.agent) == after
    assert view.selected == after


def test_the_page_of_an_agent_is_that_agents_whatever_the_list_shows() -> None:
    """A filter that it no longer fits doesn't put another agent in its place, and commands go to it."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(navigation.filtered(View(source.snapshot()), "state:stream"), source)
    view = gatherer.look(navigation.into(navigation.move(view, 1)), source)
    looked_at = name_of(view.agent)
    source.become(with_agent(world(), looked_at, state="idle"))
    view = gatherer.look(view, source)
    assert name_of(view.agent) == looked_at
    assert [agent.name for agent in view.targets] == [looked_at]
    source.become(replace(world(), agents=world().agents[-1:]))
    assert gatherer.look(view, source).agent is None


def test_marks_count_where_they_are_seen() -> None:
    """On the page of one agent, and among requests, a command is for that agent alone; nowhere for one that is gone."""
    source, gatherer = busy_source(), ViewBuilder()
    marked = replace(View(source.snapshot()), marked=frozenset({"alice", "bob", "gone"}), selected="carol")
    view = gatherer.look(marked, source)
    assert view.marked == {"alice", "bob"}
    assert [agent.name for agent in view.targets] == ["alice", "bob"]
    assert [agent.name for agent in gatherer.look(navigation.into(view), source).targets] == ["carol"]
    requests = gatherer.look(navigation.page(view, "requests"), source)
    assert requests.request is not None
    assert [agent.name for agent in requests.targets] == [requests.request.agent]
    one = gatherer.look(navigation.into(navigation.move(requests, 7)), source)
    assert one.request is not None
    assert [agent.name for agent in one.targets] == [one.request.agent]


def test_the_newest_request_is_followed_until_one_is_chosen() -> None:
    """At first the cursor is on whatever is newest; a chosen request keeps it, wherever in the list it is."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(navigation.page(View(source.snapshot()), "requests"), source)
    assert view.request is not None
    newest = view.request
    source.remembered, source.revision = (replace(newest, ticket=newest.ticket + 1),), 2
    view = gatherer.look(view, source)
    assert view.request is not None
    assert view.request.ticket == newest.ticket + 1
    view = gatherer.arrange(navigation.move(view, 3))
    assert view.request is not None
    chosen = view.request.ticket
    source.remembered, source.revision = (replace(newest, ticket=newest.ticket + 2),), 3
    view = gatherer.look(navigation.sort_by(view, "took"), source)
    assert view.request is not None
    assert view.request.ticket == chosen


def test_a_request_that_is_forgotten_is_no_other() -> None:
    """Its page doesn't show another one's instead."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(navigation.page(View(source.snapshot()), "requests"), source)
    view = gatherer.look(navigation.into(navigation.move(view, 5)), source)
    view = gatherer.look(navigation.filtered(replace(view, trail=("requests",)), "nothing fits"), source)
    view = gatherer.look(replace(view, trail=("requests", "request")), source)
    assert view.request is not None
    assert view.request.ticket == view.ticket
    assert replace(view, ticket=99_999).request is None


async def test_a_filter_that_is_dropped_leaves_the_cursor_where_it_was() -> None:
    """Looking for something and giving up changes nothing."""
    async with screen(busy_source()) as pilot:
        await press(pilot, "j j / b o")
        assert room(pilot).view.selected == "bob"
        await press(pilot, "escape")
        assert room(pilot).view.selected == "carol"
        await press(pilot, "/ b o enter escape")
        assert room(pilot).view.selected == "bob"


async def test_an_agent_is_told_of_only_where_a_request_is_chosen() -> None:
    """While the list follows the newest request a key would be for whoever asked last; nothing is done, and said so."""
    source = busy_source()
    async with screen(source) as pilot:
        for keys in ("3 +", "h", "B"):
            await press(pilot, keys)
            assert "choose one" in said(pilot)[0]
        assert source.applied == []
        await press(pilot, "j h")
        request = room(pilot).view.request
        assert request is not None
        assert source.applied == [PauseAgent(request.agent, True)]
        assert said(pilot) == [f"{request.agent}: held"]
        await press(pilot, "x")
        assert f"Stop {request.agent}, or all spending?" in seen(pilot, "overlay")


TROUBLE: dict[str, dict[str, object]] = {
    "crashed": {"state": "died", "running": False, "exit_code": 3},
    "crashed before": {"state": "idle", "running": False, "exit_code": 3},
    "lost": {"state": "ended", "running": False, "exit_code": None},
    "refused": {"state": "refused"},
    "unlucky": {"state": "idle", "failed": 1},
}
FINE: dict[str, dict[str, object]] = {
    "quiet": {"state": "idle", "last_error": "529 overloaded_error"},
    "asked": {"state": "ended", "running": False, "exit_code": -15},
    "over": {"state": "ended", "running": False, "exit_code": 0},
}


async def test_the_next_in_trouble_is_found_wherever_it_stands() -> None:
    """By what became of its process too; who ended well or because somebody asked for it is passed by."""
    usual = replace(world().agents[7], running=None, failed=0, last_error="")
    crew = [replace(usual, name=name, **changes) for name, changes in (TROUBLE | FINE).items()]  # type: ignore[arg-type]
    async with screen(FakeSource(replace(world(), agents=tuple(crew))), size=(120, 30)) as pilot:
        await press(pilot, "2 s end")
        found = set()
        for _ in range(2 * len(crew)):
            await press(pilot, "!")
            found.add(room(pilot).view.selected)
    assert found == set(TROUBLE)


def test_the_slowest_is_one_that_is_under_way() -> None:
    """Of agents, requests and tasks: what is in flight or waits before all that took longer and is over, and what hangs
    before that; what is over where nothing else is there."""
    source, gatherer = busy_source(), ViewBuilder()
    view = gatherer.look(View(source.snapshot(), trail=("requests",)), source)
    slowest = navigation.jump(view, "slowest")
    assert slowest is not None
    assert slowest.request is not None
    longest = max(view.listed, key=lambda each: each.duration_s(view.snapshot.at) or 0.0)
    now = [each for each in view.listed if not each.over]
    assert slowest.request is max(now, key=lambda each: each.duration_s(view.snapshot.at) or 0.0)
    over = replace(
        longest, ticket=900, arrived_at=longest.arrived_at - 1e4, ended_at=view.snapshot.at, state="answered"
    )
    slowest = navigation.jump(replace(view, requests_shown=(over, *now)), "slowest")
    assert slowest is not None
    assert slowest.ticket in {each.ticket for each in now}
    hung = replace(now[-1], ticket=901, arrived_at=view.snapshot.at - 1.0, state="hung")
    assert navigation.jump(replace(view, requests_shown=(over, *now, hung)), "slowest").ticket == 901  # type: ignore[union-attr]
    assert navigation.jump(replace(view, requests_shown=(over,)), "slowest").ticket == 900  # type: ignore[union-attr]

    usual = replace(world().agents[7], in_flight=0, queued=0, waiting_s=0.0, finished=1, served_s=1e4)
    crew = (usual, replace(usual, name="waits", queued=1, waiting_s=3.0, served_s=0.0))
    agents = View(replace(world(), agents=crew, slots=(), queue=()), trail=("agents",))
    assert navigation.jump(agents, "slowest").selected == "waits"  # type: ignore[union-attr]


def test_the_first_in_trouble_is_not_passed_by() -> None:
    """The cursor is on it while it follows the list, so that the first jump stays there and the next goes on."""
    usual = replace(world().agents[7], running=None, failed=0, refused=0, last_error="", state="idle")
    crew = tuple(
        replace(usual, name=name, state=state) for name, state in (("a", "hung"), ("b", "hung"), ("c", "idle"))
    )
    view, found = View(replace(world(), agents=crew), trail=("agents",)), []
    for _ in range(3):
        jumped = navigation.jump(view, "failing")
        assert jumped is not None
        found.append(jumped.selected)
        view = jumped
    assert found == ["a", "b", "a"]


async def test_a_jump_to_nothing_is_told() -> None:
    """The key isn't dead: it says that nothing of the kind is listed, and what holds all up where something does."""
    usual = replace(world().agents[7], running=None, failed=0, refused=0, last_error="", state="idle")
    held = Verdict("blocked", (Finding("blocked", "requests", "requests a minute used up"),))
    for verdict, also in ((Verdict(), ""), (held, "; blocked: requests a minute used up")):
        source = FakeSource(replace(world(), agents=(usual,), verdict=verdict))
        async with screen(source, size=(80, 24)) as pilot:
            await press(pilot, "2 !")
            assert f"nothing in trouble is listed here{also}" in said(pilot)


def test_trouble_in_a_folded_tree_is_found_at_its_top() -> None:
    """Of an agent that is hidden, the one above it that is shown; unfolded, itself."""
    usual = replace(world().agents[7], running=None, failed=0, last_error="", state="idle")
    above = {"top": None, "mid": "top", "leaf": "mid", "fine": None, "under": "fine"}
    crew = [replace(usual, name=name, parent=parent) for name, parent in above.items()]
    crew[2] = replace(crew[2], state="died", exit_code=1)
    source = FakeSource(replace(world(), agents=tuple(crew)))
    view = View(source.snapshot(), trail=("agents",), folded=frozenset({"top", "fine"}), selected="fine")
    for folded, found in ((view.folded, "top"), (frozenset[str](), "leaf")):
        jumped = navigation.jump(ViewBuilder().look(replace(view, folded=folded), source), "failing")
        assert jumped is not None
        assert jumped.selected == found


async def test_the_card_shows_the_row_under_the_cursor_in_each_frame() -> None:
    """Whatever order the list has taken since the last one, and whatever key was pressed between."""
    names = [agent.name for agent in world().agents]
    source = FakeSource(world())
    async with screen(source, size=(160, 45)) as pilot:
        await press(pilot, "2")
        for step, key in enumerate(["j", "j", "k", "G", "k", "s", "S", "j", "!", "g", "T", "j"]):
            dead, late = names[step % len(names)], names[(3 * step + 1) % len(names)]
            changed = with_agent(world(), dead, state="died", exit_code=3, in_flight=0, queued=0)
            source.become(with_agent(changed, late, waiting_s=20.0 * step, dollars=9.0 * step))
            for look in (frame, partial(press, keys=key)):
                await look(pilot)
                (row,) = [row for row in seen(pilot, "agents-all").splitlines() if "▌" in row]
                begins, _, ends = row.split("▌")[1].split()[0].partition("…")
                assert seen(pilot, "agent-card").startswith(f"╭─ Agent {begins}"), (step, key)
                name = name_of(room(pilot).view.agent)
                assert name.startswith(begins)
                assert name.endswith(ends)


async def test_the_log_stays_where_it_is_read() -> None:
    """New lines below push it up by as many rows."""
    source = busy_source()
    async with screen(source, SMALLEST) as pilot:
        await press(pilot, "5 k k k")
        read, now = room(pilot).view.event, source.snapshot()
        newer = replace(now.lines[-1], at=now.lines[-1].at + 1, text="something else")
        source.become(replace(now, lines=(*now.lines[1:], newer)))
        await frame(pilot)
        view = room(pilot).view
        assert (view.log_back, view.event) == (4, read)


def test_a_row_of_costs_leads_to_its_agent() -> None:
    view = View(world(), trail=("cost",), costs=(Cost("bob"), Cost("gone")))
    assert (navigation.into(view).trail, navigation.into(view).selected) == (("cost", "agent"), "bob")
    assert navigation.into(replace(view, spender="gone")) == replace(view, spender="gone")
    assert navigation.columns(view) == (*COST_KEYS,)
    assert navigation.edge(replace(view, trail=("requests",), ticket=5), 0).ticket == 0
    assert navigation.everywhere(view).everywhere
    assert navigation.sort_by(view, "cost").order.reverse is False
