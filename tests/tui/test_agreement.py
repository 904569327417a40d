"""What is shown in one place is shown in all: header, panels, `hivemind status`, `/_stats` and `/metrics`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from examples import examples
from prometheus_client.parser import text_string_to_metric_families
from textual.strip import Strip
from world.histories import History, price, randomly
from world.kit import told

from hivemind.api_types import SnapshotPart
from hivemind.cli.operator import status
from hivemind.control.app import as_json
from hivemind.control.metrics import encoder_for, rendered
from hivemind.text.humanise import short_count
from hivemind.world.snapshot import LaneView, Snapshot
from hivemind.world.verdict import word
from hivemind_tui.panels import agent_table, header, slots
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

SNAPSHOTS = 500
EACH = 20
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


def text(strips: list[Strip]) -> str:
    """What they show."""
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def metrics(snapshot: Snapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and labels."""
    encode, _ = encoder_for("text/plain")
    page = b"".join(rendered(snapshot, [task.state for task in snapshot.tasks], 1, encode)).decode()
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
    assert f"slots {in_flight}/" in head
    assert f"{short_count(totals.failed)} failed" in head
    assert bool(re.search(rf"\b{died} agents? died", head)) == bool(died)

    for lane in snapshot.lanes:
        _agrees_on_lane(snapshot, lane)
    agents = text(agent_table.render(view, 200, 40, Pen()))
    assert f"{in_flight} in flight, {snapshot.queued} queued" in agents
    assert sum(agent.flying for agent in snapshot.agents) == in_flight
    assert sum(agent.queued for agent in snapshot.agents) == snapshot.queued

    told_lines = "\n".join(status.shown(SnapshotPart("run", "1", True, (), 0, snapshot), None))
    assert told_lines.startswith(word(snapshot.verdict))
    assert f"{in_flight} in flight, {snapshot.queued:,} waiting, {totals.finished:,} finished" in told_lines
    assert (f"{died} died" in told_lines) == bool(died)
    line = status.one_line(snapshot)
    assert line.startswith(word(snapshot.verdict))
    assert re.search(rf"\b{in_flight}(/\d+)? in flight, {snapshot.queued:,} waiting", line)

    stats = msgspec.json.decode(msgspec.json.encode(as_json(snapshot)))
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
    flying = [ticket for ticket in snapshot.slots if ticket.lane == key]
    waiting = [ticket for ticket in snapshot.queue if ticket.lane == key]
    state = lane.state
    assert (state.active, state.waiting + state.retrying) == (len(flying), len(waiting))
    shown = text(slots.render(View(snapshot, lane_index=snapshot.lanes.index(lane)), WIDE, 20, Pen()))
    assert re.search(rf"\b{len(flying)} (of \d+ )?in flight", shown)


@pytest.mark.hypothesis
@pytest.mark.parametrize("part", range(5))
def test_all_places_say_the_same(part: int) -> None:
    """At any moment of anything that can happen."""
    seeds = examples(SNAPSHOTS // EACH) // 5 or 1
    for seed in range(part * seeds, (part + 1) * seeds):
        for snapshot in moments(seed):
            agree(snapshot)
