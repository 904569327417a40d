"""What is tuned by hand can be written down: each knob is a setting, and its range lies within the setting's."""

from __future__ import annotations

from typing import Any

import pytest

from hivemind.scheduler.operator.knobs import KNOBS, Knob
from hivemind.settings.checks import checked
from hivemind.settings.options import find


@pytest.mark.parametrize("knob", KNOBS.values(), ids=list(KNOBS))
def test_settings_take_what_a_knob_may_have(knob: Knob) -> None:
    """Under the same name, at both ends of the range and, where it means no limit, at 0."""
    for value in (knob.lowest, knob.highest, *([0] if knob.zero_is_none else [])):
        _taken(knob, value)


def _taken(knob: Knob, value: float) -> None:
    option = find(tuple(knob.name.split(".")))
    assert option is not None
    assert option.kind is (int if knob.whole else float)
    section, _, key = knob.name.rpartition(".")
    values: dict[str, Any] = {key: int(value) if knob.whole else value}
    if knob.name == "retry.base_s":
        values["max_s"] = KNOBS["retry.max_s"].highest
    if knob.name == "retry.max_s":
        values["base_s"] = KNOBS["retry.base_s"].lowest
    settings = checked({section: values} if section else values)
    held = getattr(settings, section) if section else settings
    assert getattr(held, key) == value
