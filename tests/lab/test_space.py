"""Where tuning looks: round what was recorded, within what knobs take, and in numbers that people would write."""

from __future__ import annotations

import pytest

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.tune.search import (
    DEFAULT_KNOBS,
    Dimension,
    RecordedSettings,
    changes_of,
    knobs_named,
    significant_changes,
    space,
)
from hivemind.scheduler.config import AimdConfig, LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS

RECORDED = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=6),), busiest=6)


def dimension(name: str, *recorded: RecordedSettings) -> Dimension:
    (found,) = space([name], recorded or [RECORDED])
    return found


@pytest.mark.parametrize("name", KNOBS)
def test_ranges(name: str) -> None:
    """Every knob has a range that is not empty, lies within the knob's own, and holds what was recorded."""
    found, knob = dimension(name), KNOBS[name]
    assert knob.lowest <= found.low < found.high <= knob.highest
    assert found.low <= found.start <= found.high
    assert not found.whole or (found.low, found.high) == (int(found.low), int(found.high))


def test_round_what_was_recorded() -> None:
    """Down to an eighth and up to eight times, on a logarithmic scale; four times as many requests in flight."""
    assert dimension("retry.base_s") == Dimension("retry.base_s", 0.125, 8, False, True, 1)
    assert dimension("max_concurrency") == Dimension("max_concurrency", 1, 24, True, True, 6)


def test_several_recordings() -> None:
    """The range covers those round each of them."""
    other = RecordedSettings(SchedulerConfig(), (LaneConfig("there", "generic", max_concurrency=40),), busiest=40)
    found = dimension("max_concurrency", RECORDED, other)
    assert (found.low, found.high, found.start) == (1, 160, 6)


def test_no_limit_recorded() -> None:
    """Where there was no limit, the range is round what there was in flight."""
    free = RecordedSettings(SchedulerConfig(), (LaneConfig("here", "generic", max_concurrency=0),), busiest=10)
    assert dimension("max_concurrency", free) == Dimension("max_concurrency", 1, 40, True, True, 10)


def test_few_digits() -> None:
    """What is tried is what somebody would write down, within the range, whole where it must be."""
    dimensions = space(["aimd.beta", "max_concurrency", "retry.max_s"], [RECORDED])
    params = {"aimd.beta": 0.71234, "max_concurrency": 22.7, "retry.max_s": 123.4}
    assert changes_of(params, dimensions) == (
        Change("aimd.beta", 0.71),
        Change("max_concurrency", 23),
        Change("retry.max_s", 120.0),
    )


def test_what_must_go_together() -> None:
    """The first delay isn't longer than the longest, the floor not above the ceiling."""
    names = ("retry.base_s", "retry.max_s", "aimd.floor", "max_concurrency")
    params = {"retry.base_s": 7.0, "retry.max_s": 4.0, "aimd.floor": 2.0, "max_concurrency": 1.0}
    found = {change.name: change.value for change in changes_of(params, space(names, [RECORDED]))}
    assert found == {"retry.base_s": 4, "retry.max_s": 4, "aimd.floor": 1, "max_concurrency": 1}


def test_what_changes_nothing() -> None:
    """What is as it was, or nearly, in all recordings isn't a change; in one of them is enough to be one."""
    other = RecordedSettings(
        SchedulerConfig(retry=RetryConfig(base_s=2)), (LaneConfig("x", "generic", aimd=AimdConfig(1)),), 1
    )
    changes = (Change("retry.base_s", 1.05), Change("aimd.beta", 0.52), Change("aimd.alpha", 2.0))
    assert significant_changes(changes, [RECORDED]) == (Change("aimd.alpha", 2.0),)
    assert significant_changes(changes, [RECORDED, other]) == (Change("retry.base_s", 1.05), Change("aimd.alpha", 2.0))


def test_knobs_named() -> None:
    """By their names or the paper's, each once; what is no knob is refused with what is."""
    assert knobs_named("beta, C_max,aimd.beta") == ("aimd.beta", "max_concurrency")
    assert set(DEFAULT_KNOBS) <= set(KNOBS)
    with pytest.raises(UsageError, match=r"^queue\.max_depth: can't be tuned; there are aimd\.alpha, "):
        knobs_named("queue.max_depth")
    with pytest.raises(UsageError, match=r"^--knobs: name at least one"):
        knobs_named(" , ")
