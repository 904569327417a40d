"""What a key means: one command, or the reason why there is none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tui.requests import requests_of
from tui.worlds import LANE, empty_world, world

from hivemind.records import replace
from hivemind.scheduler.commands import PinLevel, Rejected, ReleaseLane, SetBudget, SetPriority, Tune
from hivemind.scheduler.events import Hold, WindowState
from hivemind.scheduler.types import Priority, WindowKind
from hivemind.world.snapshot import TaskView
from hivemind_tui.commands import intents
from hivemind_tui.state.view import View

UPSTREAM = "anthropic"


def view(**lane: Any) -> View:
    snapshot = world()
    first = snapshot.lanes[0]
    return View(replace(snapshot, lanes=(replace(first, state=replace(first.state, **lane)),)))


def test_priority_moves_one_step_and_stops_at_the_ends() -> None:
    """Up is more urgent; beyond the ends there is no command but a reason."""
    assert intents.priority(view(), -1) == [SetPriority("alice", Priority.HIGH)]
    critical = replace(view(), selected="dave")
    with pytest.raises(Rejected, match="dave is CRITICAL already"):
        intents.priority(critical, -1)


def test_ceiling_stops_at_the_floor() -> None:
    """The ceiling can't go below the floor."""
    assert intents.ceiling(view(ceiling=2.0), -1) == [Tune("max_concurrency", 1, UPSTREAM)]
    with pytest.raises(Rejected, match="min concurrency, which is 3"):
        intents.ceiling(view(ceiling=3.0, floor=3.0), -1)


def test_ceiling_of_a_lane_without_one() -> None:
    """Where there is no ceiling, lowering sets one at what is in flight, and raising makes no sense."""
    assert intents.ceiling(view(ceiling=math.inf, active=6), -1) == [Tune("max_concurrency", 6, UPSTREAM)]
    assert intents.ceiling(view(ceiling=math.inf, active=0), -1) == [Tune("max_concurrency", 1, UPSTREAM)]
    with pytest.raises(Rejected, match="no limit to raise"):
        intents.ceiling(view(ceiling=math.inf), 1)


def test_pin_takes_the_slots_there_are() -> None:
    """Pinning holds the whole slots of the level, which are in force; without a limit there is nothing to hold."""
    assert intents.pin(view(level=8.7)) == [PinLevel(8.0, LANE)]
    assert intents.pin(view(level=0.4)) == [PinLevel(1.0, LANE)]
    assert intents.pin(view(pinned=True)) == [PinLevel(None, LANE)]
    with pytest.raises(Rejected, match="no limit to pin"):
        intents.pin(view(level=math.inf))


def test_release_needs_a_pause() -> None:
    """Ending a pause that nobody asked for is refused with the reason."""
    with pytest.raises(Rejected, match="no Retry-After"):
        intents.release(view(rate_limited_for_s=0.0, upcoming=()))


def test_release_ends_a_used_up_window() -> None:
    """Of which only the provider's headers tell; a limit of our own has knobs."""

    def window(source: str) -> WindowState:
        return WindowState("m", WindowKind.REQUESTS, 50, 50, 0, 0, 86400.0, source, 45.0)

    assert intents.release(view(rate_limited_for_s=0.0, upcoming=(), windows=(window("headers"),))) == [
        ReleaseLane(LANE)
    ]
    with pytest.raises(Rejected, match="no rate window is used up"):
        intents.release(view(rate_limited_for_s=0.0, upcoming=(), windows=(window("settings"),)))
    held = Hold(1, "tokens", 45.0, 45.0)
    assert intents.release(view(rate_limited_for_s=0.0, upcoming=(held,))) == [ReleaseLane(LANE)]


@pytest.mark.parametrize("name", ["priority", "hold", "boost", "ceiling", "pin", "release", "turn"])
def test_nothing_to_steer_yet(name: str) -> None:
    """Before the first request each key says what it is waiting for."""
    arguments = (1,) if name in ("priority", "ceiling", "turn") else ()
    with pytest.raises(Rejected, match="yet"):
        intents.INTENTS[name](View(empty_world()), *arguments)


def test_marked_agents_move_together_as_far_as_they_can() -> None:
    """A step is for all that are marked; those at the end stay, and only when all are there is it refused."""
    marked = replace(view(), marked=frozenset({"alice", "dave"}))
    assert intents.priority(marked, -1) == [SetPriority("alice", Priority.HIGH)]
    critical = replace(view(), marked=frozenset({"dave", "ivan"}))
    with pytest.raises(Rejected, match="all 2 marked are CRITICAL already"):
        intents.priority(critical, -1)


@pytest.mark.parametrize(
    ("text", "tokens"), [("500k", 500_000), ("=1.5M", 1_500_000), ("+50k", 550_000), ("none", None)]
)
def test_a_budget_is_typed_as_people_write_it(text: str, tokens: int | None) -> None:
    """A number, one on top of what there is, or none."""
    assert intents.budget(view(), text) == [SetBudget("alice", tokens)]


def test_a_budget_on_top_of_none_starts_from_what_was_used() -> None:
    """An agent without a budget may use so much more."""
    bob = replace(view(), selected="bob")
    assert bob.agent is not None
    assert intents.budget(bob, "+1k") == [SetBudget("bob", bob.agent.usage.total + 1000)]


@pytest.mark.parametrize("text", ["many", "-5k", "0", "+", "", "1e400", "1e13", "nan"])
def test_a_budget_that_is_none(text: str) -> None:
    """What isn't a positive number is refused in one line."""
    with pytest.raises(Rejected):
        intents.budget(view(), text)


def test_what_is_gone_or_at_its_end_is_said() -> None:
    """Of a request to cut, a task, alerts and a level, in the operator's words."""
    full = world()
    task = TaskView("t", "", "bob", "ready", Priority.LOW, Priority.LOW, 0, (), 0, "", 0.0, 0.0, 0, 0.0)
    tasks = View(replace(full, tasks=(task,)), trail=("tasks",))
    for refused, words in (
        (lambda: intents.priority(tasks, 1), "t is LOW already"),
        (lambda: intents.task_of(tasks, "u"), "that task is gone"),
        (lambda: intents.to_cut(View(full, trail=("requests",))), "the selected request isn't in flight"),
        (lambda: intents.to_cut(replace(view(), selected="bob")), "bob has no request in flight to cut"),
        (lambda: intents.pin_at(view(), "many"), "many"),
        (lambda: intents.acknowledge(view()), "no alert waits"),
    ):
        with pytest.raises(Rejected, match=words):
            refused()
    flies = requests_of(full, 60)
    ticket = full.slots[0].ticket
    assert intents.to_cut(View(full, trail=("requests",), requests=flies, ticket=ticket)).ticket == ticket


def test_a_proxy_without_the_knob() -> None:
    """An older proxy may not know a knob; that is said rather than guessed."""
    with pytest.raises(Rejected, match="has no max_concurrency"):
        intents.turn(view(knobs={}), 1)
