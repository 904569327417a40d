"""Gauges of lanes that nobody took: who was in flight, and what the provider's headers left of its windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState, WindowState
from hivemind.scheduler.types import WindowKind, WindowReading

EVERY_S = 1.0


@dataclass(slots=True)
class _Lane:
    opened: ev.LaneOpened
    flying: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    retrying: set[int] = field(default_factory=set)
    windows: dict[tuple[str, WindowKind], tuple[float, WindowReading]] = field(default_factory=dict)


def sampled(events: Iterable[ev.Event]) -> Iterator[ev.Event]:
    """The events, and about once a second while anything happens how the lanes stood."""
    lanes: dict[str, _Lane] = {}
    told_at = latest = 0.0
    for event in events:
        if event.at >= told_at + EVERY_S and lanes and told_at < latest:
            yield _sample(latest, lanes)
            told_at = latest
        _follow(lanes, event)
        latest = event.at
        yield event
    if lanes:
        yield _sample(latest, lanes)


def _follow(lanes: dict[str, _Lane], event: ev.Event) -> None:
    if isinstance(event, ev.LaneOpened):
        lanes[event.lane] = _Lane(event)
    lane = lanes.get(getattr(event, "lane", ""))
    if lane is None:
        return
    if isinstance(event, ev.LimitsRead):
        for reading in event.readings:
            lane.windows[event.family, reading.kind] = (event.at, reading)
        return
    ticket: int = getattr(event, "ticket", 0)
    if isinstance(event, ev.Arrived | ev.Granted | ev.AttemptFailed | ev.Finished | ev.Abandoned | ev.Refused):
        for place in (lane.flying, lane.waiting, lane.retrying):
            place.discard(ticket)
    if isinstance(event, ev.Arrived):
        lane.waiting.add(ticket)
    elif isinstance(event, ev.Granted):
        lane.flying.add(ticket)
    elif isinstance(event, ev.AttemptFailed) and event.retry_in_s is not None:
        lane.retrying.add(ticket)


def _sample(at: float, lanes: dict[str, _Lane]) -> ev.Sampled:
    return ev.Sampled(at, tuple(_state(at, key, lane) for key, lane in lanes.items()))


def _state(at: float, key: str, lane: _Lane) -> LaneState:
    config = lane.opened.config or LaneConfig(lane.opened.upstream, lane.opened.provider)
    windows = (_window(at, family, *found) for (family, _), found in lane.windows.items())
    return LaneState(
        lane=key,
        upstream=lane.opened.upstream,
        provider=lane.opened.provider,
        active=len(lane.flying),
        waiting=len(lane.waiting),
        retrying=len(lane.retrying),
        level=math.inf,
        ceiling=math.inf,
        floor=config.aimd.floor,
        pinned=False,
        mean_ttft_s=None,
        latency_target_s=config.aimd.latency_target_s,
        parked_for_s=0.0,
        paused=False,
        circuit="closed",
        circuit_forced=False,
        circuit_errors=0,
        circuit_results=0,
        circuit_window=config.circuit.window,
        circuit_threshold=config.circuit.threshold,
        circuit_reopens_in_s=None,
        windows=tuple(each for each in windows if each is not None),
        plan=(),
    )


def _window(at: float, family: str, read_at: float, reading: WindowReading) -> WindowState | None:
    """None: the headers don't say how large it is."""
    if reading.limit is None or reading.remaining is None:
        return None
    resets_in_s = None if reading.reset_in_s is None else max(0.0, reading.reset_in_s - (at - read_at))
    used = max(0, reading.limit - reading.remaining)
    return WindowState(family, reading.kind, reading.limit, used, 0.0, reading.remaining, resets_in_s, "headers")
