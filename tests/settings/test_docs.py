"""The text under each setting."""

from __future__ import annotations

from hivemind.settings.model import Settings
from hivemind.settings.options import described
from hivemind.settings.sections import CircuitSettings


class Fruit:
    """Documented."""

    ripe: bool = True
    """Whether it can
    be eaten."""
    stones: int = 1
    name: str = ""
    """What it is called."""


class Plum(Fruit):
    """Inherits one text, and has one of its own."""

    stones: int = 1
    """It has one."""


def test_an_attribute_has_the_text_under_it() -> None:
    """The string after it, unindented; none where something else follows."""
    assert described(Fruit, "ripe") == "Whether it can\nbe eaten."
    assert described(Fruit, "stones") == ""
    assert described(Fruit, "colour") == ""


def test_a_text_is_inherited() -> None:
    """Where a class says nothing of an attribute, the class that it has it from does."""
    assert described(Plum, "name") == "What it is called."
    assert described(Plum, "stones") == "It has one."


def test_settings_have_theirs() -> None:
    """A setting of each module is found."""
    assert described(Settings, "host") == "Address to listen on."
    assert described(CircuitSettings, "window") == "Results looked at."
