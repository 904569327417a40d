"""The queue of commands to the source: sent one after the other, each with the commands that undo it.

These are made beforehand, from the world before the command. Requests that were cut or refused aren't restored.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

from msgspec import Struct

from hivemind.control.codec import to_plain
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.accounts import Covers, Period
from hivemind.scheduler.commands import Command, Rejected, Tune
from hivemind.scheduler.events import BudgetState, Commanded, LaneState
from hivemind.text.humanise import duration
from hivemind.world.lines import ALL, YOU, sentence, subject, tag_of
from hivemind.world.snapshot import AgentView, Line, Snapshot
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View

_DEPTH = 20
"""Changes that can be undone."""

Intent = Callable[[View], list[Command]]
"""Returns the commands that a key means for the present view. Raises: Rejected."""


class Change(Struct, frozen=True):
    """What one key did."""

    undo: Sequence[Command]
    commands: Sequence[Command]
    at_s: float
    """When it was done, by `time.monotonic`."""
    since: float
    """The time of the snapshot before it, on the proxy's clock."""

    @property
    def text(self) -> str:
        """What it did: `alice: held, and 2 more`."""
        return in_words(self.commands)

    @property
    def age_s(self) -> float:
        """How old it is."""
        return time.monotonic() - self.at_s

    @property
    def told(self) -> str:
        """What it did, and from a minute on how long ago."""
        minutes_s = self.age_s // 60 * 60
        return f"{self.text}, {duration(minutes_s)} ago" if minutes_s else self.text

    @property
    def stops_traffic(self) -> bool:
        """Whether undoing it holds or refuses requests."""
        return any(map(_stops_traffic, self.undo))


def _stops_traffic(command: Command) -> bool:
    match command:
        case (
            cmd.PauseAdmissions(paused=True)
            | cmd.PauseAgent(paused=True)
            | cmd.StopAgent(stopped=True)
            | cmd.Drain(draining=True)
            | cmd.SetCircuit(mode="open")
        ):
            return True
    return False


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
        self._done: deque[Change] = deque(maxlen=_DEPTH)
        """The newest last."""

    @property
    def last(self) -> Change | None:
        """The change that would be undone."""
        return self._done[-1] if self._done else None

    def send(self, source: Source, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        """Carry an intent out after those before it. `refused`: called with the reason in place of the queue's own."""

        async def carry_out() -> None:
            try:
                await self._carry_out(source, intent)
            except Rejected as rejected:
                (refused or self._refused)(str(rejected))

        self._waiting.put_nowait(carry_out)

    def undo(self, source: Source, meant: Change | None = None) -> None:
        """Undo the last change, after the commands before it; `meant`: only if it is this one."""
        self._waiting.put_nowait(lambda: self._undo(source, meant))

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
                self._done.append(Change(undone, carried, time.monotonic(), view.snapshot.at))
            self._on_done(carried)

    def _note(self, command: Command, view: View) -> None:
        if isinstance(command, Tune):
            for lane in view.snapshot.lanes:
                if command.upstream in (None, lane.state.upstream) and command.knob in lane.state.knobs:
                    before = self.untuned.setdefault(lane.state.upstream, {})
                    before.setdefault(command.knob, lane.state.knobs[command.knob])

    async def _undo(self, source: Source, meant: Change | None) -> None:
        change = self.last
        if change is None:
            raise Rejected("there is no change of yours to undo")
        if meant not in (None, change):
            raise Rejected("another change came after that one; u undoes it first")
        view = self._look()
        self._done.pop()
        for line in view.snapshot.lines:
            if line.by and line.tag != YOU and line.at > change.since and any(_tells(line, c) for c in change.commands):
                raise Rejected(f"not undone: since then {line.by} decided that ({clean(line.text)})")
        undone = change.undo
        for command in undone:
            await source.apply(command)
            self._note(command, view)
        self._on_done(undone)


def _tells(line: Line, command: Command) -> bool:
    """Return whether a line tells of a decision about the same thing as the command."""
    arguments = to_plain(command)
    same = line.who == subject(arguments) or ALL in (line.who, subject(arguments))
    if not same or line.tag != tag_of(type(command).__name__):
        return False
    return not isinstance(command, Tune) or line.text.startswith(f"{command.knob} ")


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
    return "" if view.page in LOG_PAGES else in_words(commands)


def in_words(commands: Sequence[Command]) -> str:
    """Return the first command in words, and how many more there are; nothing of none."""
    if not commands:
        return ""
    arguments = to_plain(commands[0])
    about = subject(arguments)
    text = sentence(Commanded(0.0, "", type(commands[0]).__name__, arguments))
    more = f", and {len(commands) - 1} more" if len(commands) > 1 else ""
    return clean((text if about == ALL else f"{about}: {text}") + more)
