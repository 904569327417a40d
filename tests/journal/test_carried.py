"""The line that tells how the world stands, made in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.kit import request
from world.histories import OPS, History, Op, price
from world.kit import told

from hivemind.journal.codec import BadLine, event_of, line_of
from hivemind.journal.write import writer
from hivemind.journal.write.writer import carried_line
from hivemind.world.state import Carried
from hivemind.world.world import World

STEPS = st.tuples(st.sampled_from(OPS), st.integers(0, 999), st.integers(0, 999))


@given(st.lists(STEPS, max_size=80), st.floats(0, 1), st.integers(1, 5))
@settings(
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_same_line_in_pieces(
    monkeypatch: pytest.MonkeyPatch, ops: Sequence[Op], share: float, at_once: int
) -> None:
    """As it is made of the whole at once, whatever happens before it is made."""
    monkeypatch.setattr(writer, "AT_ONCE", at_once)
    events = History().after(ops)
    now = round(share * len(events))
    world = told(*events[:now], price=price)
    at = events[now - 1].at if now else 0.0
    whole = line_of(Carried(at, world.keep(at)))
    taken = world.take(at)
    for event in events[now:]:
        world.apply(event)
    turns: list[None] = []
    assert carried_line(at, taken, lambda: turns.append(None)) == whole
    pieces = [len(list(each)) for each in (taken.agent_states(), taken.rest.tickets, taken.task_records())]
    assert len(turns) == sum(-(-count // at_once) for count in pieces)


def test_a_request_in_no_state_that_there_is() -> None:
    """Such a line is bad, like any that isn't ours, so that no reader fails on it."""
    world = World(at=0.0, wall=1000.0, address="", upstreams=())
    world.apply(request(0.0, 1, "x"))
    line = line_of(Carried(1.0, world.keep(1.0)))
    assert event_of(line) == Carried(1.0, world.keep(1.0))
    with pytest.raises(BadLine, match="no state that there is"):
        event_of(line.replace(b'"state":"queued"', b'"state":"flown"'))
