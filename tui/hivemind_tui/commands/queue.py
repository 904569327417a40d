"""The queue of commands to the source: sent one after the other, each with the commands that undo it.

These are made beforehand, from the world before the command. Requests that were cut or refused aren't restored.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

from hivemind.control.codec import to_plain
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Covers, Period
from hivemind.scheduler.commands import Command, Rejected, Tune
from hivemind.scheduler.events import BudgetState, Commanded, LaneState
from hivemind.world.lines import ALL, sentence, subject
from hivemind.world.snapshot import AgentView, Snapshot
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View

_DEPTH = 20
"""Changes that can be undone."""

Intent = Callable[[View], list[Command]]
"""Returns the commands that a key means for the present view. Raises: Rejected."""


class CommandQueue:
    """Run it as one task. An intent is evaluated after the commands before it, so two quick presses are two steps."""

    def __init__(
        self,
        look: Callable[[], View],
        refused: Callable[[str], None],
        changed: Callable[[], None],
        done: Callable[[Sequence[Command]], None] = lambda _: None,
    ) -> None:
        """`refused` is called with the reason why a command isn't carried out, `done` with commands that were."""
        self.untuned: dict[str, dict[str, float]] = {}
        """By upstream, the former values of knobs that were changed from here and not written since."""
        self._look = look
        self._refused = refused
        self._changed = changed
        self._on_done = done
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._done: deque[list[Command]] = deque(maxlen=_DEPTH)
        """The inverse of each change, the newest last."""

    @property
    def undoable(self) -> bool:
        """Whether there is a change to undo."""
        return bool(self._done)

    def send(self, source: Source, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        """Carry an intent out after those before it. `refused`: called with the reason in place of the queue's own."""

        async def carry_out() -> None:
            try:
                await self._carry_out(source, intent)
            except Rejected as rejected:
                (refused or self._refused)(str(rejected))

        self._waiting.put_nowait(carry_out)

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
                await source.apply(command)
                carried.append(command)
                undone = back + undone
                self._note(command, view)
        finally:
            if undone:
                self._done.append(undone)
            self._on_done(carried)

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
            await source.apply(command)
            self._note(command, view)
        self._on_done(undone)


def inverse(command: cmd.Command, before: Snapshot) -> list[cmd.Command]:
    """Return the commands that undo this one; none where nothing can."""
    lanes = [lane.state for lane in before.lanes]
    match command:
        case cmd.SetPriority(agent):
            return [cmd.SetPriority(agent, each.priority) for each in _agents(before, agent)]
        case cmd.PauseAgent(agent):
            return [cmd.PauseAgent(agent, each.held) for each in _agents(before, agent)]
        case cmd.BoostAgent(agent):
            return [cmd.BoostAgent(agent, each.boosted_for_s) for each in _agents(before, agent)]
        case cmd.SetBudget(None):
            return [_budget(None, before.pool)]
        case cmd.SetBudget(str(agent)):
            return [_budget(agent, each.budget) for each in _agents(before, agent)]
        case cmd.StopAgent(agent):
            # Allows it again; requests that were cancelled stay cancelled.
            return [cmd.StopAgent(agent, each.stopped) for each in _agents(before, agent)]
        case cmd.CancelTask(task):
            return [cmd.RetryTask(task)]
        case cmd.SetTaskPriority(task):
            return [cmd.SetTaskPriority(task, each.own_priority) for each in before.tasks if each.id == task]
        case cmd.Tune(knob, _, upstream):
            tuned = [lane for lane in lanes if upstream in (None, lane.upstream) and knob in lane.knobs]
            old = {lane.upstream: lane.knobs[knob] for lane in tuned}
            return [cmd.Tune(knob, value, name) for name, value in old.items()]
        case cmd.PinLevel(_, name):
            return [cmd.PinLevel(_pinned_level(lane), lane.lane) for lane in lanes if name in (None, lane.lane)]
        case cmd.SetCircuit(_, name):
            return [cmd.SetCircuit(_circuit_mode(lane), lane.lane) for lane in lanes if name in (None, lane.lane)]
        case cmd.PauseAdmissions(paused):
            return [cmd.PauseAdmissions(not paused)]
        case cmd.Drain(draining):
            return [cmd.Drain(not draining)]
    return []


def _agents(snapshot: Snapshot, name: str) -> list[AgentView]:
    return [agent for agent in snapshot.agents if agent.name == name]


def _budget(name: str | None, state: BudgetState | None) -> cmd.SetBudget:
    if state is None:
        return cmd.SetBudget(name)
    per = next((each for each in get_args(Period) if each == state.per), None)
    covers = next((each for each in get_args(Covers) if each == state.covers), None)
    return cmd.SetBudget(name, state.tokens, state.dollars, per, covers)


def _pinned_level(state: LaneState) -> float | None:
    return state.level if state.pinned and not math.isinf(state.level) else None


def _circuit_mode(state: LaneState) -> Literal["auto", "open", "closed"]:
    if not state.circuit_forced:
        return "auto"
    return "open" if state.circuit == "open" else "closed"


LOG_PAGES = frozenset({"overview", "tuning", "log"})
"""Pages that show the latest lines of the log."""


def confirmation(commands: Sequence[Command], view: View) -> str:
    """Return the first command in words, and how many more there are; nothing where the page shows the log."""
    if not commands or view.page in LOG_PAGES:
        return ""
    arguments = to_plain(commands[0])
    about = subject(arguments)
    text = sentence(Commanded(0.0, "", type(commands[0]).__name__, arguments))
    more = f", and {len(commands) - 1} more" if len(commands) > 1 else ""
    return clean((text if about == ALL else f"{about}: {text}") + more)
