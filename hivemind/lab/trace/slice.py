"""A part of a trace between two times: long recordings are drawn from, and held out, in parts."""

from __future__ import annotations

import copy

from hivemind.lab.trace.part import LASTING
from hivemind.lab.trace.steps import CommandStep, RequestStep, TraceStep
from hivemind.lab.trace.trace import Trace
from hivemind.records import replace

_EARLIER_S = 600.0
"""Attempts so long before a part are known to it; rate windows are shorter, except those of hours and days."""


def sliced(trace: Trace, began_at: float, ended_at: float) -> Trace:
    """Return copies of the requests that came between two times, and of the commands that held then.

    What followed from something outside the part comes at its recorded time.
    """
    made = copy.copy(trace)
    made.began = trace.began_at(began_at)
    made.ends_at = min(trace.ends_at, ended_at)
    twins: dict[TraceStep, TraceStep] = {}
    for step in trace.steps():
        if began_at <= step.at < ended_at:
            twins[step] = _twin(step)
        elif step.at < began_at and isinstance(step, CommandStep) and step.name in LASTING:
            twins[step] = replace(step, at=began_at, after=[], awaits=0)
    for step, twin in twins.items():
        _link(step, twin, twins)
    made.requests = [part for each in trace.requests if isinstance(part := twins.get(each), RequestStep)]
    earlier = [
        (request, one)
        for request in trace.requests
        for one in request.attempts
        if began_at - _EARLIER_S <= one.granted_at < began_at
    ]
    made.earlier = sorted(earlier, key=lambda pair: pair[1].granted_at)
    made.start = []
    for first in twins.values():
        if first.awaits == 0:
            first.awaits = 1
            made.start.append((first.at - began_at, first))
    return made


def _twin(step: TraceStep) -> TraceStep:
    if isinstance(step, RequestStep):
        return replace(step, after=[], concurrent=[], repeats=None, awaits=0)
    assert isinstance(step, CommandStep)
    return replace(step, after=[], awaits=0)


def _link(step: TraceStep, twin: TraceStep, twins: dict[TraceStep, TraceStep]) -> None:
    """Let the twins of what followed from a step follow from its twin."""
    if step.at < twin.at:  # a command from before the part, which holds from its beginning
        return
    for delay_s, after in step.after:
        if after in twins:
            twin.after.append((delay_s, twins[after]))
            twins[after].awaits += 1
    if isinstance(step, RequestStep) and isinstance(twin, RequestStep):
        for delay_s, after in step.concurrent:
            if after in twins:
                twin.concurrent.append((delay_s, twins[after]))
                twins[after].awaits += 1
        again = None if step.repeats is None else twins.get(step.repeats)
        twin.repeats = again if isinstance(again, RequestStep) else None
