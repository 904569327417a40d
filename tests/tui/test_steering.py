"""Commands on their way: in order, with the reason where one is refused, and taken back as a whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from tui.kit import press, room, screen, seen
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.scheduler.commands import Command, CutRequest, Drain, PauseAgent, Rejected, SetCircuit, Tune
from hivemind.world.snapshot import HUNG, Line
from hivemind_tui.commands.queue import Change, CommandQueue, Intent
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
