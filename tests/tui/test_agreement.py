"""What is shown in one place is shown in all: header, panels, `hivemind status`, `/_stats` and `/metrics`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import msgspec
import pytest
from examples import examples
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from tui.kit import text
from world.histories import History, price, randomly
from world.kit import USED, arrived, budget, commanded, hold, sampled, state, told

from hivemind.api_types import SnapshotPart
from hivemind.cli.operator import status
from hivemind.control.app import as_json
from hivemind.control.metrics import rendered
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind
from hivemind.text.humanise import short_count
from hivemind.world.snapshot import LaneView, Snapshot
from hivemind.world.verdict import word
from hivemind_tui.panels import agent_table, header, slots
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

SNAPSHOTS = 100
EACH = 10
"""Snapshots of one history."""
WIDE = 600
"""Columns in which everything fits."""


def moments(seed: int) -> Iterator[Snapshot]:
    """Views of one proxy at random moments of a random life."""
    draw = Random(seed)
    history, world, read = History(), told(price=price), 0
    history.step("sample", 0, 0)
    for _ in range(EACH):
        for step in randomly(draw.randrange(10**6), draw.randrange(1, 30)):
            history.step(*step)
        history.step("sample", 0, 0)
        for event in history.hands.log[read:]:
            world.apply(event)
        read = len(history.hands.log)
        yield world.snapshot(history.hands.now + draw.choice((0.0, 0.4, 3.0)))


def metrics(snapshot: Snapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and labels."""
    page = "".join(rendered(snapshot, [task.state for task in snapshot.tasks], 1, open_metrics=False))
    return {
        (each.name.removeprefix("hivemind_"), tuple(each.labels.values())): each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
    }


def agree(snapshot: Snapshot) -> None:
    """Compare every place with the snapshot's own requests, agents and tasks."""
    in_flight, totals = len(snapshot.slots), snapshot.totals
    states = Counter(agent.state for agent in snapshot.agents)
    died = states["died"]
    view = View(snapshot)

    head = text(header.render(view, WIDE, 2, Pen()))
    assert f" {word(snapshot.verdict)}" in head
    assert f"queue {snapshot.queued} " in head
    assert re.search(rf"in flight {in_flight}[/,]", head)
    assert f"{short_count(totals.failed)} failed" in head
    assert bool(re.search(rf"\b{died} agents? died", head)) == bool(died)

    for lane in snapshot.lanes:
        _agrees_on_lane(snapshot, lane)
    agents = text(agent_table.render(view, 200, 40, Pen()))
    assert f"{in_flight} in flight, {snapshot.queued} queued" in agents
    assert sum(agent.in_flight for agent in snapshot.agents) == in_flight
    assert sum(agent.queued for agent in snapshot.agents) == snapshot.queued

    told_lines = "\n".join(status.shown(SnapshotPart("run", "1", True, (), 0, snapshot), None))
    assert told_lines.startswith(word(snapshot.verdict))
    assert f"{in_flight} in flight, {snapshot.queued:,} waiting, {totals.finished:,} finished" in told_lines
    assert (f"{died} died" in told_lines) == bool(died)
    line = status.one_line(snapshot)
    assert line.startswith(word(snapshot.verdict))
    assert re.search(rf"\b{in_flight}(/\d+)? in flight, {snapshot.queued:,} waiting", line)

    stats = msgspec.json.decode("".join(as_json(snapshot)))
    assert stats["verdict"]["state"] == snapshot.verdict.state
    assert (len(stats["slots"]), stats["queued"]) == (in_flight, snapshot.queued)
    assert Counter(agent["state"] for agent in stats["agents"]) == states
    assert stats["totals"]["failed"] == totals.failed

    found = metrics(snapshot)
    assert (found["in_flight", ()], found["queue_length", ()]) == (in_flight, snapshot.queued)
    assert found["verdict", (snapshot.verdict.state,)] == 1
    assert sum(number for (name, _), number in found.items() if name == "verdict") == 1
    assert found["requests_failed_total", ()] == totals.failed
    assert found["agents", ("died",)] == died


def _agrees_on_lane(snapshot: Snapshot, lane: LaneView) -> None:
    key = lane.state.lane
    in_flight = [ticket for ticket in snapshot.slots if ticket.lane == key]
    waiting = [ticket for ticket in snapshot.queue if ticket.lane == key]
    gauges = lane.state
    assert gauges.active == len(in_flight)
    if snapshot.queued == len(snapshot.queue):  # else some aren't shown
        assert gauges.waiting + gauges.retrying == len(waiting)
    shown = text(slots.render(View(snapshot, lane_index=snapshot.lanes.index(lane)), WIDE, 20, Pen()))
    assert re.search(rf"\b{len(in_flight)} (of \d+ )?in flight", shown)


@pytest.mark.hypothesis
def test_all_places_say_the_same() -> None:
    """At any moment of anything that can happen."""
    for seed in range(examples(SNAPSHOTS // EACH, few=4)):
        for snapshot in moments(seed):
            agree(snapshot)


# --- Crowds -----------------------------------------------------------------------------------------------------------


SITUATIONS: dict[str, ev.Commanded | None] = {
    "serving": None,
    "paused": commanded("PauseAdmissions", paused=True),
    "draining": commanded("Drain", draining=True),
}


def crowd(seed: int, agents: int, lanes: int, situation: str, *, forced: bool) -> Snapshot:
    """So many agents, a third of them with names of 60 characters, on so many lanes, budgets at 90 % and 100 %; one
    circuit may be forced open."""
    draw, world, now = Random(seed), told(price=price), 1.0
    names = [f"agent-{'x' * 49}{number:05}" if number % 3 == 0 else f"a{number}" for number in range(agents)]
    keys = [f"upstream-{number}-with-a-long-name:k{number}" for number in range(lanes)]
    counts: dict[str, Counter[str]] = {key: Counter() for key in keys}
    holds: dict[str, list[ev.Hold]] = {key: [] for key in keys}
    for ticket, name in enumerate(names, 1):
        key, now = draw.choice(keys), now + 0.01
        end = draw.choice(("active", "ended", "refused", "retrying", "waiting", "waiting"))
        counts[key][end] += 1
        world.apply(arrived(ticket, name, now, key))
        if end == "refused":
            world.apply(ev.Refused(now, ticket, name, key, "queue_full", 503))
        elif end == "waiting":
            gate = draw.choice(("slot", "requests", "circuit", "rate_limited"))
            holds[key].append(hold(ticket, gate, draw.choice((None, 5.0)), draw.choice((None, 12.0))))
        else:
            world.apply(ev.Granted(now, ticket, name, key, 1, 0.0))
        if end == "ended":
            world.apply(ev.Finished(now, ticket, name, key, "model", 200, 1, USED, 0.5))
        elif end == "retrying":
            kind = FailureKind.RATE_LIMITED
            world.apply(ev.AttemptFailed(now, ticket, name, key, 1, kind, 429, "", 30.0, None))
    done = SITUATIONS[situation]
    if done is not None:
        world.apply(structs.replace(done, at=now))
    states = [
        replace(
            state(lane=key, upstream=key.partition(":")[0], upcoming=tuple(holds[key][:50])),
            active=counts[key]["active"],
            waiting=counts[key]["waiting"],
            retrying=counts[key]["retrying"],
            circuit="open" if forced and key == keys[0] else "closed",
            circuit_forced=forced and key == keys[0],
        )
        for key in keys
    ]
    budgets = (
        budget(None, tokens=1_000, used_tokens=900),
        budget(names[0], tokens=100, used_tokens=90),
        budget(names[-1], tokens=100, used_tokens=100),
    )
    world.apply(sampled(now, *states, budgets=budgets))
    return world.snapshot(now + draw.choice((0.0, 0.4, 70.0)))


@pytest.mark.parametrize(("agents", "lanes"), [pytest.param(200, 3, marks=pytest.mark.slow), (2, 2), (1, 3)])
def test_all_places_say_the_same_of_crowds(agents: int, lanes: int) -> None:
    """Of many and of few; the header has the verdict at every width, from 80 columns on with the cause's beginning."""
    for seed, (situation, forced) in enumerate(product(SITUATIONS, (False, True))):
        snapshot = crowd(seed, agents, lanes, situation, forced=forced)
        agree(snapshot)
        found = snapshot.verdict
        for width in (40, 80, 120, 250):
            rows = header.render(View(snapshot), width, 2, Pen())
            assert [row.cell_length for row in rows] == [width, width]
            head = text(rows)
            assert f" {word(found)}" in head
            if width >= 80 and found.state != "healthy" and found.cause is not None:
                assert found.cause.text[:20] in head
