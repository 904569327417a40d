"""What actions need of the screen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from hivemind.scheduler.commands import Command, Rejected
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
        trouble: str = "",
    ) -> None:
        """Ask for a line; `typed` is called with every change, `done` with the text at enter. Where `done` raises
        Rejected, the line stays open with the reason. `trouble`: why `text` was refused before."""

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

    def steer(self, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        """Send the commands of an intent after those before it; `refused` is called with the reason if they are."""
        self.queue.send(self.source, intent, refused)

    @property
    @abstractmethod
    def modal_open(self) -> bool:
        """Whether something is being typed or asked, which must not be replaced."""

    def ask_value(
        self,
        label: str,
        meant: Callable[[View, str], list[Command]],
        *,
        hint: str = "",
        text: str = "",
        trouble: str = "",
    ) -> None:
        """Ask for a value, and send the commands that it means. A refused one is asked for again, as it was typed."""

        def again(typed: str, why: str) -> None:
            if self.modal_open:
                self.complain(why)
            else:
                self.ask_value(label, meant, hint=hint, text=typed, trouble=why)

        def done(typed: str) -> None:
            if typed.strip():
                meant(self.view, typed)
                self.steer(lambda view: meant(view, typed), partial(again, typed))

        self.ask_line(label, text, hint=hint, done=done, trouble=trouble)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step, or show why it is refused."""
        try:
            step()
        except Rejected as rejected:
            self.complain(str(rejected))
