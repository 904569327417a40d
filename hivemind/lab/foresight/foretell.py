"""What changes do to a recording, computed on all cores: the draws, and beside them the held-out check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.lab.foresight.draws import Runs, on_all_cores
from hivemind.lab.foresight.heldout import HeldOut, held_out
from hivemind.lab.foresight.prediction import Prediction, predict
from hivemind.lab.simulate.overrides import Change, agent_commands
from hivemind.lab.simulate.recording import Recording
from hivemind.processes import Beside
from hivemind.records import replace
from hivemind.scheduler.types import Price
from hivemind.text.humanise import instead_of

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
