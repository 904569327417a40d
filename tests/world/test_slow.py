"""Why requests are slow: the line under the verdict, and when it is SLOWED."""

from __future__ import annotations

import pytest
from examples import examples
from world.histories import History, randomly
from world.kit import LANE, hold, sampled, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import FailureKind, WindowKind
from hivemind.world.slow import merged_waits, why_slow
from hivemind.world.verdict import remedy
from hivemind.world.world import World

pytestmark = pytest.mark.e2e
GROWN = ev.LevelChanged(0.0, LANE, 2.0, FailureKind.OVERLOADED.value)


def waits_for(*gates: str, source: str = "headers", **about: object) -> LaneState:
    """A lane with a request in flight, and for each of these gates one that waits."""
    window = WindowState("m", WindowKind.REQUESTS, 60.0, 60.0, 0.0, 0.0, 9.0, source)
    upcoming = tuple(hold(number, gate) for number, gate in enumerate(gates))
    return state(2.0, active=1, waiting=len(gates), upcoming=upcoming, windows=(window,), **about)


def for_so_long(lane: LaneState, s: int, *before: ev.Event) -> World:
    """The world after so many seconds of it."""
    return told(*before, *(sampled(float(at), lane) for at in range(s + 1)))


@pytest.mark.parametrize(
    ("lane", "line", "command_line"),
    [
        (waits_for("slot", "slot", "slot", "requests"), "75 % level cut by 529s, 25 % requests a minute", ""),
        (
            waits_for("slot", ceiling=2.0),
            "100 % max concurrency (HiveMind's own limit)",
            "hivemind set max_concurrency VALUE",
        ),
        (
            waits_for("requests", source="assumed"),
            "100 % requests a minute (assumed by HiveMind)",
            "hivemind set rpm VALUE",
        ),
        (waits_for("circuit", "backoff"), "50 % circuit, 50 % pauses before retries", ""),
    ],
)
def test_the_line_names_what_kept_requests(lane: LaneState, line: str, command_line: str) -> None:
    """The largest first; where HiveMind itself only assumes the limit it says so, and what sets it."""
    snapshot = for_so_long(lane, 60, GROWN).snapshot(60.0)
    assert snapshot.verdict.text.startswith(f"SLOWED waits: {line}")
    assert remedy(snapshot.verdict.findings[0], snapshot) == command_line
    both = merged_waits([snapshot.waits, snapshot.waits])
    assert (both.open_s, why_slow(both)) == (120.0 * (1 + lane.waiting), f"waits: {line}")


def test_a_moment_slows_nobody_and_what_slowed_is_over_in_a_minute() -> None:
    """A short wait, what an operator holds, and what is long past."""
    assert for_so_long(waits_for("slot"), 20).snapshot(20.0).verdict.state == "healthy"
    assert for_so_long(waits_for("held", "budget", "dependency"), 60).snapshot(60.0).verdict.state == "healthy"
    world = for_so_long(waits_for("slot"), 60)
    assert world.snapshot(60.0).verdict.state == "slowed"
    for at in range(61, 140):
        world.apply(sampled(float(at), waits_for()))
    quiet = world.snapshot(139.0)
    assert (quiet.verdict.state, bool(quiet.waits.seconds)) == ("healthy", True)
    for at in range(140, 800):
        world.apply(sampled(float(at), waits_for()))
    assert not world.snapshot(799.0).waits.seconds


def test_no_trouble_stands_beside_healthy() -> None:
    """In random histories, whenever an agent is hung, was refused and not answered since, or is dead unseen."""
    seen: set[str] = set()
    for seed in range(examples(1500, few=70)):
        history = History()
        events = history.after(randomly(seed, 60))
        world = told()
        for event in events:
            world.apply(event)
        for later_s in (0.0, 40.0, 300.0, 3000.0):
            snapshot = world.snapshot(history.hands.now + later_s)
            known = {alert.about for alert in snapshot.alerts if alert.acknowledged}
            bad = {each.state for each in snapshot.agents if each.state in ("hung", "died") and each.name not in known}
            bad |= {each.state for each in snapshot.agents if each.state == "refused"}
            bad |= {ticket.state for ticket in snapshot.slots if ticket.state == "hung"}
            assert not bad or snapshot.verdict.state != "healthy", (seed, later_s, bad)
            seen |= bad
    assert seen == {"hung", "died", "refused"}
