"""What the what-if page knows and where its cursor is, as one value, and what keys and answers make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hivemind.errors import UsageError
from hivemind.lab.tune.overrides import Change, parse_changes
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind_tui.render.dials import NAMES, reach, stepped, typed
from hivemind_tui.whatif.protocol import Looked, Message, Outcome, Refused, Stage


@dataclass(frozen=True, slots=True)
class Sheet:
    """One what-if: the recording, the settings that are to be others, and what came of it."""

    path: str = ""
    """Of the recording's first file; empty: none was looked at yet."""
    looked: Looked | None = None
    """What it holds; None until it is read."""
    upstream: str = ""
    """Whose knobs are shown as those recorded."""
    at_hand: Mapping[str, float] = field(default_factory=dict)
    """The knobs as the screen shows them, until the recording is read."""
    changes: tuple[Change, ...] = ()
    name: str = NAMES[0]
    """Where the cursor is."""
    choosing: bool = True
    """Settings are chosen; else what came of them is looked at."""
    stage: Stage | None = None
    """What is being computed; None: nothing."""
    trying: bool = False
    """What is computed is a simulation, not just the reading of the recording."""
    outcome: Outcome | None = None
    trouble: str = ""
    """Why there is no answer."""

    @property
    def base(self) -> Mapping[str, float]:
        """The knobs that the recording began with."""
        if self.looked is None or not self.looked.upstreams:
            return self.at_hand
        known = self.looked.upstreams
        return known[self.upstream] if self.upstream in known else next(iter(known.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """Everything in the list: the knobs, then whatever else is changed."""
        return (*NAMES, *(change.name for change in self.changes if change.name not in NAMES))

    @property
    def knobs(self) -> Mapping[str, float]:
        """Of the changes those that can be tuned while a proxy runs."""
        return {each.name: _number(each) for each in self.changes if each.name in KNOBS}

    @property
    def others(self) -> tuple[Change, ...]:
        """The other ones."""
        return tuple(change for change in self.changes if change.name not in KNOBS)

    @property
    def stale(self) -> bool:
        """What is shown came of other settings than those chosen now."""
        return self.outcome is not None and self.outcome.changes != self.changes

    def value(self, name: str) -> float | None:
        """A knob as it is to be; None: nobody knows it yet."""
        return self.knobs.get(name, self.base.get(name))


def told(sheet: Sheet, message: Message) -> Sheet:
    """What the simulating process said."""
    match message:
        case Stage():
            return replace(sheet, stage=message)
        case Outcome():
            return replace(sheet, outcome=message, stage=None, trying=False, trouble="")
        case Refused(why):
            return replace(sheet, stage=None, trying=False, trouble=why)
    return replace(sheet, looked=message, stage=None, trying=sheet.trying, trouble="")


def move(sheet: Sheet, step: int) -> Sheet:
    """So many rows down, or (negative) up."""
    names = sheet.names
    at = names.index(sheet.name) if sheet.name in names else 0
    return replace(sheet, name=names[max(0, min(len(names) - 1, at + step))], choosing=True)


def turn(sheet: Sheet, steps: int) -> Sheet:
    """The knob under the cursor a step up or down, or a large one (10, -10). Raises: Rejected."""
    name = sheet.name
    if name not in KNOBS:
        raise Rejected(f"{name} has no steps; o types a value")
    value = sheet.value(name)
    if value is None:
        raise Rejected("the recording isn't read yet")
    return with_change(sheet, Change(name, float(stepped(name, value, steps))))


def typed_in(sheet: Sheet, text: str) -> Sheet:
    """What was typed: a value for the setting under the cursor, or any setting as `NAME=VALUE`. Raises: Rejected."""
    name, equals, value = text.partition("=")
    name, value = (name.strip(), value.strip()) if equals else (sheet.name, text.strip())
    if name in KNOBS:
        knob, number = KNOBS[name], typed(name, value)
        if not (knob.lowest <= number <= knob.highest or (knob.zero_is_none and not number)):
            raise Rejected(f"{name} goes from {reach(name)}")
        return with_change(sheet, Change(name, float(round(number) if knob.whole else number)))
    try:
        (change,) = parse_changes([f"{name}={value}"])
    except UsageError as error:
        raise Rejected(str(error)) from None
    if change.name in KNOBS and change.value is None:
        raise Rejected(f"{change.name} goes from {reach(change.name)}")
    return with_change(sheet, change)


def with_change(sheet: Sheet, change: Change) -> Sheet:
    """This change among the others; a knob that is to be as it was recorded is none."""
    kept = [each for each in sheet.changes if each.name != change.name]
    if change.name not in KNOBS or sheet.base.get(change.name) != _number(change):
        kept.append(change)
    return replace(sheet, changes=in_order(kept), name=change.name, choosing=True, trouble="")


def without(sheet: Sheet, name: str) -> Sheet:
    """As recorded again."""
    names = sheet.names
    kept = tuple(each for each in sheet.changes if each.name != name)
    left = replace(sheet, changes=kept, choosing=True)
    return left if left.name in left.names else replace(left, name=names[max(0, names.index(sheet.name) - 1)])


def in_order(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Knobs as they stand on the page, the others after them."""
    order = {name: index for index, name in enumerate(NAMES)}
    return tuple(sorted(changes, key=lambda each: order.get(each.name, len(order))))


def words(changes: Sequence[Change]) -> str:
    """Changes as a command line has them."""
    return ", ".join(map(str, changes))


def _number(change: Change) -> float:
    assert isinstance(change.value, int | float)
    return float(change.value)
