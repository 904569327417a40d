"""How often the screen is drawn."""

from __future__ import annotations

from hivemind_tui.loop.loop_lag import Pace, wanted_fps


def test_slower_over_ssh() -> None:
    """Over ssh the screen draws half as often."""
    assert wanted_fps({}) == 8
    assert wanted_fps({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}) == 4


def test_dear_frames_halve_the_rate_and_cheap_ones_bring_it_back() -> None:
    """Frames over 8 ms halve the rate down to one a second; cheap ones double it up to the rate wanted."""
    pace = Pace(8.0)
    rates = []
    for _ in range(200):
        pace.drawn(0.02)
        rates.append(pace.fps)
    assert sorted(set(rates), reverse=True) == [8.0, 4.0, 2.0, 1.0]
    for _ in range(200):
        pace.drawn(0.001)
    assert pace.fps == 8.0


def test_a_late_loop_counts_beyond_the_usual() -> None:
    """A loop that is a little late is a busy machine; one that is very late has too much to do."""
    usual, late = Pace(8.0), Pace(8.0)
    for _ in range(100):
        usual.drawn(0.001, late_s=0.02)
        late.drawn(0.001, late_s=0.1)
    assert usual.fps == 8.0
    assert late.fps == 1.0


def test_frames_come_at_the_rate() -> None:
    """Asked at every tick of a sixteenth of a second, a pace of 4 says yes to every fourth."""
    pace = Pace(4.0)
    due = [pace.due(100 + tick / 16) for tick in range(160)]
    assert sum(due) == 40


def test_a_rate_asked_for_holds_at_once() -> None:
    """A screen that nobody looks at slows down with the next frame."""
    pace = Pace(8.0)
    pace.want(1.0)
    assert (pace.fps, pace.wanted) == (1.0, 1.0)
