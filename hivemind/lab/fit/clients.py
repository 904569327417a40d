"""How recorded clients and agents react to errors and to waiting: whether they repeat a request and when, when they
lose patience, whether agents go on after an error, and how long they think.

What an agent did itself counts; of an agent that met no error it is assumed that it does as another agent of the same
client, chosen at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from hivemind.lab.fit.luck import luck
from hivemind.lab.trace.steps import RequestStep

_SAME = 0.02
"""Times that differ by at most this share are the same."""
_OFTEN = 3
_ROUND_S = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 600.0, 900.0, 1800.0)
"""Usual timeouts: a client that left after one of them, even once, is taken to do so always."""
_ROUNDED = 0.01
_ASKED_S = 0.5
"""A shorter Retry-After tells nothing of whether the client waits for it."""
_HONOURS = 0.8
_ENDS = ("failed", "refused", "left")

T = TypeVar("T")


class Pause(NamedTuple):
    """What a client waited before it repeated a request."""

    pause_s: float
    asked_s: float | None
    """What Retry-After asked for."""


class Habit(Struct, frozen=True):
    """What one agent's client does with requests that ended unanswered."""

    most: int
    """It repeats a request up to so many times."""
    pauses: tuple[tuple[Pause, ...], ...] = ()
    """Before the first repetition, before the second, and so on."""


class Agent(Struct, frozen=True):
    """What one agent was seen to do; None: it had no occasion."""

    client: str
    after_errors: Habit | None
    after_leaving: Habit | None
    survives: bool | None
    """It went on after an error that its client didn't repeat."""
    timeout_s: float | None
    """Its client leaves after so long."""
    thinks_s: tuple[float, ...]
    """From the end of a request to its next one."""


class Clients(Struct, frozen=True):
    """The clients and agents of a recording, by the agents' names."""

    agents: Mapping[str, Agent]

    def sentences(self) -> Iterator[str]:
        """Say what was found."""
        impatient = [each.timeout_s for each in self.agents.values() if each.timeout_s is not None]
        if impatient:
            times = (
                f"{min(impatient):.0f} s"
                if max(impatient) < min(impatient) + 1
                else (f"{min(impatient):.0f} to {max(impatient):.0f} s")
            )
            yield f"{len(impatient)} of {len(self.agents)} agents leave after {times}"


def fit_clients(requests: Sequence[RequestStep]) -> Clients:
    """Fit them to the requests of a recording."""
    by_agent: dict[str, list[RequestStep]] = {}
    for request in requests:
        by_agent.setdefault(request.arrived.agent, []).append(request)
    repeated = {id(each.repeats) for each in requests if each.repeats is not None}
    timeouts_s = {agent: _timeout_s(mine, repeated) for agent, mine in by_agent.items()}
    return Clients({agent: _agent(mine, repeated, timeouts_s[agent]) for agent, mine in by_agent.items()})


def _agent(mine: Sequence[RequestStep], repeated: set[int], timeout_s: float | None) -> Agent:
    given_up = [each for each in mine if each.end in _ENDS and id(each) not in repeated]
    return Agent(
        client=mine[0].arrived.client,
        after_errors=_habit(mine, repeated, ("failed", "refused")),
        after_leaving=_habit(mine, repeated, ("left",)),
        survives=_goes_on([each for each in given_up if each.end != "left"]),
        timeout_s=timeout_s,
        thinks_s=tuple(delay_s for each in mine if (delay_s := _thinks_s(each)) is not None),
    )


def _habit(mine: Sequence[RequestStep], repeated: set[int], ends: tuple[str, ...]) -> Habit | None:
    unanswered = [each for each in mine if each.end in ends]
    if not unanswered:
        return None
    pauses: list[list[Pause]] = []
    for each in mine:
        before = each.repeats
        if before is None or before.end not in ends:
            continue
        failure = before.attempts[-1].failure if before.attempts else None
        while len(pauses) < each.repeated:
            pauses.append([])
        asked_s = None if failure is None else failure.delay_s
        pauses[each.repeated - 1].append(Pause(max(0.0, each.at - before.ended_at), asked_s))
    return Habit(len(pauses), tuple(map(tuple, pauses)))


def _goes_on(given_up: Sequence[RequestStep]) -> bool | None:
    """Return whether the agent mostly went on after its requests ended unanswered; None: none did."""
    if not given_up:
        return None
    went_on = sum(any(isinstance(step, RequestStep) for _, step in each.after) for each in given_up)
    return 2 * went_on >= len(given_up) and went_on > 0


def _thinks_s(request: RequestStep) -> float | None:
    """Return how long its agent thought before its only next request; None: it sent several, or none, or the same."""
    following = [(delay_s, step) for delay_s, step in request.after if isinstance(step, RequestStep)]
    if len(following) != 1:
        return None
    ((delay_s, step),) = following
    return delay_s if step.repeats is None and step.arrived.agent == request.arrived.agent else None


def _timeout_s(mine: Sequence[RequestStep], repeated: set[int]) -> float | None:
    """Return after how long the agent's client leaves, if always after the same time and if nothing took longer."""
    gone = [each.ended_at - each.at for each in mine if each.end == "left"]
    if not gone:
        return None
    usual = median(gone)
    waited = max((each.ended_at - each.at for each in mine if each.end not in ("left", "open")), default=0.0)
    if max(gone) - min(gone) > _SAME * max(gone) or waited > max(gone) * (1 + _SAME):
        return None
    came_again = any(each.end == "left" and id(each) in repeated for each in mine)
    is_usual = any(abs(usual - each) <= _ROUNDED * each for each in _ROUND_S)
    # Once may have been somebody who cancelled it; a client that repeats the request lost patience.
    return usual if len(gone) >= _OFTEN or came_again or is_usual else None


# --- In a simulation ----------------------------------------------------------------------------------------------


class ClientState(Struct):
    """The clients and agents in one simulation."""

    fitted: Clients
    seed: int
    draws: bool
    """Times between requests are drawn anew, rather than as recorded."""
    _survive: dict[tuple[str, bool], bool] = field(default_factory=dict)
    _habits: dict[tuple[str, bool], Habit] = field(default_factory=dict)

    def timeout_s(self, name: str) -> float | None:
        """Return after how long an agent's client leaves; None: it doesn't, or never had to wait for so long."""
        agent = self.fitted.agents.get(name)
        return None if agent is None else agent.timeout_s

    def survives(self, name: str, *, left: bool) -> bool:
        """Return whether an agent goes on after a request that ended with an error, or that its client left."""
        key = name, left
        if key not in self._survive:
            found = self._seen(name, 2, lambda agent: agent.survives)
            self._survive[key] = left if found is None else found
        return self._survive[key]

    def retry_in_s(self, request: RequestStep, number: int, *, left: bool, asked_s: float | None) -> float | None:
        """Return when the client repeats a request for the `number`-th time, by what Retry-After asked for; None: it
        doesn't."""
        name = request.arrived.agent
        habit = self._habit(name, left)
        if number > habit.most:
            return None
        pauses = habit.pauses[min(number, len(habit.pauses)) - 1]
        pauses = pauses or next((each for each in reversed(habit.pauses) if each), ())
        if not pauses:
            return None
        drawn = luck(self.seed, request.number, 1000 + number)
        told = [each for each in pauses if each.asked_s is not None and each.asked_s >= _ASKED_S]
        honours = sum(each.pause_s >= 0.95 * (each.asked_s or 0.0) for each in told) >= _HONOURS * len(told)
        if asked_s is not None and told and honours:
            more = told[int(drawn * len(told))]
            return asked_s + max(0.0, more.pause_s - (more.asked_s or 0.0))
        return pauses[int(drawn * len(pauses))].pause_s

    def thinks_s(self, request: RequestStep, delay_s: float) -> float:
        """Return how long an agent thinks after a request, which was `delay_s` in the recording."""
        if not self.draws or _thinks_s(request) is None:
            return delay_s
        agent = self.fitted.agents.get(request.arrived.agent)
        if agent is None or len(agent.thinks_s) < _OFTEN:
            return delay_s
        return agent.thinks_s[int(luck(self.seed, request.number, 2000) * len(agent.thinks_s))]

    def _habit(self, name: str, left: bool) -> Habit:
        key = name, left
        if key not in self._habits:
            of: Callable[[Agent], Habit | None] = (
                (lambda agent: agent.after_leaving) if left else (lambda agent: agent.after_errors)
            )
            self._habits[key] = self._seen(name, 4 + left, of) or Habit(0)
        return self._habits[key]

    def _seen(self, name: str, purpose: int, of: Callable[[Agent], T | None]) -> T | None:
        """Return what the agent was seen to do, or another one of its client, or any one; None: nobody was."""
        agent = self.fitted.agents.get(name)
        if agent is not None and (own := of(agent)) is not None:
            return own
        known = self.fitted.agents.values()
        for others in ([each for each in known if agent is None or each.client == agent.client], known):
            found = [each for other in others if (each := of(other)) is not None]
            if found:
                return found[int(luck(self.seed, _number(name), purpose) * len(found))]
        return None


def _number(name: str) -> int:
    """Return a number for a name, the same in each process."""
    return int.from_bytes(name.encode()[-7:], "big") * 31 + len(name)
