"""Operators' commands that are carried out by another proxy of the fleet.

They are put into the proxy's inbox in the store, as the control API's JSON with an id and a time until which they may
be carried out; each of its answers says whether it was. Whoever may write to the store may command; agents can't,
because they don't know its URL. Times are the store's, because the machines' clocks differ.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hivemind.control.codec import to_plain
from hivemind.control.parsing import checked_who, command_from
from hivemind.fleet.presence import Argument, StoreCalls, whole
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.text.humanise import duration
from hivemind.world.fleet import Member

VALID_S = 5.0
"""How long a command may be carried out."""
ANSWERS_S = 3.0
"""A proxy that hasn't answered by then hasn't carried it out, as far as is known."""
_OTHERS_S = 0.5
"""How long answers are awaited of proxies that needn't give one."""
_ASK_EVERY_S = 0.05
_LATEST_S = 60.0
"""A command may not be valid for longer; so long its id is remembered."""
_AT_ONCE = 64
"""Commands taken from the inbox at once."""
_INBOX_MOST = 1000
"""Commands that an inbox holds; of more the newest."""
_LONGEST = 256 << 10
_OF_AGENTS = (cmd.SetPriority, cmd.PauseAgent, cmd.BoostAgent, cmd.StopAgent, cmd.CutRequest, cmd.SetBudget)
_OF_TASKS = (cmd.CancelTask, cmd.RetryTask, cmd.SetTaskPriority)
_OF_LANES = (cmd.PinLevel, cmd.SetCircuit, cmd.ReleaseLane)
_OF_ALL = (cmd.PauseAdmissions, cmd.Drain, cmd.Tune, cmd.Acknowledge, cmd.AddNote)
REMOTE = frozenset((*_OF_AGENTS, *_OF_TASKS, *_OF_LANES, *_OF_ALL))
"""Commands that go to other proxies; those of runners are for the proxy that they know."""


class KnownNowhere(cmd.Conflict):
    """No proxy of the fleet has the agent or task that a command names."""


class StoreAway(cmd.Conflict):
    """The store wasn't reached, so other proxies weren't told."""


class RemoteCommand(Struct, frozen=True):
    """A command in an inbox."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    who: str
    until: float
    """By the store's clock, in seconds since the epoch."""


class CommandOutcome(Struct, frozen=True):
    """What a proxy answers."""

    member: str
    ok: bool
    text: str = ""
    """Why it wasn't carried out."""
    unknown: bool = False
    """The agent, task or lane isn't known there."""


def inbox_key(member: str) -> str:
    """Return the key of a proxy's inbox, a list; a message on the channel of that name says that something came."""
    return f"hm:inbox:{member}"


def answer_key(order: str) -> str:
    """Return the key of a command's answers, a list."""
    return f"hm:answer:{order}"


class Inbox:
    """Carries out the commands that come for a proxy, each once and only while it is valid."""

    def __init__(
        self,
        store: StoreCalls,
        member: str,
        apply: Callable[[cmd.Command, str], object],
        knows: Callable[[cmd.Command], bool],
        settled: Callable[[], Awaitable[object]],
    ) -> None:
        """`apply` raises Rejected; `knows` says whether the command's agent or task is this proxy's; `settled` waits
        until what was done would survive a crash."""
        self._store = store
        self._member = member
        self._apply = apply
        self._knows = knows
        self._settled = settled
        self._done: dict[str, float] = {}
        """Ids of the commands that were taken, and until when they are remembered."""

    async def look(self) -> int:
        """Carry out what came; return how many commands came. Raises: StoreError."""
        key = inbox_key(self._member)
        (came,) = whole(await self._store.pipeline([("LPOP", key, _AT_ONCE)]))
        if not came:
            return 0
        now = _seconds(await self._store.call("TIME"))
        self._done = {order: until for order, until in self._done.items() if until > now}
        answers: list[Sequence[Argument]] = []
        for data in came:
            order = _order(data)
            if order is None or order.until <= now or order.until > now + _LATEST_S or order.id in self._done:
                continue
            self._done[order.id] = now + _LATEST_S
            answer = answer_key(order.id)
            answers.append(("RPUSH", answer, msgspec.json.encode(self._carried_out(order))))
            answers.append(("PEXPIRE", answer, int(_LATEST_S * 1000)))
        if answers:
            await self._settled()
            await self._store.pipeline(answers)
        return len(came)

    def _carried_out(self, order: RemoteCommand) -> CommandOutcome:
        try:
            command, who = command_from(order.name, order.arguments), checked_who(order.who)
            if type(command) not in REMOTE:
                raise cmd.Conflict(f"{order.name} is for the proxy itself, not for its fleet")
            if not self._knows(command):
                return CommandOutcome(self._member, False, "it isn't known there", unknown=True)
            self._apply(command, who)
        except cmd.Rejected as error:
            return CommandOutcome(self._member, False, str(error))
        return CommandOutcome(self._member, True)


class SentCommand(Struct, frozen=True):
    """A command that proxies were to carry out, and what each answered."""

    outcomes: tuple[CommandOutcome, ...]
    silent: tuple[Member, ...] = ()
    """Those that are concerned, as far as known, and didn't answer in time."""
    to: tuple[Member, ...] = ()
    about: str = ""
    """The agent or task that the command names."""

    def check(self) -> None:
        """Raises: Rejected: it was carried out nowhere, or not everywhere where it belongs."""
        labels = {member.id: member.label or member.machine for member in self.to}
        refused = [each for each in self.outcomes if not each.ok and not each.unknown]
        done = [each for each in self.outcomes if each.ok]
        parts = [f"{labels.get(each.member, each.member)}: {each.text}" for each in refused]
        if self.silent:
            names = ", ".join(member.label or member.machine for member in self.silent)
            parts.append(f"no answer from {names} within {duration(ANSWERS_S)}, so not carried out as far as is known")
        if not done and not parts:
            raise KnownNowhere(f"no proxy of the fleet knows {self.about!r}; nothing was changed", bad_input=True)
        if parts:
            carried = ", ".join(labels.get(each.member, each.member) for each in done)
            raise cmd.Conflict("; ".join([*parts, f"carried out by {carried}" if done else "nothing was changed"]))


def destinations(command: cmd.Command, members: Sequence[Member], near: str = "") -> list[tuple[Member, cmd.Command]]:
    """Return which proxies are to carry out a command, and as what.

    All are asked, and those that don't know the agent or task say so. A lane's command goes to one proxy that has the
    lane (`near`, if it does), because the fleet shares it by leases. Raises: Rejected: no proxy has that lane.
    """
    if type(command) not in REMOTE:
        raise cmd.Conflict(f"{type(command).__name__} is for one proxy; attach to it")
    if not members:
        raise cmd.Conflict("no proxy of the fleet runs; nothing was changed")
    if not isinstance(command, _OF_LANES) or command.lane is None:
        if isinstance(command, _OF_TASKS):
            return [
                (member, replace(command, task=command.task.removesuffix(f"@{member.label}")))
                for member in members
                if _may_have(command.task, member)
            ]
        return [(member, command) for member in members]
    keys = {lane.lane for member in members for lane in member.lanes if lane.shown == command.lane}
    found = [(member, lane) for member in members for lane in member.lanes if lane.lane in keys]
    found.sort(key=lambda each: (each[1].state != "leased", each[0].id != near))
    if not found:
        lanes = sorted({lane.shown for member in members for lane in member.lanes})
        raise cmd.NotKnown(f"no proxy of the fleet shares the lane {command.lane!r}; nothing was changed", lanes)
    member, lane = found[0]
    return [(member, replace(command, lane=lane.shown))]


def _may_have(task: str, member: Member) -> bool:
    """Return whether a task as merged views name it may be the proxy's: `id`, or `id@label` of a certain one."""
    _, at, label = task.rpartition("@")
    return not at or label == member.label


async def send(
    store: StoreCalls, orders: Iterable[tuple[Member, cmd.Command]], who: str, needed: Collection[str] = ()
) -> SentCommand:
    """Have proxies carry out commands, and wait for their answers.

    `needed` are the ids of those known to be concerned, so that another's silence doesn't matter; empty: all may be.

    Raises: StoreError.
    """
    wanted = [*orders]
    must = {member.id for member, _ in wanted if member.id in needed} or {member.id for member, _ in wanted}
    now = _seconds(await store.call("TIME"))
    order, commands = secrets.token_hex(8), []
    for member, command in wanted:
        data = msgspec.json.encode(RemoteCommand(order, type(command).__name__, to_plain(command), who, now + VALID_S))
        key = inbox_key(member.id)
        commands += [
            ("RPUSH", key, data),
            ("LTRIM", key, -_INBOX_MOST, -1),
            ("PEXPIRE", key, int(_LATEST_S * 1000)),
            ("PUBLISH", key, "1"),
        ]
    whole(await store.pipeline(commands))
    outcomes: dict[str, CommandOutcome] = {}
    loop = asyncio.get_running_loop()
    began = loop.time()
    while len(outcomes) < len(wanted):
        waited_s = loop.time() - began
        if waited_s >= ANSWERS_S or (waited_s >= _OTHERS_S and must <= outcomes.keys()):
            break
        await asyncio.sleep(_ASK_EVERY_S)
        for data in await store.call("LRANGE", answer_key(order), 0, -1):
            found = _outcome(data)
            if found is not None:
                outcomes[found.member] = found
    members = tuple(member for member, _ in wanted)
    silent = tuple(member for member in members if member.id in must and member.id not in outcomes)
    return SentCommand(
        tuple(outcomes.values()), silent, members, next((_name_in(command) for _, command in wanted), "")
    )


def _name_in(command: cmd.Command) -> str:
    name = getattr(command, "agent", None) or getattr(command, "task", None)
    return name if isinstance(name, str) else ""


def _order(data: Any) -> RemoteCommand | None:
    try:
        return msgspec.json.decode(data, type=RemoteCommand) if len(data) <= _LONGEST else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _outcome(data: Any) -> CommandOutcome | None:
    try:
        return msgspec.json.decode(data, type=CommandOutcome)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _seconds(answer: Any) -> float:
    """Return the time of a TIME's answer."""
    seconds, microseconds = answer
    return int(seconds) + int(microseconds) / 1e6
