"""What changed settings would have done with a recording: every figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from hivemind.errors import UsageError
from hivemind.journal.figures import Figures
from hivemind.lab.foresight.draws import Drawn, Job, Runs, draws_of, one_by_one, part_drawn_from, part_of
from hivemind.lab.foresight.heldout import UNCHECKED, Figure, HeldOut
from hivemind.lab.foresight.ranges import Evidence
from hivemind.lab.simulate.overrides import Change, questions
from hivemind.lab.simulate.recording import Recording
from hivemind.scheduler.types import Price

EXTRAPOLATED = 0.1
"""Error added for a simulation with e times as much in flight as was recorded."""
_UNSEEN = 0.06
"""Error added for what HiveMind makes of traffic that it didn't schedule: five crews of Claude Code that were recorded
without it and then ran with it (`tests/clients/test_foretelling.py`) had total waits up to 13 % off."""
_LEAST_SHARE = 0.02
"""Waits and times below this share of the wall time are too small for shares."""
_BY_CHANCE = 0.1
"""In so many draws, as a share, fewer agents may finish by chance."""


class Prediction(Struct, frozen=True):
    """The recorded run, the same with the changes and its own luck, and draws of both."""

    changes: tuple[Change, ...]
    real: Figures
    """As it was recorded."""
    recorded: Figures
    """What the changed run is compared with: the recorded run, or for a recording made without HiveMind, or by several
    proxies apart, its simulation."""
    replayed: Figures
    """With the recorded settings and luck: as recorded, as far as the models reproduce it."""
    own: Figures
    """With the changes and the recorded luck."""
    drawn: Drawn
    held_out: HeldOut
    """What the models made of parts of the recording that they hadn't seen."""

    @property
    def simulated(self) -> bool:
        """The changed run is compared with a simulation rather than with the recorded run."""
        return self.recorded is not self.real

    def evidence(self, of: Figure, *, adds_up: bool, least: float) -> Evidence | None:
        """Return what is known of a figure; None: some run doesn't have it."""
        recorded, replayed, own = of(self.recorded), of(self.replayed), of(self.own)
        before, after = ([of(run) for run in runs] for runs in (self.drawn.before, self.drawn.after))
        if recorded is None or replayed is None or own is None:
            return None
        # What the models don't reproduce of the recording is no effect of the changes.
        own = recorded * own / replayed if min(replayed, own) >= least else max(0.0, recorded + own - replayed)
        some_before = [each for each in before if each is not None]
        some_after = [each for each in after if each is not None]
        if len(some_before) < len(before) or len(some_after) < len(after):
            return None
        beyond = self.beyond
        extrapolated = EXTRAPOLATED * math.log(beyond[1] / beyond[0]) if beyond is not None else 0.0
        unseen = _UNSEEN if self.simulated and not self.changes else 0.0
        drawn, error = self.drawn, math.hypot(self.held_out.error(of, least=least), extrapolated, unseen)
        return Evidence(recorded, own, some_before, some_after, drawn.share, drawn.parts, error, least, adds_up)

    @property
    def beyond(self) -> tuple[int, int] | None:
        """The most in flight as recorded, and with the changes where that is more; None: it isn't."""
        seen, most = max(1, self.real.busiest), self.own.busiest
        return (seen, most) if most > seen else None

    @property
    def least_wait_s(self) -> float:
        """A total wait below this is too little for shares."""
        return max(1.0, _LEAST_SHARE * self.recorded.wall_s)

    @property
    def asks_for_agents(self) -> bool:
        """The changes alter how many agents there are, so that the runs do other work."""
        return any(each.what == "agents" for each in questions(self.changes))

    @property
    def finishes_less(self) -> bool:
        """Fewer agents finish, or fewer requests are answered, so that no other figure can be better."""
        if self.asks_for_agents:
            return _unfinished(self.own) > _unfinished(self.replayed)
        return loses(self.replayed, self.own) or self.draws_that_lose > _BY_CHANCE * len(self.drawn.before)

    @property
    def draws_that_lose(self) -> int:
        """Return in how many draws fewer agents finish; 0 if more do on average."""
        lost = [one.finished - two.finished for one, two in zip(self.drawn.before, self.drawn.after, strict=True)]
        return sum(each > 0 for each in lost) if sum(lost) > 0 else 0


def loses(before: Figures, after: Figures) -> bool:
    """Return whether fewer agents finish, or fewer requests are answered."""
    return after.finished < before.finished or after.answered < before.answered


def _unfinished(run: Figures) -> float:
    return 1 - run.finished / run.agents if run.agents else 0.0


def predict(
    recording: Recording,
    changes: Sequence[Change],
    *,
    price: Price | None = None,
    runs: Runs = one_by_one,
    draws: int | None = None,
    checked: HeldOut = UNCHECKED,
) -> Prediction:
    """Foretell what changes do to a recording. Takes seconds.

    `checked`: what :func:`~hivemind.lab.foresight.heldout.held_out` found of this recording.

    Raises: UsageError: the changes don't go together, or can't be made.
    """
    if recording.unsaid:
        raise UsageError(f"{recording.name}: what HiveMind would have changed can't be said: {recording.unsaid}")
    made = tuple(changes)
    count = draws or draws_of(recording)
    simulated = recording.began.foreign or recording.apart
    jobs = [Job(made), Job(()), *(Job(each, draw) for draw in range(count) for each in ((), made))]
    own, replayed, *rest = runs(recording, jobs, price)
    recorded = replayed if simulated else recording.figures
    share = len(part_drawn_from(recording, 0).trace.requests) / len(recording.trace.requests)
    parts = tuple(part_of(recording, draw) for draw in range(count))
    drawn = Drawn(tuple(rest[::2]), tuple(rest[1::2]), share, parts)
    return Prediction(made, recording.figures, recorded, replayed, own, drawn, checked)
