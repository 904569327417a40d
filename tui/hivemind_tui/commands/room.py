"""What commands need of the screen that they act on."""

from __future__ import annotations

from abc import abstractmethod

from hivemind_tui.state.view import View


class Room:
    """A screen, as its actions see it; each group of actions is a mix-in on top of this."""

    @property
    @abstractmethod
    def view(self) -> View:
        """What is shown now."""

    @abstractmethod
    def go(self, view: View) -> None:
        """Show another view."""
