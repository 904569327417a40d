"""The actions behind the what-if keys, for a screen to have."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hivemind_tui.commands import whatif as page
from hivemind_tui.whatif.process import Simulation

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom


class WhatIfActions:
    """The part of a screen that asks what other settings would have done."""

    simulation: Simulation

    @property
    def _screen(self) -> ControlRoom:
        return cast("ControlRoom", self)

    def action_what_if(self) -> None:
        page.enter(self._screen)

    def action_vary(self, steps: int) -> None:
        page.vary(self._screen, steps)

    def action_other(self) -> None:
        page.ask_value(self._screen)

    def action_as_recorded(self) -> None:
        page.as_recorded(self._screen)

    def action_apply(self) -> None:
        page.apply(self._screen)

    def action_pick_setting(self, name: str) -> None:
        page.pick(self._screen, name)
