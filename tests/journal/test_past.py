"""The last hours of a journal: curves and costs as the world and its commands have them, wherever they are cut."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from genai_prices.data import providers
from journal.lines import LANE, NAME, WALL, answered, arrived, began, opened, written
from journal.played import BEGAN, journal, some

from hivemind.journal.codec import line_of
from hivemind.journal.index.builder import world_of
from hivemind.journal.past import GROUPS, PRICE_BOUNDS, SPANS, Cost, Past, PastReader, csv_of
from hivemind.journal.records import Gap
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Price, Usage
from hivemind.world.snapshot import Snapshot

HOUR_S = 3600.0


def price(_: str, model: str, usage: Usage) -> float | None:
    """A made-up one, which one model doesn't have."""
    return None if model.endswith(("5", "x")) else usage.weighted / 1e6


def prices(_: float) -> Price:
    """The same at all times."""
    return price


def at_end(events: Sequence[ev.Event]) -> Snapshot:
    """What the control room shows once these have happened."""
    world = world_of(BEGAN, price)
    for event in events:
        world.apply(event)
    return world.snapshot(events[-1].at)


def sums(costs: Sequence[Cost]) -> dict[str, tuple[int, int, float, int]]:
    """Tokens, estimated ones, dollars and unpriced tokens, of each that has used something."""
    found = {each.name: each.spent for each in costs}
    return {
        name: (spent.tokens, spent.estimated, pytest.approx(spent.dollars), spent.unpriced)  # type: ignore[misc]
        for name, spent in found.items()
        if spent.tokens
    }


def as_shown(snapshot: Snapshot) -> dict[str, tuple[int, int, float, int]]:
    """The same of the agents of the world."""
    return {
        agent.name: (agent.usage.total, agent.usage.estimated_tokens, agent.dollars, agent.unpriced)
        for agent in snapshot.agents
        if agent.usage.total
    }


@pytest.mark.parametrize("parts", [1, 4])
def test_costs_are_those_of_the_world(tmp_path: Path, parts: int) -> None:
    """At any moment, also an earlier one than was asked for last, and however many files the journal has; models and
    trees add up to the same."""
    events = some(count=900)
    reader = PastReader(journal(tmp_path, events, parts), prices)
    for share in (0.3, 0.7, 0.5, 1.0):
        until = events[min(len(events) - 1, int(len(events) * share))].at
        snapshot = at_end([event for event in events if event.at <= until])
        past = reader.read("since start", until)
        assert sums(past.costs["agent"]) == as_shown(snapshot)
        whole = [
            tuple(map(sum, zip(*((c.requests, c.spent.tokens, c.spent.unpriced) for c in past.costs[by]), strict=True)))
            for by in GROUPS
        ]
        assert whole[0] == whole[1] == whole[2]
        models = {model.model: model.usage.total for model in snapshot.models}
        assert {c.name: c.spent.tokens for c in past.costs["model"] if c.spent.tokens} == models


def day(folder: Path, hours: int = 30) -> Path:
    """A journal of so many hours, a request of another agent in each, that goes on."""
    events: list[ev.Event] = [began(0.0), opened(0.0)]
    for hour in range(hours):
        events += answered(hour * HOUR_S + 1800, hour + 1, f"agent-{hour}", retried=hour % 2 == 1)
    return written(folder / "day.jsonl", events)


def test_spans_have_what_happened_in_them(tmp_path: Path) -> None:
    """Each begins so long before the moment asked for, or at midnight, and has at most 240 columns."""
    path = day(tmp_path)
    until = 29.9 * HOUR_S
    reader = PastReader(path, prices)
    midnight = datetime.fromtimestamp(until + reader.wall_offset_s).replace(hour=0, minute=0, second=0, microsecond=0)
    today_s = until + reader.wall_offset_s - midnight.timestamp()
    lengths = {"10 min": 600.0, "1 h": HOUR_S, "8 h": 8 * HOUR_S, "24 h": 24 * HOUR_S, "today": today_s}
    for span in SPANS:
        past = reader.read(span, until)
        since = max(0.0, until - lengths.get(span, 1e9))
        names = {f"agent-{hour}" for hour in range(30) if hour * HOUR_S + 1801 >= past.since}
        assert {cost.name for cost in past.costs["agent"]} == names, span
        assert 0 <= since - past.since < past.step_s
        assert all(len(values) <= 242 for values in past.series.values())
    assert sum(rate * past.step_s for rate in past.series["requests_per_s"] if rate) == pytest.approx(30)
    assert past.begins_at == 0.0


def test_what_is_new_is_read_and_no_more(tmp_path: Path) -> None:
    """A line that isn't whole yet waits for its rest; what went before isn't decoded again."""
    path = day(tmp_path, hours=1)
    reader = PastReader(path, prices)
    assert reader.read("1 h", 3000.0).costs["agent"][0].requests == 1
    more = [line_of(event) for event in answered(3001.0, 9, "zoe")]
    with path.open("r+b") as file:
        file.write(b"x" * 50)  # read again, the journal would be of nobody's
        file.seek(0, 2)
        file.write(b"".join(more)[:-9])
    assert len(reader.read("1 h", 3100.0).costs["agent"]) == 1
    with path.open("ab") as file:
        file.write(more[-1][-9:])
    assert {cost.name for cost in reader.read("1 h", 3100.0).costs["agent"]} == {"agent-0", "zoe"}


def test_a_span_goes_on_before_the_last_start(tmp_path: Path) -> None:
    """In journals of the same address, whose clocks may differ; other proxies' and later ones don't count."""
    before = replace(began(5000.0, journal="a"), wall=WALL - 2000)
    note = ev.Commanded(5002.0, "you", "AddNote", {"text": "look"})
    written(tmp_path / "a.jsonl", [before, opened(5000.0), *answered(5001.0, 1, "ann"), note])
    other = replace(began(0.0, journal="b"), wall=WALL - 1000, address="http://127.0.0.1:9999")
    written(tmp_path / "b.jsonl", [other, opened(0.0), *answered(1.0, 1, "eve")])
    written(tmp_path / "c.jsonl", [replace(began(0.0, journal="c"), wall=WALL + 9000), *answered(1.0, 1, "late")])
    (tmp_path / "d.jsonl").write_bytes(b"rubbish")
    path = written(tmp_path / f"{NAME}.jsonl", [began(100.0), opened(100.0), *answered(101.0, 1, "bob")])
    reader = PastReader(path, prices, earlier=True)
    found = {span: {cost.name for cost in reader.read(span, 200.0).costs["agent"]} for span in ("10 min", "1 h")}
    assert found == {"10 min": {"bob"}, "1 h": {"ann", "bob"}}
    past = reader.read("1 h", 200.0)
    assert past.begins_at == -1900.0
    assert [line.at for line in past.lines] == [-1898.0]
    assert {cost.name for cost in reader.read("since start", 200.0).costs["agent"]} == {"bob"}
    assert len(PastReader(path, prices).read("1 h", 200.0).costs["agent"]) == 1


def test_trees_rates_marks_and_lines(tmp_path: Path) -> None:
    """What a sub-agent spends is its tree's; a cut, an operator's change and its line, an alert and a gap are there; a
    damaged line isn't."""
    kind = FailureKind.OVERLOADED
    events: list[ev.Event] = [
        began(0.0),
        opened(0.0),
        replace(arrived(1.0, 1, "lead"), parent=None),
        replace(arrived(1.0, 2, "lead/sub"), parent="lead"),
        replace(arrived(1.0, 3, "a"), parent="b"),
        replace(arrived(1.0, 4, "b"), parent="a"),  # a ring, which only wrong claims make
        ev.AttemptFailed(
            2.0, 2, "lead/sub", LANE, 1, kind, 529, "529", None, Usage(output_tokens=7, estimated_tokens=7)
        ),
        *(ev.Finished(2.0, n, who, LANE, "m", 200, 1, Usage(10), 1.0) for n, who in ((1, "lead"), (3, "a"), (4, "b"))),
        ev.Commanded(3.0, "you", "AddNote", {"text": "look"}),
        ev.AlertRaised(4.0, 1, "died", "lead", "lead died"),
        Gap(5.0, 4.0, 12, "disk"),
    ]
    path = written(tmp_path / "run.jsonl", events)
    with path.open("ab") as file:
        file.write(b'{"v":3,"event":"Finished","at":5.5,"tick\n')
    past = PastReader(path, prices).read("10 min", 6.0)
    assert {cost.name: (cost.requests, cost.spent.tokens) for cost in past.costs["tree"]} == {
        "lead": (2, 17),
        "a": (2, 20),
    }
    assert past.lines[0].text.endswith("look")
    assert past.lines[1].text.endswith("lead died")
    assert past.lost == 12
    assert [share for share in past.series["error_share"] if share is not None] == [0.25]
    rows = list(csv.DictReader(io.StringIO(csv_of(past.costs["agent"], "agent"))))
    assert {(row["agent"], row["wasted_tokens"], row["estimated_tokens"]) for row in rows} >= {("lead/sub", "7", "7")}


def test_the_curve_keeps_each_dip(tmp_path: Path) -> None:
    """Of a column there are the highest and the lowest level, with what cut it; without news the last one stays."""
    (past,) = [
        curve_of(
            tmp_path, [ev.LevelChanged(100.0, LANE, 2.0, "rate_limited"), ev.LevelChanged(101.0, LANE, 9.0, "grow")]
        )
    ]
    points = past.curves[LANE]
    assert {point.level for point in points} == {8.0, 2.0, 9.0}
    assert [(point.mark, point.cut) for point in points if point.mark] == [("rate_limited", (8.0, 2.0))]
    assert points[-1].at == past.until


def curve_of(folder: Path, changes: Sequence[ev.Event]) -> Past:
    """Of a lane that was sampled once."""
    sampled = next(event for event in some() if isinstance(event, ev.Sampled) and event.lanes)
    lane = replace(sampled.lanes[0], lane=LANE, level=8.0)
    events = [began(0.0), opened(0.0), ev.Sampled(50.0, (lane,)), *changes]
    return PastReader(written(folder / "run.jsonl", events), prices).read("10 min", 300.0)


def test_requests_of_one_price_are_priced_together() -> None:
    """The bounds between which they are summed up are all those at which some model's price changes."""
    starts = {
        tier.start
        for provider in providers
        for model in provider.models
        for priced in (model.prices if isinstance(model.prices, list) else [model.prices])
        for name in ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
        for tier in getattr(getattr(getattr(priced, "prices", priced), name, None), "tiers", ())
    }
    assert starts <= {*PRICE_BOUNDS}
