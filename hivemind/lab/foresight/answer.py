"""The answer to a what-if: what changes do to a recording, computed on all cores with the held-out check beside it; and
as it is read: a sentence, the figures, what the models learned, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.lab.foresight.draws import Runs, on_all_cores
from hivemind.lab.foresight.foretold import WALL, foretold, less_is_done, named
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.foresight.notes import doubts, held_out_text, notes
from hivemind.lab.foresight.prediction import Prediction, predict
from hivemind.lab.foresight.sentence import reasons, sentence
from hivemind.lab.foresight.told import Answer
from hivemind.lab.simulate.overrides import Change, agent_commands
from hivemind.lab.simulate.recording import Recording
from hivemind.processes import Beside
from hivemind.records import replace
from hivemind.scheduler.types import Price
from hivemind.text.humanise import instead_of


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


_AGENTS_NAMED = 8


def foretell(
    recording: Recording,
    changes: Sequence[Change],
    price: Price | None = None,
    *,
    runs: Runs = on_all_cores,
    checked: Beside[HeldOut] | None = None,
) -> Prediction:
    """Predict what changes do, with the models checked. Takes seconds.

    `checked`: the check of this recording, if it has begun already.

    Raises: UsageError: the changes don't go together, can't be made, or name an agent that isn't in the recording.
    """
    check_agents(recording, changes)
    checking = Beside(partial(held_out, recording)) if checked is None else checked
    try:
        return replace(predict(recording, changes, price=price, runs=runs), held_out=checking.result())
    except BaseException:
        if checked is None:
            checking.cancel()
        raise


def check_agents(recording: Recording, changes: Sequence[Change]) -> None:
    """Raises: UsageError: a change is of an agent that isn't in the recording."""
    known = {each.arrived.agent for each in recording.trace.requests}
    for order in agent_commands(changes):
        if order.agent not in known:
            hint = instead_of(order.agent or "", sorted(known), _AGENTS_NAMED)
            raise UsageError(f"{order.agent}: no agent of that name is in {recording.name}{printable(hint)}")
