"""The world over the wire: nothing is lost, and what is new joins what is known."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from control.kit import RUN, FakeProxy, busy_proxy
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tui.graph import processes
from tui.worlds import world
from world.kit import LANE, commanded, sampled, state

from hivemind.api_types import SnapshotPart
from hivemind.control.codec import OutOfSync, decode_snapshot, merge, snapshot_part
from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, Hold, LaneState, WindowState
from hivemind.scheduler.types import Usage, Utilisation
from hivemind.world.snapshot import AgentView, CurvePoint, LaneView, Line, Snapshot, TaskView, TicketView, Totals

# A number that may be missing isn't infinite: null says that it is missing.
NUMBER = st.floats(min_value=0, allow_nan=False, allow_infinity=True)
MAYBE = st.none() | st.floats(allow_nan=False, allow_infinity=False)
WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(0, 2**53)
st.register_type_strategy(float, NUMBER)
st.register_type_strategy(str, WORD)
st.register_type_strategy(int, WHOLE)


def made(kind: Any, **fields: Any) -> st.SearchStrategy[Any]:
    """Any value of a dataclass; numbers that may be missing are told apart by their annotation."""
    maybe = {name: MAYBE for name, hint in kind.__annotations__.items() if hint == "float | None"}
    return st.builds(kind, **{**maybe, **fields})


def several(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=2).map(tuple)


GAUGES = made(
    LaneState,
    windows=several(made(WindowState)),
    plan=several(made(Utilisation)),
    upcoming=several(made(Hold)),
    knobs=st.dictionaries(WORD, NUMBER, max_size=2),
)
BUDGETS = made(BudgetState)
SNAPSHOTS = made(
    Snapshot,
    lanes=several(st.builds(LaneView, GAUGES, several(made(CurvePoint)))),
    slots=several(made(TicketView)),
    queue=several(made(TicketView)),
    agents=several(made(AgentView, budget=st.none() | BUDGETS)),
    lines=several(made(Line)),
    totals=made(Totals, usage=made(Usage), wasted=made(Usage)),
    pool=st.none() | BUDGETS,
    tasks=several(made(TaskView)),
)


def there(part: SnapshotPart) -> SnapshotPart:
    """As it is at the other end."""
    return decode_snapshot(msgspec.json.encode(part))


@given(SNAPSHOTS)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_any_snapshot_survives(snapshot: Snapshot) -> None:
    """Every number, name and absence is the same at the other end, infinities too."""
    part = snapshot_part(snapshot, RUN, None)
    assert there(part) == part


def test_a_world_survives() -> None:
    """So does one with 200 agents, three lanes and no limit."""
    full = world(agents=200, lanes=3)
    lanes = tuple(LaneView(replace(lane.state, level=math.inf, ceiling=math.inf), lane.curve) for lane in full.lanes)
    full = replace(full, lanes=lanes)
    part = there(snapshot_part(full, RUN, None))
    assert part.snapshot == full
    assert math.isinf(part.snapshot.lanes[2].state.level)
    plain = json.loads(
        msgspec.json.encode(snapshot_part(full, RUN, None)),
        parse_constant=lambda word: pytest.fail(f"{word} is no JSON"),
    )
    assert plain["snapshot"]["lanes"][0]["state"]["level"] is None


def test_processes_and_tasks_survive() -> None:
    """As a whole, and with what is new only: budgets, the pool, every task and how many there are."""
    full = processes()
    assert there(snapshot_part(full, RUN, None)).snapshot == full
    assert merge(full, there(snapshot_part(full, RUN, full.at))) == full
    assert full.pool is not None
    assert full.tasks


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["line", "sample", "cut", "wait", "other lane", "look"]), st.sampled_from([0.0, 0.3, 1.0])
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=examples(120), deadline=None, derandomize=True)
def test_parts_join(steps: list[tuple[str, float]]) -> None:
    """Whoever looks now and then, and hears only what is new each time, knows just what one does who hears it all."""
    proxy, known = FakeProxy(), None
    lanes = [state()]
    for what, passes in [*steps, ("look", 0.0)]:
        proxy.at += passes
        if what == "line":
            proxy.happens(commanded("PauseAdmissions", at=proxy.at, who="ops", paused=True))
        elif what == "cut":
            proxy.happens(commanded("Tune", at=proxy.at, knob="aimd.beta", value=0.7, upstream=None))
        elif what == "other lane":
            lanes = [state()] if len(lanes) > 1 else [state(), state(lane="up:2")]
        elif what == "sample":
            proxy.happens(sampled(proxy.at, *(replace(lane, active=int(proxy.at * 10)) for lane in lanes)))
        elif what == "look":
            part = there(snapshot_part(proxy.snapshot(), RUN, None if known is None else known.at))
            known = merge(known, part)
            assert known == proxy.snapshot()


def test_only_what_is_new() -> None:
    """A part leaves out the points and lines that its reader knows."""
    proxy = busy_proxy()
    known = proxy.snapshot()
    proxy.at = 12.0
    proxy.happens(sampled(11.0, state()), commanded("PauseAdmissions", at=11.0, who="ops", paused=True))
    part = snapshot_part(proxy.snapshot(), RUN, known.at)
    (lane,) = part.snapshot.lanes
    assert (lane.state.lane, [point.at for point in lane.curve], part.curves) == (LANE, [10.0, 11.0], (7,))
    assert ([line.at for line in part.snapshot.lines], part.lines, part.whole) == ([11.0], 1, False)


def test_long_past() -> None:
    """Whoever looks after the log has been filled anew gets all of it, and the old lines are gone."""
    proxy = busy_proxy()
    known = proxy.snapshot()
    for at in range(11, 800):
        proxy.happens(sampled(float(at), state()), commanded("PauseAdmissions", at=float(at), who="ops", paused=True))
    proxy.at = 800.0
    assert merge(known, snapshot_part(proxy.snapshot(), RUN, known.at)) == proxy.snapshot()


def test_out_of_step() -> None:
    """A part that doesn't join is noticed: of nothing, or of a world that has more behind it."""
    proxy = busy_proxy()
    part = snapshot_part(proxy.snapshot(), RUN, proxy.at)
    with pytest.raises(OutOfSync, match="without a snapshot to merge"):
        merge(None, part)
    with pytest.raises(OutOfSync, match="expected 5 items, and have 1"):
        merge(replace(proxy.snapshot(), lanes=()), part)
