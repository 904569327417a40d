"""Commands on their way: in order, in a few words, with the reason where one is refused, and taken back as a whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import get_args

import pytest
from tui.graph import processes
from tui.kit import press, room, screen, seen
from tui.worlds import LANE, FakeSource, world

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.commands import Command, CutRequest, Drain, PauseAgent, Rejected, SetCircuit, Tune
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import HUNG, Line
from hivemind_tui.commands.queue import LOG_PAGES, Change, CommandQueue, Intent, confirmation, inverse
from hivemind_tui.state.view import View


async def steered(source: FakeSource, *intents: Intent | None, look: Callable[[], View] | None = None) -> list[str]:
    """Tell the intents (None: undo) one after the other; what was complained about."""
    told: list[str] = []
    done = asyncio.Event()
    count = 0

    def changed() -> None:
        nonlocal count
        count += 1
        if count == len(intents):
            done.set()

    steering = CommandQueue(look or (lambda: View(source.snapshot())), told.append, changed)
    for intent in intents:
        if intent is None:
            steering.undo(source)
        else:
            steering.send(source, intent)
    running = asyncio.create_task(steering.run())
    await asyncio.wait_for(done.wait(), 60)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return told


def hold(*names: str) -> Intent:
    return lambda _: [PauseAgent(name, True) for name in names]


async def test_undo_goes_back_one_change_at_a_time() -> None:
    """The newest first, and all that one key did; after the first one there is nothing left, and that is said."""
    source = FakeSource(world())
    told = await steered(source, hold("alice"), hold("bob", "carol"), None, None, None)
    back = ("carol", "bob", "alice")
    assert source.applied[3:] == [PauseAgent(name, False) for name in back]
    assert told == ["there is no change of yours to undo"]


async def test_a_refusal_half_way_is_told_and_what_was_done_can_be_taken_back() -> None:
    """Of three agents the second is refused: the first one's change is remembered, the third isn't tried."""
    source = FakeSource(world())
    tried: list[Command] = []

    async def apply(command: Command) -> None:
        tried.append(command)
        if command == PauseAgent("bob", True):
            raise Rejected("no agent named 'bob'")

    source.apply = apply  # type: ignore[method-assign]
    told = await steered(source, hold("alice", "bob", "carol"), None)
    assert told == ["no agent named 'bob'"]
    assert tried == [PauseAgent("alice", True), PauseAgent("bob", True), PauseAgent("alice", False)]


async def test_a_knob_taken_back_after_it_was_written_counts_as_turned() -> None:
    """The file says 0.45 then, and the proxy 0.5: that is a difference to write down."""
    source = FakeSource(world())
    lane = source.snapshot().lanes[0]
    upstream, knobs = lane.state.upstream, lane.state.knobs
    turned = replace(world(), lanes=(replace(lane, state=replace(lane.state, knobs={**knobs, "aimd.beta": 0.45})),))
    done = asyncio.Event()
    steering = CommandQueue(lambda: View(source.snapshot()), lambda _: None, done.set)
    running = asyncio.create_task(steering.run())
    steering.send(source, lambda _: [Tune("aimd.beta", 0.45, upstream)])
    await asyncio.wait_for(done.wait(), 60)
    assert steering.untuned == {upstream: {"aimd.beta": 0.5}}
    source.become(turned)
    steering.untuned.pop(upstream)
    assert steering.untuned == {}
    done.clear()
    steering.undo(source)
    await asyncio.wait_for(done.wait(), 60)
    assert source.applied[-1] == Tune("aimd.beta", 0.5, upstream)
    assert steering.untuned == {upstream: {"aimd.beta": 0.45}}
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_undo_leaves_what_another_operator_decided_since() -> None:
    """It says who and what; a change of another knob, or to another agent, is no reason."""
    source = FakeSource(world())
    now = source.snapshot()
    for who, text, refused in (("alice", "released", True), ("bob", "released", False), ("all", "released", True)):
        line = Line(now.at + 1, 0.0, "info", "hold", who, f"{text}, by ann", by="ann")

        def look(line: Line = line) -> View:
            return View(replace(now, lines=(line,)))

        told = await steered(source, hold("alice"), None, look=look)
        assert told == (["not undone: since then ann decided that (released, by ann)"] if refused else [])


def test_what_undo_asks_about() -> None:
    """Where it holds or refuses requests."""
    stops: dict[Command, bool] = {
        PauseAgent("a", True): True,
        PauseAgent("a", False): False,
        SetCircuit("open"): True,
        SetCircuit("auto"): False,
        Drain(True): True,
        Tune("aimd.beta", 0.5): False,
    }
    assert {undo: Change([undo], [undo], 0.0, 0.0).stops_traffic for undo in stops} == stops


def test_a_change_is_told_with_its_age() -> None:
    """In minutes, from the first one on."""
    commands = [PauseAgent("alice", True)]
    told = [Change((), commands, time.monotonic() - age_s, 0.0).told for age_s in (50, 130)]
    assert told == ["alice: held", "alice: held, 2 min ago"]


@pytest.mark.parametrize("begun", [False, True])
async def test_what_may_become_of_a_hung_request(begun: bool) -> None:
    """It can be sent again until its answer has begun, and cut in any case, whichever agent is selected."""
    calm = world()
    (slot,) = (each for each in calm.slots if each.agent == "alice")
    slots = [replace(slot, state=HUNG, begun=begun) if each is slot else each for each in calm.slots]
    agents = [replace(each, state=HUNG) if each.name == "alice" else each for each in calm.agents]
    source = FakeSource(replace(calm, slots=tuple(slots), agents=tuple(agents)))
    async with screen(source, (160, 45)) as pilot:
        await press(pilot, "end X")
        selected = room(pilot).view.agent
        assert selected is not None
        assert selected.name != "alice"
        assert ("retry it" in seen(pilot, "overlay")) is not begun
        await press(pilot, "r X c" if begun else "r")
    assert source.applied == [CutRequest("alice", slot.ticket, retry=not begun)]


AGENTS = replace(View(world()), trail=("agents",))
WORDS = {
    cmd.SetPriority("bob", Priority.HIGH): "bob: priority is high now",
    cmd.PauseAgent("bob", True): "bob: held",
    cmd.PauseAgent("bob", False): "bob: released",
    cmd.BoostAgent("bob", 60.0): "bob: critical for 60 s",
    cmd.BoostAgent("bob", 0.0): "bob: boost ended",
    cmd.StopAgent("bob\x1b", True): "bob·: stopped",
    cmd.StopAgent("bob", False): "bob: allowed again",
    cmd.CutRequest("bob", 7): "bob: request 7 cut, to be sent again",
    cmd.SetBudget("bob", 50_000): "bob: budget is 50,000 tokens now",
    cmd.SetBudget("bob", None): "bob: has no budget any more",
    cmd.SetBudget(None, None, 5.0, "day"): "budget is $5.00 a day now",
    cmd.CancelTask("lint"): "lint: cancelled",
    cmd.RetryTask("lint"): "lint: to be tried again",
    cmd.SetTaskPriority("lint", Priority.HIGH): "lint: priority is high now",
    cmd.ForgetTasks("nightly"): "tasks of batch nightly forgotten",
    cmd.Tune("rpm", 0): "rpm is none now",
    cmd.PinLevel(4.0): "concurrency level fixed at 4",
    cmd.PinLevel(None): "concurrency level back to AIMD",
    cmd.SetCircuit("probe"): "circuit lets one probe through",
    cmd.PauseAdmissions(True): "everything paused",
    cmd.PauseAdmissions(False): "everything resumed",
    cmd.Drain(True): "draining: refuses new requests",
    cmd.Drain(False): "accepts requests again",
    cmd.ReleaseLane("lane"): "lane: rate limit (Retry-After, used-up windows) ended early",
    cmd.Acknowledge(): "alerts acknowledged",
    cmd.Acknowledge("bob"): "bob: alerts acknowledged",
    cmd.Acknowledge(rule="spend"): "alerts (spend) acknowledged",
    cmd.AddNote("lunch\x1b"): "note: lunch·",
}


@pytest.mark.parametrize("command", WORDS)
def test_each_command_has_its_words(command: cmd.Command) -> None:
    """On a page that doesn't show the log, one line tells what was done."""
    assert confirmation([command], AGENTS) == WORDS[command]


def test_every_command_is_there() -> None:
    """A new one isn't forgotten here."""
    runners = {cmd.BeginAgent, cmd.EndAgent, cmd.SubmitTasks, cmd.ClaimTask, cmd.FinishTask}
    assert {type(command) for command in WORDS} | runners == set(get_args(cmd.Command))


def test_several_and_none() -> None:
    """Of several the first; nothing where nothing was done, or where the page shows it."""
    both = [cmd.PauseAgent("bob", True), cmd.PauseAgent("eve", True)]
    assert confirmation(both, AGENTS) == "bob: held, and 1 more"
    assert confirmation([], AGENTS) == ""
    for page in LOG_PAGES:
        assert confirmation(both, replace(AGENTS, trail=(page,))) == ""


WORLD = processes()
UPSTREAM = WORLD.lanes[0].state.upstream
CASES: list[tuple[cmd.Command, list[cmd.Command]]] = [
    (cmd.SetPriority("alice", Priority.LOW), [cmd.SetPriority("alice", Priority.NORMAL)]),
    (cmd.PauseAgent("judy", False), [cmd.PauseAgent("judy", True)]),
    (cmd.BoostAgent("frank", 0.0), [cmd.BoostAgent("frank", 42.0)]),
    (cmd.SetBudget("alice", None), [cmd.SetBudget("alice", 500_000, None, "run", "agent")]),
    (cmd.StopAgent("alice", True), [cmd.StopAgent("alice", False)]),
    (cmd.Tune("aimd.beta", 0.9, UPSTREAM), [cmd.Tune("aimd.beta", 0.5, UPSTREAM)]),
    (cmd.Tune("aimd.beta", 0.9), [cmd.Tune("aimd.beta", 0.5, UPSTREAM)]),
    (cmd.PinLevel(3.0, LANE), [cmd.PinLevel(None, LANE)]),
    (cmd.SetCircuit("open", LANE), [cmd.SetCircuit("auto", LANE)]),
    (cmd.PauseAdmissions(True), [cmd.PauseAdmissions(False)]),
    (cmd.Drain(True), [cmd.Drain(False)]),
    (cmd.ReleaseLane(LANE), []),
    (cmd.CutRequest("alice", 12), []),
    (cmd.SetBudget("dave", 5), [cmd.SetBudget("dave", 2_000_000, 2.5, "run", "subtree")]),
    (cmd.SetBudget("bob", 5), [cmd.SetBudget("bob")]),
    (cmd.SetBudget(None, 5), [cmd.SetBudget(None, None, 20.0, "day")]),
    (cmd.CancelTask("nightly.docs"), [cmd.RetryTask("nightly.docs")]),
    (cmd.RetryTask("nightly.types"), []),
    (cmd.SetTaskPriority("nightly.docs", Priority.CRITICAL), [cmd.SetTaskPriority("nightly.docs", Priority.NORMAL)]),
    (cmd.BeginAgent("alice"), []),
    (cmd.EndAgent("alice"), []),
    (cmd.SubmitTasks(()), []),
    (cmd.ClaimTask("nightly.docs"), []),
    (cmd.FinishTask("nightly.docs", True), []),
    (cmd.ForgetTasks("nightly"), []),
    (cmd.Acknowledge("alice"), []),
    (cmd.AddNote("new prompt"), []),
    (cmd.SetPriority("nobody", Priority.LOW), []),
]


@pytest.mark.parametrize(("command", "back"), CASES, ids=lambda case: type(case).__name__)
def test_each_command_has_its_way_back(command: cmd.Command, back: list[cmd.Command]) -> None:
    """To the value that stood before, not to a default."""
    assert inverse(command, WORLD) == back


def test_no_command_is_forgotten() -> None:
    """A new command needs a case here, if only to say that nothing undoes it."""
    assert {type(command) for command, _ in CASES} == set(get_args(cmd.Command))


def test_a_forced_circuit_and_a_pinned_level_come_back_as_they_were() -> None:
    """Not to automatic, where they weren't that before."""
    lane = WORLD.lanes[0]
    state = replace(lane.state, circuit="open", circuit_forced=True, pinned=True, level=6.0)
    forced = replace(WORLD, lanes=(replace(lane, state=state),))
    assert inverse(cmd.SetCircuit("auto", LANE), forced) == [cmd.SetCircuit("open", LANE)]
    assert inverse(cmd.PinLevel(None, LANE), forced) == [cmd.PinLevel(6.0, LANE)]
