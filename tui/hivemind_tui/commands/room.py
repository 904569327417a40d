"""What actions need of the screen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from hivemind.scheduler.commands import Rejected
from hivemind_tui.commands.dialogs import Rows
from hivemind_tui.commands.queue import CommandQueue, Intent
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View
from hivemind_tui.whatif.process import SimulationProcess


class Room:
    """A screen as its actions see it. Actions are mix-ins on top of this, so tests can run them without a terminal."""

    view: View
    """What is shown now."""
    source: Source
    """Where the view comes from and commands go to."""
    simulation: SimulationProcess
    queue: CommandQueue
    themes: Sequence[str]
    """Names of those that this terminal can show."""

    @property
    @abstractmethod
    def layout_name(self) -> str:
        """`full`, `compact` or `tiny`."""

    @property
    @abstractmethod
    def theme_name(self) -> str:
        """The theme in use."""

    @abstractmethod
    def use_theme(self, name: str) -> None:
        """Change to another theme."""

    @abstractmethod
    def go(self, view: View) -> None:
        """Show another view."""

    @abstractmethod
    def complain(self, text: str) -> None:
        """Show in one line why something can't be done."""

    @abstractmethod
    def inform(self, text: str) -> None:
        """Show in one line what was done."""

    @abstractmethod
    def ask(self, title: str, rows: Rows, choices: Mapping[str, Callable[[], object]]) -> None:
        """Ask for one key; any that is none of the choices means no."""

    @abstractmethod
    def ask_line(
        self,
        label: str,
        text: str = "",
        *,
        hint: str = "",
        typed: Callable[[str], None] | None = None,
        done: Callable[[str], None] | None = None,
    ) -> None:
        """Ask for a line; `typed` is called with every change, `done` with the text at enter."""

    @abstractmethod
    def copy(self, text: str) -> None:
        """Put a text on the clipboard."""

    @abstractmethod
    def run_task(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run something beside the screen."""

    @abstractmethod
    def cancel_tasks(self, group: str) -> None:
        """Cancel what still runs of a group."""

    @abstractmethod
    def leave(self) -> None:
        """End the screen."""

    def steer(self, intent: Intent) -> None:
        """Send the commands of an intent after those before it."""
        self.queue.send(self.source, intent)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step, or show why it is refused."""
        try:
            step()
        except Rejected as rejected:
            self.complain(str(rejected))
