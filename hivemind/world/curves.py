"""The recent concurrency curve of each lane, with the causes of its cuts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from hivemind.scheduler.events import Commanded, LevelChanged, Sampled
from hivemind.scheduler.gauges import LaneState
from hivemind.world.sentences import knob_value
from hivemind.world.snapshot import CurvePoint
from hivemind.world.state import WorldState

CURVE_KEPT = 600
"""Points of a lane's curve: ten minutes of them."""


class Curves:
    """Curves by lane; those of lanes that no sample lists any more are dropped."""

    def __init__(self) -> None:
        self._curves: dict[str, deque[CurvePoint]] = {}
        self._marks: dict[str, str] = {}
        """By lane, the mark of the next point."""

    def of(self, lane: str) -> tuple[CurvePoint, ...]:
        """Return the lane's points, oldest first."""
        return tuple(self._curves.get(lane, ()))

    def keep(self) -> tuple[tuple[str, tuple[CurvePoint, ...]], ...]:
        """Return all curves, by lane."""
        return tuple([(lane, tuple(points)) for lane, points in self._curves.items()])

    def keep_marks(self) -> tuple[tuple[str, str], ...]:
        """Return the marks of the next points, by lane."""
        return tuple(self._marks.items())

    def restore(self, state: WorldState) -> None:
        """Take over the given state."""
        self._curves = {lane: deque(points, maxlen=CURVE_KEPT) for lane, points in state.curves}
        self._marks = dict(state.marks)

    def level_changed(self, event: LevelChanged) -> None:
        """Mark a cut; growth isn't marked, and an operator's change is marked by its command."""
        if event.cause not in ("grow", "operator"):
            self._marks[event.lane] = event.cause

    def commanded(self, event: Commanded, lanes: Mapping[str, LaneState]) -> None:
        """Mark an operator's change on the lanes that it affects."""
        about = event.arguments
        if event.name == "Tune":
            mark = f"{about['knob']}={knob_value(about['knob'], about['value'])}"
            upstream = about.get("upstream")
            touched = [state.lane for state in lanes.values() if upstream is None or state.upstream == upstream]
        elif event.name == "PinLevel":
            mark = "level=auto" if about["level"] is None else f"level={about['level']:g}"
            touched = [key for key in lanes if about.get("lane") is None or key == about["lane"]]
        else:
            return
        self._marks.update(dict.fromkeys(touched, mark))

    def sampled(self, event: Sampled) -> None:
        """Add a point to each lane; within the same second it replaces the last one, unless it has a mark."""
        keys = {state.lane for state in event.lanes}
        for gone in self._curves.keys() - keys:
            del self._curves[gone]
        for state in event.lanes:
            self._add(event.at, state, self._marks.pop(state.lane, ""))
        self._marks.clear()

    def _add(self, at: float, state: LaneState, mark: str) -> None:
        curve = self._curves.setdefault(state.lane, deque(maxlen=CURVE_KEPT))
        level = state.level if not math.isinf(state.level) else float(state.active)
        point = CurvePoint(at, level, state.active, state.waiting, state.mean_ttft_s, mark)
        if curve and at - curve[-1].at < 0.9 and not mark:
            curve[-1] = replace(point, at=curve[-1].at, mark=curve[-1].mark)
        else:
            curve.append(point)
