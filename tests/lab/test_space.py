"""Where tuning looks: around what was recorded, within what knobs take, and in numbers that people would write."""

from __future__ import annotations

import pytest

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.tune.space import DEFAULT_KNOBS, RecordedSettings, agree, knobs_named, neighbours, single_changes
from hivemind.scheduler.config import AimdConfig, LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS

RECORDED = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=6),), busiest=6)


def values(name: str, *recorded: RecordedSettings) -> list[object]:
    return [each.value for each in single_changes([name], recorded or [RECORDED])]


@pytest.mark.parametrize("name", KNOBS)
def test_values(name: str) -> None:
    """Every knob has values to try, within its range, none of them as recorded."""
    knob = KNOBS[name]
    found = values(name)
    assert found
    for each in found:
        assert isinstance(each, int | float)
        assert knob.lowest <= each <= knob.highest
        assert not knob.whole or each == int(each)
        assert agree((Change(name, each),), [RECORDED])


def test_around_what_was_recorded() -> None:
    """Half and twice as much first, then further off; concurrency in smaller steps."""
    assert values("retry.base_s") == [0.5, 2.0, 0.25, 4.0]
    assert values("max_concurrency") == [3, 9, 4, 12, 2]


def test_knobs_take_turns() -> None:
    """The first value of every knob comes before the second one of any, so that a search cut short has tried all."""
    names = [each.name for each in single_changes(DEFAULT_KNOBS, [RECORDED])]
    first = names[: len(set(names))]
    assert len(set(first)) == len(first)


def test_a_limit_that_was_never_reached() -> None:
    """The most that was ever in flight is tried first."""
    idle = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=40),), busiest=10)
    assert values("max_concurrency", idle)[0] == 10


def test_neighbours() -> None:
    """A value is refined by nearby ones; one that is as recorded isn't among them."""
    assert [each.value for each in neighbours(Change("max_concurrency", 12), [RECORDED])] == [8, 17]
    assert [each.value for each in neighbours(Change("max_concurrency", 3), [RECORDED])] == [2, 4]
    assert [each.value for each in neighbours(Change("max_concurrency", 4), [RECORDED])] == [3, 5]
    assert [each.value for each in neighbours(Change("aimd.beta", 0.3), [RECORDED])] == [0.4]
    assert [each.value for each in neighbours(Change("retry.base_s", 0.7), [RECORDED])] == [0.49]


def test_what_must_go_together() -> None:
    """The first delay isn't longer than the longest, the floor not above the ceiling, changed or recorded."""
    assert agree((Change("retry.base_s", 4.0), Change("retry.max_s", 4.0)), [RECORDED])
    assert not agree((Change("retry.base_s", 7.0), Change("retry.max_s", 4.0)), [RECORDED])
    assert not agree((Change("aimd.floor", 7.0),), [RECORDED])
    assert not agree((Change("max_concurrency", 3), Change("aimd.floor", 4.0)), [RECORDED])


def test_what_changes_nothing() -> None:
    """What is as it was, or nearly, in all recordings isn't tried; in one of them it is enough to differ."""
    other = RecordedSettings(
        SchedulerConfig(retry=RetryConfig(base_s=2)), (LaneConfig("x", "generic", aimd=AimdConfig(1)),), 1
    )
    assert 2.0 in values("retry.base_s", RECORDED, other)
    assert 2.0 not in values("retry.base_s", other)


def test_knobs_named() -> None:
    """By their names or the paper's, each once; what is no knob is refused with what is."""
    assert knobs_named("beta, C_max,aimd.beta") == ("aimd.beta", "max_concurrency")
    assert set(DEFAULT_KNOBS) <= set(KNOBS)
    with pytest.raises(UsageError, match=r"^queue\.max_depth: can't be tuned; there are aimd\.alpha, "):
        knobs_named("queue.max_depth")
    with pytest.raises(UsageError, match=r"^--knobs: name at least one"):
        knobs_named(" , ")
