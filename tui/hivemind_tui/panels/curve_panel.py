"""The curve's place on the screen: asks for a figure when the curve moved, once a second at most."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.strip import Strip

from hivemind_tui.panels import curve
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.plots.protocol import Job
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.widgets.panel import Panel

_BETWEEN_S = 1.0


class CurvePanel(Panel):
    """A panel whose figure is drawn by the plotting process."""

    def __init__(self, plots: PlotProcess | None, *, id: str, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(self._drawing, id=id)
        self._plots = plots
        self._now = now
        self._asked: Job | None = None
        self._asked_at = -_BETWEEN_S
        if plots is not None:
            plots.on_figure = self._arrived

    def _drawing(self, view: View, width: int, height: int, pen: Pen) -> list[Strip]:
        if self._plots is None:
            return curve.render(view, width, height, pen)
        now = self._now()
        if now - self._asked_at >= _BETWEEN_S:
            job = curve.wanted(view, width, height, pen)
            if job is not None and job != self._asked:
                self._asked, self._asked_at = job, now
                self._plots.submit(job)
        return curve.render(view, width, height, pen, self._plots.figure)

    def _arrived(self) -> None:
        if self.is_mounted and self._shown is not None:
            self.show(*self._shown)
