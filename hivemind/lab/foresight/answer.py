"""The answer to a what-if, as it is read: a sentence, the figures, what the models learned, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hivemind.lab.foresight.foretold import WALL, Foretold, foretold, less_is_done, named
from hivemind.lab.foresight.notes import doubts, held_out_text, notes
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.sentence import reasons, sentence
from hivemind.lab.simulate.overrides import Change
from hivemind.lab.simulate.recording import Recording

FAR = 0.2
"""Models that are further off than this on what they haven't seen are marked."""


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
    """Likewise in total wait."""
    checked: str
    """The same in a sentence."""
    doubts: tuple[str, ...]
    """What the recording can't show; what speaks against an answer stands before it."""
    notes: tuple[str, ...]

    @property
    def far_off(self) -> bool:
        """The models were far off on what they hadn't seen, or couldn't be checked."""
        return max(self.off_wall or 0.0, self.off_wait or 0.0) > FAR or (self.off_wall is None and bool(self.checked))


def answer(recording: Recording, prediction: Prediction) -> Answer:
    """Return what people read of a prediction."""
    figures = foretold(prediction)
    held_out = prediction.held_out
    off_wall = held_out.off(lambda run: run.wall_s, least=0.1)
    off_wait = held_out.off(lambda run: run.waited_s, least=prediction.least_wait_s)
    moved = named(figures, WALL).difference
    clear = moved is not None and not moved.low <= 0 <= moved.high
    return Answer(
        changes=prediction.changes,
        sentence=sentence(prediction, figures, apart=recording.apart),
        finishes_less=less_is_done(prediction),
        reason=reasons(prediction, sooner=moved.value < 0)[0] if clear and moved is not None else "",
        titles=_titles(recording, prediction),
        figures=tuple(figures),
        shows=tuple(shown(recording)),
        off_wall=off_wall,
        off_wait=off_wait,
        checked=held_out_text(recording, off_wall, off_wait),
        doubts=tuple(doubts(recording, prediction.changes)),
        notes=tuple(notes(recording, prediction, figures)),
    )


def shown(recording: Recording) -> Iterator[str]:
    """Yield what was fitted to a recording, a sentence for each cause, of several upstreams with their names."""
    upstreams = {each.lane.upstream for each in recording.providers.values()}
    said = (
        f"{each.lane.upstream}: {text}" if len(upstreams) > 1 else text
        for each in recording.providers.values()
        for text in each.sentences()
    )
    yield from dict.fromkeys(said)
    yield from recording.clients.sentences()


def _titles(recording: Recording, prediction: Prediction) -> tuple[str, str]:
    scheduled = "as one" if recording.apart else "with HiveMind"
    if prediction.changes:
        return scheduled if prediction.simulated else "recorded", "changed"
    return "recorded", scheduled if prediction.simulated else "another run"
