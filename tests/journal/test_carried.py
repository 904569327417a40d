"""The line that tells how the world stands, made in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world.histories import OPS, History, Op, price
from world.kit import told

from hivemind.journal.codec import line_of
from hivemind.journal.write import writer
from hivemind.journal.write.writer import carried_line
from hivemind.world.state import Carried

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
