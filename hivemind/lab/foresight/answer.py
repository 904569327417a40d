"""The answer to a what-if, as it is read: a sentence, the figures, what the models learned, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator

from hivemind.lab.foresight.foretold import WALL, foretold, less_is_done, named
from hivemind.lab.foresight.notes import doubts, held_out_text, notes
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.sentence import reasons, sentence
from hivemind.lab.foresight.told import Answer
from hivemind.lab.simulate.recording import Recording


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
