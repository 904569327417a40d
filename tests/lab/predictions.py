"""Predictions made up by hand."""

from __future__ import annotations

from typing import Any

from hivemind.journal.figures import Figures, Waits
from hivemind.journal.wait_causes import WaitCauses
from hivemind.lab.foresight.draws import Drawn
from hivemind.lab.foresight.heldout import UNCHECKED
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.simulate.overrides import Change
from hivemind.records import replace

FIGURES = Figures(
    agents=11,
    finished=11,
    wall_s=754.0,
    requests=412,
    answered=409,
    failed=3,
    refused=0,
    left=0,
    open=0,
    attempts=440,
    retries=28,
    retried_ok=26,
    waited_s=3600.0,
    together=Waits(412, 3.0, 29.0, 80.0),
    waits={"high": Waits(40, 0.0, 1.2, 9.0), "normal": Waits(372, 4.0, 31.0, 80.0)},
    tokens=1_000_000,
    wasted_tokens=12_400,
    dollars=18.42,
    unpriced_tokens=0,
    fairness=0.981,
    busiest=8,
    causes=WaitCauses({"slots": 2800.0, "windows": 800.0}),
    served_s=2400.0,
)


def prediction(*changes: Change, real: Figures = FIGURES, foreign: bool = False, **tried: Any) -> Prediction:
    """With these changes the figures are these, in every draw; `foreign`: the recorded run is simulated too."""
    usual = {"wall_s": 640.0, "waited_s": 2900.0, "causes": WaitCauses({"slots": 2100.0, "windows": 800.0})}
    own = replace(real, **(usual | tried if changes else tried))
    recorded = replace(real) if foreign else real
    before = recorded if changes else own
    drawn = Drawn((before,) * 6, (own,) * 6, 1.0, (0,) * 6)
    return Prediction(changes, real, recorded if changes or not foreign else own, before, own, drawn, UNCHECKED)
