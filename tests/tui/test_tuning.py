"""Knobs under the fingers: steps, typed numbers, ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind_tui.render.dials import DIALS, NAMES, number, shown_value, stepped, typed


def test_every_knob_has_a_dial() -> None:
    """What can be tuned stands on the page, and nothing else does."""
    assert set(DIALS) == set(KNOBS)


@pytest.mark.parametrize(
    ("name", "value", "steps", "wanted"),
    [
        ("aimd.beta", 0.5, 1, 0.55),
        ("aimd.beta", 0.55, 1, 0.6),
        ("aimd.alpha", 0.3, -1, 0.2),
        ("aimd.alpha", 0.33, 1, 0.4),
        ("max_concurrency", 12.0, 10, 22),
        ("circuit.window", 5.0, -10, 1),
        ("tpm", 400_000.0, 1, 440_000),
        ("tpm", 400_000.0, 10, 600_000),
        ("rpm", 1.0, 1, 2),
        ("rpm", 50.0, -1, 45),
    ],
)
def test_a_press_goes_one_step(name: str, value: float, steps: int, wanted: float) -> None:
    """To the next round value, however odd the present one is."""
    assert stepped(name, value, steps) == pytest.approx(wanted)


@given(st.sampled_from(NAMES), st.floats(0, 1), st.sampled_from([1, -1, 10, -10]))
def test_a_step_stays_in_range_and_goes_the_right_way(name: str, share: float, steps: int) -> None:
    """From anywhere within the range, in the direction asked, in whole numbers where those are wanted."""
    knob = KNOBS[name]
    value = knob.lowest + share * (knob.highest - knob.lowest)
    value = float(round(value)) if knob.whole else value
    try:
        wanted = stepped(name, value, steps)
    except Rejected:
        assert value in (knob.lowest, knob.highest)
        return
    assert knob.lowest <= wanted <= knob.highest
    assert (wanted - value) * steps > 0
    assert not knob.whole or wanted == int(wanted)


def test_without_a_limit_there_is_nothing_to_step_from() -> None:
    """0 means no limit; a number has to be typed."""
    with pytest.raises(Rejected, match="no limit to step from"):
        stepped("rpm", 0.0, 1)
    assert shown_value("rpm", 0.0) == "no limit"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tpm", "400k", 400_000),
        ("tpm", "1.5M", 1_500_000),
        ("aimd.latency_target_s", " 2.5s ", 2.5),
        ("rpm", "1,000", 1000),
        ("tpm", "1,234,567", 1_234_567),
        ("aimd.beta", "0,8", 0.8),
        ("aimd.latency_target_s", "2,5 s", 2.5),
        ("tpm", "1,5M", 1_500_000),
    ],
)
def test_numbers_are_typed_as_people_write_them(name: str, text: str, value: float) -> None:
    """With thousands, decimal commas, units and blanks."""
    assert typed(name, text) == value


@pytest.mark.parametrize("text", ["", "fast", "1e999", "nan", "--1", "k", "0,8,1", "1,00.5", "0.8,1"])
def test_what_is_no_number_is_said_so(text: str) -> None:
    """One line that shows what was typed and what would be right."""
    with pytest.raises(Rejected, match="is no number"):
        typed("aimd.beta", text)


@pytest.mark.parametrize(
    ("name", "text"), [("aimd.beta", "8"), ("aimd.beta", "8,0"), ("max_concurrency", "1,5"), ("rpm", "-1")]
)
def test_what_is_out_of_range_is_refused(name: str, text: str) -> None:
    """The reason names the range."""
    with pytest.raises(Rejected, match=r"must be a .* from "):
        typed(name, text)


def test_numbers_have_no_more_digits_than_they_need() -> None:
    """Binary fractions don't show."""
    assert [number(value) for value in (0.1 + 0.2, 400_000.0, 12.0, 0.55)] == ["0.3", "400,000", "12", "0.55"]
