"""A trace with more agents than were recorded, or fewer: copies of the recorded ones under other names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from hivemind.lab.fit.clients import Clients
from hivemind.lab.trace.steps import CommandStep, RequestStep, TracedAttempt, TraceStep
from hivemind.lab.trace.trace import Trace
from hivemind.records import replace

Agent = tuple[int, str]
"""Proxy and name."""


def runs(trace: Trace) -> list[Agent]:
    """Return the agents that no other agent started, in order of their first requests."""
    tops = _tops(trace)
    return list(dict.fromkeys(tops[request.proxy, request.arrived.agent] for request in trace.requests))


def crowd(trace: Trace, clients: Clients, wanted: int) -> tuple[Trace, Clients]:
    """Return trace and clients with so many agents, counting those that no other agent started; theirs come along.

    Copies come when their originals do, as a larger team that starts the same work would.
    """
    tops, there = _tops(trace), runs(trace)
    steps = trace.steps()
    apart = 1 + max(chain.from_iterable(map(_numbers, steps)), default=0)
    made = copy.copy(trace)
    made.requests, made.start = [], []
    agents = dict(clients.agents)
    for number in range(-(-wanted // len(there))):
        chosen = set(there[: wanted - number * len(there)])
        kept = {agent for agent, top in tops.items() if top in chosen}

        def named(agent: str, number: int = number) -> str:
            return f"{agent}+{number}" if number else agent

        agents |= {named(name): agent for name, agent in clients.agents.items()}
        twins = {step: _twin(step, kept, named, number * apart, copied=number > 0) for step in steps}
        for step, twin in twins.items():
            _link(step, twin, twins)
        made.requests += [twin for each in trace.requests if isinstance(twin := twins[each], RequestStep)]
        made.start += [(delay_s, twins[step]) for delay_s, step in trace.start]
    return made, replace(clients, agents=agents)


def _tops(trace: Trace) -> dict[Agent, Agent]:
    """Return for each agent the furthest known one that it was started for, itself if there is none."""
    parents = {
        (request.proxy, request.arrived.agent): request.arrived.parent
        for request in reversed(trace.requests)
        if request.arrived.parent
    }
    found = {}
    for request in trace.requests:
        proxy, name = agent = request.proxy, request.arrived.agent
        seen = {name}
        while (parent := parents.get((proxy, name))) and parent not in seen:
            seen.add(name := parent)
        found[agent] = proxy, name
    return found


def _twin(step: TraceStep, kept: set[Agent], named: Callable[[str], str], apart: int, *, copied: bool) -> TraceStep:
    """Return a step's copy for these agents; for others one that does nothing, so that what followed from it does."""
    number = step.number + apart
    if isinstance(step, RequestStep) and (step.proxy, step.arrived.agent) in kept:
        agent, parent = named(step.arrived.agent), step.arrived.parent and named(step.arrived.parent)
        return replace(
            step,
            number=number,
            arrived=structs.replace(step.arrived, agent=agent, parent=parent),
            request=replace(step.request, agent=agent, parent=parent),
            inherent=[_numbered(one, apart) for one in step.inherent],
            after=[],
            concurrent=[],
            repeats=None,
        )
    if isinstance(step, CommandStep):
        about = step.arguments.get("agent")
        if isinstance(about, str) and any(name == about for _, name in kept):
            return replace(step, number=number, arguments={**step.arguments, "agent": named(about)}, after=[])
        if not copied and not isinstance(about, str):
            return replace(step, number=number, after=[])
    return CommandStep(step.at, number=number, awaits=step.awaits)


def _numbers(step: TraceStep) -> Iterator[int]:
    """Yield all numbers by which a step's happenings are ordered."""
    yield step.number
    if isinstance(step, RequestStep):
        for one in step.inherent:
            yield one.first_number or 0
            yield one.end_number or 0


def _numbered(one: TracedAttempt, apart: int) -> TracedAttempt:
    first, end = one.first_number, one.end_number
    first_number, end_number = first if first is None else first + apart, end if end is None else end + apart
    return replace(one, first_number=first_number, end_number=end_number)


def _link(step: TraceStep, twin: TraceStep, twins: Mapping[TraceStep, TraceStep]) -> None:
    """Let the twins of what followed from a step follow from its twin."""

    def of(followed: Sequence[tuple[float, TraceStep]]) -> list[tuple[float, TraceStep]]:
        return [(delay_s, twins[after]) for delay_s, after in followed]

    twin.after = of(step.after)
    if not isinstance(step, RequestStep):
        return
    if isinstance(twin, RequestStep):
        twin.concurrent = of(step.concurrent)
        repeats = None if step.repeats is None else twins[step.repeats]
        twin.repeats = repeats if isinstance(repeats, RequestStep) else None
    else:
        twin.after += of(step.concurrent)
