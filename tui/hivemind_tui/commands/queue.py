"""Commands on their way to the source: one after the other, each remembered with what takes it back."""

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


class Steering:
    """Run it as one task. An intent is worked out when its turn comes, so that two quick presses are two steps."""

    def __init__(
        self,
        look: Callable[[], View],
        told: Callable[[str], None],
        changed: Callable[[], None],
        done: Callable[[Sequence[Command]], None] = lambda _: None,
    ) -> None:
        """`told` hears why something isn't carried out, `done` what was."""
        self.who = "you"
        """Whose name stands in the log."""
        self.untuned: dict[str, dict[str, float]] = {}
        """By upstream, the knobs that were turned from here, as they stood before; see :meth:`written`."""
        self._look = look
        self._told = told
        self._changed = changed
        self._tell_done = done
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._done: deque[list[Command]] = deque(maxlen=DEPTH)
        """What takes each change back, the newest last."""

    @property
    def undoable(self) -> bool:
        """Whether there is something to take back."""
        return bool(self._done)

    def tell(self, source: Source, intent: Intent) -> None:
        """Carry an intent out as soon as those before it are."""
        self._waiting.put_nowait(lambda: self._carry_out(source, intent))

    def undo(self, source: Source) -> None:
        """Take the last change back, as soon as what was told before is carried out."""
        self._waiting.put_nowait(lambda: self._take_back(source))

    def then(self, what: Callable[[], Awaitable[None]]) -> None:
        """Do something else, as soon as what was told before is carried out."""
        self._waiting.put_nowait(what)

    async def run(self) -> None:
        """Carry out whatever is told, for ever."""
        while True:
            step = await self._waiting.get()
            try:
                await step()
            except Rejected as rejected:
                self._told(str(rejected))
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
            self._tell_done(carried)

    def written(self, upstream: str) -> None:
        """What was turned is in the settings file now."""
        self.untuned.pop(upstream, None)

    def _note(self, command: Command, view: View) -> None:
        if isinstance(command, Tune):
            for lane in view.snapshot.lanes:
                if command.upstream in (None, lane.state.upstream) and command.knob in lane.state.knobs:
                    before = self.untuned.setdefault(lane.state.upstream, {})
                    before.setdefault(command.knob, lane.state.knobs[command.knob])

    async def _take_back(self, source: Source) -> None:
        if not self._done:
            raise Rejected("nothing of yours to take back")
        view = self._look()
        undone = self._done.pop()
        for command in undone:
            await source.apply(command, self.who)
            self._note(command, view)
        self._tell_done(undone)
