"""The concurrency curve and its marks."""

from __future__ import annotations

import math

import pytest
from world.kit import LANE, commanded, sampled, state, told

from hivemind.scheduler import events as ev

OTHER = state(lane="other:1", upstream="other")


def test_the_curve_has_about_a_point_a_second() -> None:
    """Samples in between replace the last point; a cut gets one of its own, with its cause."""
    world = told(*(sampled(at, state(level)) for at, level in ((0.0, 8.0), (0.5, 7.0), (1.0, 6.0))))
    world.apply(ev.LevelChanged(1.1, LANE, 3.0, "rate_limited"))
    world.apply(sampled(1.2, state(3.0)))
    (lane,) = world.snapshot(2.0).lanes
    assert [(point.at, point.level, point.mark) for point in lane.curve] == [
        (0.0, 7.0, ""),
        (1.0, 6.0, ""),
        (1.2, 3.0, "rate_limited"),
    ]


def test_a_level_without_limit_is_drawn_at_what_flies() -> None:
    """Infinity has no place on a plot."""
    (lane,) = told(sampled(0.0, state(math.inf))).snapshot(1.0).lanes
    assert lane.curve[0].level == 2.0


@pytest.mark.parametrize(
    ("command", "marks"),
    [
        (commanded("Tune", knob="aimd.beta", value=0.7, upstream="up"), ["aimd.beta=0.7", ""]),
        (commanded("Tune", knob="aimd.beta", value=0.7, upstream=None), ["aimd.beta=0.7", "aimd.beta=0.7"]),
        (commanded("Tune", knob="rpm", value=0.0, upstream="other"), ["", "rpm=none"]),
        (commanded("Tune", knob="tpm", value=2_000_000.0, upstream="other"), ["", "tpm=2000000"]),
        (commanded("PinLevel", level=6.0, lane=LANE), ["level=6", ""]),
        (commanded("PinLevel", level=None, lane=None), ["level=auto", "level=auto"]),
        (commanded("PauseAdmissions", paused=True), ["", ""]),
    ],
)
def test_a_hand_on_the_dial_is_marked_on_the_lanes_it_moves(command: ev.Commanded, marks: list[str]) -> None:
    """What AIMD's level did because of it is not marked a second time."""
    followed = ev.LevelChanged(1.1, LANE, 3.0, "operator")
    world = told(sampled(0.0, state(), OTHER), followed, command, sampled(1.2, state(), OTHER))
    assert [lane.curve[-1].mark for lane in world.snapshot(2.0).lanes] == marks


def test_a_lane_that_is_gone_takes_its_curve_with_it() -> None:
    """So does one whose mark has no point to stand on."""
    world = told(sampled(0.0, state(), OTHER), ev.LevelChanged(0.5, OTHER.lane, 3.0, "timeout"), sampled(1.0, state()))
    world.apply(sampled(2.0, state(), OTHER))
    curves = {lane.state.lane: lane.curve for lane in world.snapshot(3.0).lanes}
    assert [len(curve) for curve in curves.values()] == [3, 1]
    assert curves[OTHER.lane][0].mark == ""


def test_a_cut_tells_the_level_before_and_after_it() -> None:
    """Not those of the points around it: between them the level grew to 1.375, was cut to 1.0 and grew again."""
    world = told(sampled(0.0, state(1.0)))
    for at, level, cause in ((0.2, 1.375, "grow"), (0.4, 1.0, "truncated"), (0.8, 1.1, "grow")):
        world.apply(ev.LevelChanged(at, LANE, level, cause))
    world.apply(sampled(1.0, state(1.1)))
    world.apply(sampled(1.5, state(1.1)))
    (lane,) = world.snapshot(2.0).lanes
    assert [(point.level, point.mark, point.cut) for point in lane.curve] == [
        (1.0, "", None),
        (1.1, "truncated", (1.375, 1.0)),
    ]


def test_cuts_between_two_points_are_one() -> None:
    """From the level before the first to that after the last, with the last one's cause."""
    world = told(sampled(0.0, state(8.0)))
    world.apply(ev.LevelChanged(0.2, LANE, 4.0, "rate_limited"))
    world.apply(ev.LevelChanged(0.4, LANE, 2.0, "circuit"))
    world.apply(sampled(1.0, state(2.0)))
    (lane,) = world.snapshot(1.0).lanes
    assert (lane.curve[-1].mark, lane.curve[-1].cut) == ("circuit", (8.0, 2.0))


def test_a_cut_from_an_unknown_level_has_none() -> None:
    """A journal may begin with it."""
    world = told(ev.LevelChanged(0.2, LANE, 4.0, "rate_limited"), sampled(1.0, state(4.0)))
    (lane,) = world.snapshot(1.0).lanes
    assert (lane.curve[-1].mark, lane.curve[-1].cut) == ("rate_limited", None)


def test_a_note_is_a_mark_on_every_lane() -> None:
    """Whatever the lanes are."""
    noted = commanded("AddNote", at=2.0, text="new plan")
    world = told(sampled(1.0, state(), state(lane="other:1")), noted, sampled(2.5, state(), state(lane="other:1")))
    assert [lane.curve[-1].mark for lane in world.snapshot(3.0).lanes] == ["note=new plan"] * 2


def test_a_lane_is_as_the_events_since_its_sample_say() -> None:
    """Level, circuit and pause are right at the very event, where a recording stops; the next sample replaces them."""
    world = told(sampled(0.0, state(8.0)), ev.LevelChanged(0.1, LANE, 3.0, "timeout"))
    world.apply(ev.CircuitChanged(0.2, LANE, "open", "errors", 10.0))
    world.apply(ev.LaneRateLimited(0.2, LANE, 4.0, "429"))
    (lane,) = world.snapshot(0.2).lanes
    assert (lane.state.level, lane.state.circuit) == (3.0, "open")
    assert (lane.state.circuit_reopens_in_s, lane.state.rate_limited_for_s) == pytest.approx((10.0, 4.0))
    (lane,) = world.snapshot(2.2).lanes
    assert (lane.state.circuit_reopens_in_s, lane.state.rate_limited_for_s) == pytest.approx((8.0, 2.0))
    world.apply(ev.CircuitChanged(2.3, LANE, "closed", "probe"))
    world.apply(ev.LaneReleased(2.3, LANE))
    (lane,) = world.snapshot(2.4).lanes
    assert (lane.state.circuit, lane.state.circuit_reopens_in_s, lane.state.rate_limited_for_s) == ("closed", None, 0.0)
    world.apply(sampled(3.0, state(5.0)))
    assert world.snapshot(3.0).lanes[0].state == state(5.0, active=0, waiting=0, retrying=0)
