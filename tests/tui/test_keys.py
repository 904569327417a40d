"""Every key, pressed on a screen: what it sends, where it leads, what it asks."""

from __future__ import annotations

from collections.abc import Callable

from tui.kit import SMALLEST, afresh, press, room, said, screen, seen, settle, wait_until
from tui.worlds import LANE, FakeSource, busy_source, empty_world, world

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority
from hivemind.world.verdict import judged
from hivemind_tui.keys.keymap import KEYS
from hivemind_tui.state.view import View
from hivemind_tui.widgets.overlay import Palette

UPSTREAM = "anthropic"

COMMANDS: dict[str, list[cmd.Command]] = {
    "+": [],
    "b h": [cmd.PauseAgent("alice", True)],
    "+ +": [cmd.SetPriority("alice", Priority.HIGH)],
    "- -": [cmd.SetPriority("alice", Priority.LOW)],
    "j k b": [cmd.BoostAgent("alice", 60.0)],
    "j k h": [cmd.PauseAgent("alice", True)],
    "x y": [],
    "x p": [cmd.PauseAdmissions(True)],
    "j k x y": [cmd.StopAgent("alice", True)],
    "j k x n": [],
    "X r": [cmd.CutRequest("alice", 1)],
    "X c": [cmd.CutRequest("alice", 1, retry=False)],
    "X escape": [],
    "B 5 0 k enter": [cmd.SetBudget("alice", 50_000)],
    "B 5 escape": [],
    "space space B 5 k enter": [cmd.SetBudget("alice", 5_000), cmd.SetBudget("bob", 5_000)],
    "B 5 0 1 left backspace right k enter": [cmd.SetBudget("alice", 51_000)],
    "4 + - x b h": [],
    "4 ] escape 5 h x": [cmd.Tune("max_concurrency", 13, UPSTREAM)],
    "2 j enter +": [cmd.SetPriority("bob", Priority.CRITICAL)],
    "space 2 j enter h": [cmd.PauseAgent("carol", True)],
    ": b u d g e t space 5 0 k enter": [cmd.SetBudget("alice", 50_000)],
    ": p i n space 4 enter": [cmd.PinLevel(4.0, LANE)],
    ": a i m d . b e t a enter 0 . 6 enter": [cmd.Tune("aimd.beta", 0.6, UPSTREAM)],
    "j +": [cmd.SetPriority("bob", Priority.CRITICAL)],
    "end h": [cmd.PauseAgent("judy", False)],
    "home down down up h": [cmd.PauseAgent("bob", True)],
    "pagedown h": [cmd.PauseAgent("judy", False)],
    "space space h": [cmd.PauseAgent("alice", True), cmd.PauseAgent("bob", True)],
    "/ a l i enter @mark_all x y": [cmd.StopAgent("alice", True)],
    "[": [cmd.Tune("max_concurrency", 11, UPSTREAM)],
    "]": [cmd.Tune("max_concurrency", 13, UPSTREAM)],
    "a": [cmd.PinLevel(8.0, LANE)],
    "@note n e w space p l a n enter": [cmd.AddNote("new plan")],
    "@note escape": [],
    "p": [cmd.PauseAdmissions(True)],
    "r": [cmd.ReleaseLane(LANE)],
    "c a": [cmd.SetCircuit("auto", LANE)],
    "c o": [cmd.SetCircuit("open", LANE)],
    "c c": [cmd.SetCircuit("closed", LANE)],
    "c h": [cmd.SetCircuit("probe", LANE)],
    "c escape": [],
    "c K": [],
    "c tab": [],
    "D y": [cmd.Drain(True)],
    "p u": [cmd.PauseAdmissions(True), cmd.PauseAdmissions(False)],
    "4 right": [cmd.Tune("max_concurrency", 13, UPSTREAM)],
    "4 left": [cmd.Tune("max_concurrency", 11, UPSTREAM)],
    "4 j j j @turn_far_up": [cmd.Tune("aimd.alpha", 1.5, UPSTREAM)],
    "4 j j j j @turn_far_down": [cmd.Tune("aimd.beta", 0.05, UPSTREAM)],
    "4 j j j j enter 0 . 7 enter": [cmd.Tune("aimd.beta", 0.7, UPSTREAM)],
    "4 enter 8 enter u": [cmd.Tune("max_concurrency", 8, UPSTREAM), cmd.Tune("max_concurrency", 12.0, UPSTREAM)],
    ": f r e e z e space a l l enter": [cmd.PauseAdmissions(True)],
}


async def test_keys_send_their_commands() -> None:
    """Each key sends what it stands for, to the lane in sight and the agents that were chosen, and asks before anything
    is lost. Where none was chosen, the first key that changes an agent only chooses the one under the cursor."""
    source = FakeSource(world())
    async with screen(source, SMALLEST) as pilot:
        async for keys in afresh(pilot, COMMANDS):
            assert source.applied == COMMANDS[keys], keys
            source.applied.clear()


def bottom(view: View) -> str:
    """The tag of the log's row that the cursor is on."""
    return view.log_rows[-1 - view.log_back].line.tag


PLACES: dict[str, Callable[[View], bool]] = {
    "2": lambda view: view.page == "agents",
    "2 @pin_agent": lambda view: view.pinned == {"alice"},
    "2 space j space @pin_agent": lambda view: view.pinned == {"alice", "carol"},
    "3": lambda view: view.page == "requests",
    "4": lambda view: view.page == "tuning",
    "5": lambda view: view.page == "log",
    "0": lambda view: view.page == "start",
    "7": lambda view: view.page == "fleet",
    "@everywhere": lambda view: not view.everywhere,
    "2 1": lambda view: view.page == "overview",
    "2 j enter": lambda view: view.trail == ("agents", "agent") and view.selected == "bob",
    "2 enter enter": lambda view: view.trail == ("agents", "agent", "request") and view.request is not None,
    "3 j j enter": lambda view: view.page == "request" and view.ticket == 58,
    "3 escape": lambda view: view.page == "overview",
    "2 / b o": lambda view: [agent.name for agent in view.agents] == ["bob"],
    "2 / b o enter escape": lambda view: len(view.agents) == 11,
    "2 / s t a t e : r e t r y enter": lambda view: [agent.name for agent in view.agents] == ["erin"],
    "2 / ! a g : a enter": lambda view: 1 < len(view.agents) == sum("a" not in agent.name for agent in view.agents),
    "2 / x y z backspace backspace backspace": lambda view: len(view.agents) == 11,
    "2 s": lambda view: [a.name for a in view.agents] == sorted(a.name for a in view.agents),
    "2 s @reverse": lambda view: [a.name for a in view.agents] == sorted((a.name for a in view.agents), reverse=True),
    "2 @dearest": lambda view: view.agent is not None and view.agent.dollars == max(a.dollars for a in view.agents),
    "2 @slowest": lambda view: view.agent is not None and view.agent.served_s > 0,
    "2 !": lambda view: view.selected == "erin",
    "3 !": lambda view: view.request is not None and view.request.state in ("failed", "refused", "retry"),
    "3 @dearest": lambda view: view.request is not None and (view.request.dollars or 0) > 0.2,
    "3 / f a i l e d enter": lambda view: {request.state for request in view.listed} == {"failed"},
    "5 @filter_log 4 2 9 enter": lambda view: view.log_filter == "429",
    "5 / 4 2 9 enter": lambda view: view.log_search == "429" and "429" in bottom(view),
    "5 / 4 2 9 enter n n N": lambda view: "429" in bottom(view),
    "5 / 4 2 9 enter escape": lambda view: not view.log_search,
    "5 @severity": lambda view: view.log_severity == 1,
    "5 k k": lambda view: view.log_back == 2,
    "5 k k j": lambda view: view.log_back == 1,
    "5 home": lambda view: view.log_back == 29,
    "5 pageup": lambda view: view.log_back == 10,
    "5 pageup escape": lambda view: view.page == "log" and not view.log_back,
    "3 j j home": lambda view: view.ticket == 0,
    "2 / q q q enter space": lambda view: not view.marked,
    "2 @fold": lambda view: not view.folded,
    "4 end": lambda view: view.knob == "retry.budget_ratio",
    "4 home": lambda view: view.knob == "max_concurrency",
    "3 enter j j k": lambda view: view.scroll == 1,
    "0 j j": lambda view: view.scroll == 2,
    "0 end": lambda view: view.scroll == 5,
    "space": lambda view: view.marked == {"alice"} and view.selected == "bob",
    "@mark_all": lambda view: len(view.marked) == 11,
    "space escape": lambda view: not view.marked,
    "v": lambda view: view.frozen,
    "tab": lambda view: view.lane_index == 1,
    "tab @lane_back": lambda view: view.lane_index == 0,
}


async def test_keys_lead_where_they_say() -> None:
    """Each key that only looks leads to its page, row, order or filter, and sends nothing."""
    source = busy_source()
    async with screen(source, SMALLEST) as pilot:
        async for keys in afresh(pilot, PLACES):
            assert PLACES[keys](room(pilot).view), keys
        assert source.applied == []


def test_every_key_is_pressed_here() -> None:
    """No key of the table is left out of these tests, but for those of a replay and of what-if, which have others."""
    elsewhere = {"quit", "help", "demo", "write", "acknowledge", "apply", "tasks", "find_newer", "span", "go_to"}
    typing = {"/", ":", "B"}
    pressed = set(typing)
    for keys in (*COMMANDS, *PLACES):
        pressed |= set(keys.split()) if not typing & set(keys.split()) else set()
    names = {"+": "plus", "-": "minus", "/": "slash", "[": "left_square_bracket", "]": "right_square_bracket"}
    names |= {":": "colon", "!": "exclamation_mark"}
    pressed = {names.get(key, key) for key in pressed}
    missing = {key.id for key in KEYS if key.keys and not pressed & set(key.keys.split(","))}
    assert missing - {key.id for key in KEYS if key.live is False or key.id == "what_if"} == elsewhere


async def test_keys_that_give_back() -> None:
    """The keys that switch something off switch it on again."""
    full = world()
    lane = full.lanes[0]
    agent = replace(full.agents[0], held=True, state="held", stopped=True, boosted_for_s=9.0)
    pinned = replace(lane, state=replace(lane.state, pinned=True))
    source = FakeSource(judged(replace(full, mode="paused", agents=(agent,), lanes=(pinned,))))
    async with screen(source) as pilot:
        await press(pilot, "p h a x b")
        assert source.applied == [
            cmd.PauseAdmissions(False),
            cmd.PauseAgent("alice", False),
            cmd.PinLevel(None, LANE),
            cmd.StopAgent("alice", False),
            cmd.BoostAgent("alice", 0.0),
        ]
        assert "PAUSED nothing new is sent" in seen(pilot, "header")
        source.become(replace(full, mode="draining"))
        await wait_until(pilot, lambda: room(pilot).view.snapshot.mode == "draining")
        await press(pilot, "D")
        assert source.applied[-1] == cmd.Drain(False)
        await press(pilot, "u u")
        assert source.applied[-1] == cmd.Drain(True), "after a question, because it stops traffic"


async def test_a_rejected_command_is_a_toast() -> None:
    """What the source refuses, and what makes no sense, is said in one line; nothing else happens. An empty proxy
    greets with how to connect, up to the first request."""
    source = FakeSource(empty_world(), reject="the ceiling is [fixed]\x1b")
    async with screen(source, SMALLEST) as pilot:
        assert room(pilot).view.page == "start"
        source.become(world())
        await wait_until(pilot, lambda: room(pilot).view.page == "overview")
        await press(pilot, "]")
        assert said(pilot) == ["the ceiling is [fixed]·"]
        source.become(empty_world())
        source.reject = ""
        await wait_until(pilot, lambda: not room(pilot).view.snapshot.agents)
        found: set[str] = set()
        for keys in ("+", "h", "[", "a", "r", "b", "u", "4 left", "W", "0 /", "0 d", "@acknowledge"):
            await press(pilot, keys)
            (note,) = said(pilot)
            found.add(note)
        assert len(found) == 7
        assert source.applied == []
        await press(pilot, "1 B 5 M enter")
        assert source.applied == [cmd.SetBudget(None, 5_000_000)]


async def test_two_quick_presses_are_two_steps() -> None:
    """An intent is worked out when its turn comes: the second step starts where the first one ended."""
    full = world()
    source = FakeSource(full)

    def now() -> object:
        steps = sum(1 for command in source.applied if isinstance(command, cmd.Tune))
        lane = full.lanes[0]
        return replace(full, lanes=(replace(lane, state=replace(lane.state, ceiling=12.0 + steps)),))

    source.become(now)  # type: ignore[arg-type]
    async with screen(source) as pilot:
        await pilot.press("]", "]", "]")
        await wait_until(pilot, lambda: len(source.applied) == 3)
        assert [command.value for command in source.applied if isinstance(command, cmd.Tune)] == [13, 14, 15]


async def test_what_was_tuned_is_written_after_a_look() -> None:
    """W shows the difference; y writes what was turned here, not what changed by itself; then it is no longer new."""
    source = FakeSource(world())

    def tuned() -> object:
        beta = next((c.value for c in reversed(source.applied) if isinstance(c, cmd.Tune)), 0.5)
        lane = world().lanes[0]
        knobs = {**lane.state.knobs, "aimd.beta": beta, "rpm": 0.0 if source.applied else 50.0}
        return replace(world(), lanes=(replace(lane, state=replace(lane.state, knobs=knobs)),))

    source.become(tuned)  # type: ignore[arg-type]
    async with screen(source) as pilot:
        await press(pilot, "4 W j j j j enter 0 . 7 enter")
        assert len(said(pilot)) == 1
        await wait_until(pilot, lambda: "was 0.5" in seen(pilot, "knobs"))
        await press(pilot, "W")
        assert source.drafted == {"aimd.beta": 0.7}
        assert "+beta = 0.7" in seen(pilot, "overlay")
        await press(pilot, "n")
        assert source.written == []
        await press(pilot, "W y")
        assert source.written == [source.file]
        await wait_until(pilot, lambda: "was 0.5" not in seen(pilot, "knobs"))
        await press(pilot, "W")
        assert len(source.written) == 1
        await press(pilot, "enter 0 . 6 enter", until=lambda: "was 0.7" in seen(pilot, "knobs"))
        source.file = replace(source.file, after=source.file.before)
        await press(pilot, "W")
        assert said(pilot)[-1] == "hivemind.toml has these values already"


async def test_the_palette_finds_by_words_and_closes_without_harm() -> None:
    """Typed words narrow the list, enter runs what is chosen, escape runs nothing."""
    source = FakeSource(world())
    async with screen(source) as pilot:
        await press(pilot, ": t h e m e space l i g h t")
        assert "theme light" in seen(pilot, "palette")
        await press(pilot, "enter")
        assert pilot.app.theme == "hivemind-light"
        await press(pilot, ": o p e n space a g e n t space c a r o l enter")
        assert room(pilot).view.selected == "carol"
        await press(pilot, ": q z q z enter")
        assert "no command of that name" in seen(pilot, "palette")
        await press(pilot, "ctrl+u f r e e z e escape")
        assert not pilot.app.query_one(Palette).is_open
        assert source.applied == []


async def test_copying_says_what_was_copied() -> None:
    """y puts what is most likely wanted on the clipboard, and says so."""
    async with screen(busy_source()) as pilot:
        await press(pilot, "y 3 y 5 y")
        notes = said(pilot)
        assert notes[0] == "copied: export ANTHROPIC_BASE_URL=http://127.0.0.1:8765/agent/alice"
        assert notes[1].startswith("copied: #60 ")
        assert pilot.app.clipboard in notes[2]
        await press(pilot, "0 j j j y")
        assert pilot.app.clipboard == "export OPENAI_BASE_URL=http://127.0.0.1:8765/agent/worker/v1"
        await pilot.click("#start", offset=(20, 9))
        await settle(pilot)
        assert pilot.app.clipboard in seen(pilot, "start").splitlines()[9]


async def test_quit_asks_while_requests_are_under_way() -> None:
    """With requests in flight q asks, and y drains and quits; with nothing under way it ends the screen at once."""
    async with screen(FakeSource(world())) as pilot:
        await press(pilot, "q")
        assert "6 requests in flight" in seen(pilot, "overlay")
        await press(pilot, "n")
        assert pilot.app.is_running
        await press(pilot, "q")
        await pilot.press("y")
    assert pilot.app.return_value == "quit"
    async with screen(FakeSource(empty_world()), SMALLEST) as pilot:
        await pilot.press("q")
    assert (pilot.app.return_value, pilot.app.return_code) == ("quit", 0)


async def test_the_demo_takes_the_place_of_the_empty_proxy() -> None:
    """On the first screen d brings up the demo's world; elsewhere it does nothing."""
    demo = FakeSource(world())
    asked: list[str] = []

    async def start() -> FakeSource:
        asked.append("demo")
        return demo

    async with screen(FakeSource(empty_world()), start_demo=start) as pilot:
        await press(pilot, "1 d")
        assert asked == []
        await press(pilot, "0 d", until=lambda: room(pilot).view.page == "overview" and bool(room(pilot).view.agents))
        await press(pilot, "p")
        assert demo.applied == [cmd.PauseAdmissions(True)]
        assert asked == ["demo"]
