"""The queue of commands to the source: sent one after the other, each remembered with its inverse."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from hivemind.scheduler.commands import Command, Rejected, Tune
from hivemind_tui.commands.undo import DEPTH, inverse
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View

Intent = Callable[[View], list[Command]]
"""From what is on the screen at that moment to commands. Raises: Rejected."""


class CommandQueue:
    """Run it as one task. An intent is evaluated when its turn comes, so that two quick presses are two steps."""

    def __init__(
        self,
        look: Callable[[], View],
        refused: Callable[[str], None],
        changed: Callable[[], None],
        done: Callable[[Sequence[Command]], None] = lambda _: None,
    ) -> None:
        """`refused` is called with the reason why a command isn't carried out, `done` with commands that were."""
        self.who = "you"
        """Whose name stands in the log."""
        self.untuned: dict[str, dict[str, float]] = {}
        """By upstream, the former values of knobs that were changed from here; see :meth:`written`."""
        self._look = look
        self._refused = refused
        self._changed = changed
        self._on_done = done
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._done: deque[list[Command]] = deque(maxlen=DEPTH)
        """The inverse of each change, the newest last."""

    @property
    def undoable(self) -> bool:
        """Whether there is a change to undo."""
        return bool(self._done)

    def send(self, source: Source, intent: Intent) -> None:
        """Carry an intent out after those before it."""
        self._waiting.put_nowait(lambda: self._carry_out(source, intent))

    def undo(self, source: Source) -> None:
        """Undo the last change, after the commands before it."""
        self._waiting.put_nowait(lambda: self._undo(source))

    def then(self, what: Callable[[], Awaitable[None]]) -> None:
        """Do something else, after the commands before it."""
        self._waiting.put_nowait(what)

    async def run(self) -> None:
        """Carry out commands for ever."""
        while True:
            step = await self._waiting.get()
            try:
                await step()
            except Rejected as rejected:
                self._refused(str(rejected))
            self._changed()

    async def _carry_out(self, source: Source, intent: Intent) -> None:
        view = self._look()
        carried: list[Command] = []
        undone: list[Command] = []
        try:
            for command in intent(view):
                back = inverse(command, view.snapshot)
                await source.apply(command, self.who)
                carried.append(command)
                undone = back + undone
                self._note(command, view)
        finally:
            if undone:
                self._done.append(undone)
            self._on_done(carried)

    def written(self, upstream: str) -> None:
        """Forget the changed knobs of an upstream: the settings file has them."""
        self.untuned.pop(upstream, None)

    def _note(self, command: Command, view: View) -> None:
        if isinstance(command, Tune):
            for lane in view.snapshot.lanes:
                if command.upstream in (None, lane.state.upstream) and command.knob in lane.state.knobs:
                    before = self.untuned.setdefault(lane.state.upstream, {})
                    before.setdefault(command.knob, lane.state.knobs[command.knob])

    async def _undo(self, source: Source) -> None:
        if not self._done:
            raise Rejected("there is no change of yours to undo")
        view = self._look()
        undone = self._done.pop()
        for command in undone:
            await source.apply(command, self.who)
            self._note(command, view)
        self._on_done(undone)
