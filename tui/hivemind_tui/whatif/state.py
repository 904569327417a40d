"""The state of the what-if page as one value, and how keys and answers change it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change, parse_changes, scenario
from hivemind.lab.simulate.questions import all_names, is_question
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind_tui.render.dials import NAMES, reach, stepped, typed
from hivemind_tui.whatif.protocol import Message, Progress, RecordingSummary, WhatIfFailed, WhatIfResult

QUESTIONS = tuple(all_names())
"""What else can be asked: about the provider, and about the agents."""


class WhatIf(Struct, frozen=True):
    """A what-if: the recording, the changed settings, and the result."""

    path: str = ""
    """Of the recording's first file; empty: none was read yet."""
    summary: RecordingSummary | None = None
    """What it holds; None until it is read."""
    upstream: str = ""
    """Whose knobs are shown as those recorded."""
    at_hand: Mapping[str, float] = field(default_factory=dict)
    """The knobs as the screen shows them, until the recording is read."""
    changes: tuple[Change, ...] = ()
    name: str = NAMES[0]
    """Where the cursor is."""
    choosing: bool = True
    """Settings are chosen; else the result is shown."""
    stage: Progress | None = None
    """What is being computed; None: nothing."""
    trying: bool = False
    """What is computed is a simulation, not just the reading of the recording."""
    outcome: WhatIfResult | None = None
    trouble: str = ""
    """Why there is no answer."""

    @property
    def bases(self) -> Mapping[str, Mapping[str, float]]:
        """By upstream, the knobs that the recording began with; the upstream shown comes first."""
        known = self.summary.upstreams if self.summary is not None else {}
        if not known:
            return {self.upstream: self.at_hand}
        return dict(sorted(known.items(), key=lambda item: item[0] != self.upstream))

    @property
    def base(self) -> Mapping[str, float]:
        """The knobs of the upstream shown, from which steps begin."""
        return next(iter(self.bases.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """What is in the list: the knobs, the questions, then other changed settings."""
        listed = (*NAMES, *QUESTIONS)
        return (*listed, *(change.name for change in self.changes if change.name not in listed))

    @property
    def knobs(self) -> Mapping[str, float]:
        """The changes that can be made while a proxy runs."""
        return {each.name: _number(each) for each in self.changes if each.name in KNOBS}

    @property
    def others(self) -> tuple[Change, ...]:
        """The changes that need a restart or another command."""
        return tuple(each for each in self.changes if each.name not in KNOBS and not is_question(each.name))

    @property
    def asked(self) -> tuple[Change, ...]:
        """The changes that are of the provider or the agents, which no setting makes."""
        return tuple(each for each in self.changes if is_question(each.name))

    @property
    def stale(self) -> bool:
        """Whether the result is of other settings than those chosen now."""
        return self.outcome is not None and self.outcome.answer.changes != self.changes

    def value(self, name: str) -> float | None:
        """Return a knob's value to simulate; None if it isn't known yet."""
        return self.knobs.get(name, self.base.get(name))

    def with_message(self, message: Message) -> Self:
        """Return the state after a message of the simulation process."""
        match message:
            case Progress():
                return replace(self, stage=message)
            case WhatIfResult():
                return replace(self, outcome=message, stage=None, trying=False, trouble="")
            case WhatIfFailed(why):
                return replace(self, stage=None, trying=False, trouble=why)
        return replace(self, summary=message, stage=None, trying=self.trying, trouble="")

    def move(self, step: int) -> Self:
        """Move the cursor so many rows down, or (negative) up."""
        names = self.names
        at = names.index(self.name) if self.name in names else 0
        return replace(self, name=names[max(0, min(len(names) - 1, at + step))], choosing=True)

    def turn(self, steps: int) -> Self:
        """Turn the knob under the cursor a step up or down, or a large one (10, -10). Raises: Rejected."""
        name = self.name
        if name not in KNOBS:
            raise Rejected(f"{name} has no steps; : takes a value")
        value = self.value(name)
        if value is None:
            raise Rejected("the recording isn't read yet")
        return self.with_change(Change(name, float(stepped(name, value, steps))))

    def typed_in(self, text: str) -> Self:
        """Apply a value typed for the setting under the cursor, or any setting as `NAME=VALUE`. Raises: Rejected."""
        name, equals, value = text.partition("=")
        name, value = (name.strip(), value.strip()) if equals else (self.name, text.strip())
        if name in KNOBS:
            return self.with_change(Change(name, float(typed(name, value))))
        try:
            (change,) = parse_changes([f"{name}={value}"])
        except UsageError as error:
            raise Rejected(str(error)) from None
        if change.name in KNOBS and change.value is None:
            raise Rejected(f"{change.name} goes from {reach(change.name)}")
        return self.with_change(change)

    def with_scenario(self, path: Path) -> Self:
        """Add the changes of a scenario file. Raises: Rejected: with its name."""
        made = self
        try:
            for text in scenario(path):
                made = made.typed_in(text)
        except (UsageError, Rejected) as error:
            raise Rejected(f"{path.name}: {error}") from None
        return made

    def with_change(self, change: Change) -> Self:
        """Add a change, which is for every upstream; a knob with its recorded value at each of them is no change."""
        kept = [each for each in self.changes if each.name != change.name]
        recorded = {base.get(change.name) for base in self.bases.values()}
        if change.name not in KNOBS or recorded != {_number(change)}:
            kept.append(change)
        # Knobs in the page's order, then the other changes.
        kept.sort(key=lambda each: NAMES.index(each.name) if each.name in NAMES else len(NAMES))
        return replace(self, changes=tuple(kept), name=change.name, choosing=True, trouble="")

    def without(self, name: str) -> Self:
        """Drop the change of a setting."""
        names = self.names
        kept = tuple(each for each in self.changes if each.name != name)
        left = replace(self, changes=kept, choosing=True)
        return left if left.name in left.names else replace(left, name=names[max(0, names.index(self.name) - 1)])


def _number(change: Change) -> float:
    assert isinstance(change.value, int | float)
    return float(change.value)
