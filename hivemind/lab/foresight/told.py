"""An answer to a what-if as it is shown, without what makes it: a screen reads it from another process."""

from __future__ import annotations

from msgspec import Struct

from hivemind.lab.comparison import Unit, Verdict
from hivemind.lab.foresight.ranges import Range
from hivemind.lab.simulate.overrides import Change

FAR = 0.2
"""Models that are further off than this on what they haven't seen are marked."""


class Foretold(Struct, frozen=True):
    """One figure of a prediction."""

    name: str
    unit: Unit
    recorded: float | None
    """None: the run doesn't have it."""
    changed: Range | None
    """With the changes."""
    difference: Range | None
    """None: there is nothing to compare, or no change."""
    by_share: bool
    """The difference is a share of what was recorded; otherwise it has the figure's unit."""
    verdict: Verdict
    unpriced: bool = False
    """Of some tokens no price is known."""

    @property
    def is_told(self) -> bool:
        """It is more than nothing in some run."""
        return bool(self.recorded or (self.changed is not None and self.changed.high))


class Answer(Struct, frozen=True):
    """A prediction in words and figures."""

    changes: tuple[Change, ...]
    sentence: str
    finishes_less: bool
    """Fewer agents finish or fewer requests are answered, so nothing else counts as better."""
    reason: str
    """What mainly makes the run end sooner or later: a cause of waits, or `answers`; empty: nothing is seen."""
    titles: tuple[str, str]
    """What the figures' two runs are, as in `recorded` and `changed`."""
    figures: tuple[Foretold, ...]
    shows: tuple[str, ...]
    """What the recording shows, a sentence for each cause."""
    off_wall: float | None
    """By what share the models were off in wall time on a part that the fit hadn't seen; None: it isn't known."""
    off_wait: float | None
    """The same of the total wait."""
    checked: str
    """The same in a sentence."""
    doubts: tuple[str, ...]
    """What the recording can't show; what speaks against an answer stands before it."""
    notes: tuple[str, ...]

    @property
    def far_off(self) -> bool:
        """The models were far off on what they hadn't seen, or couldn't be checked."""
        return max(self.off_wall or 0.0, self.off_wait or 0.0) > FAR or (self.off_wall is None and bool(self.checked))
