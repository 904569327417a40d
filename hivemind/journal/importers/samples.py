"""Lane gauges for a foreign recording: requests in flight, and what the provider's headers say of its windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState, WindowState
from hivemind.scheduler.types import WindowKind, WindowReading
from hivemind.world.lifecycle import Lifecycle, OpenRequests

EVERY_S = 1.0


class _Lane:
    def __init__(self, opened: ev.LaneOpened) -> None:
        self.opened = opened
        self.windows: dict[tuple[str, WindowKind], tuple[float, WindowReading]] = {}
        self.requests = OpenRequests(Lifecycle)
        self.folds: dict[type[ev.Event], Callable[[Any], object]] = {
            ev.Arrived: self.requests.arrived,
            ev.Granted: self.requests.granted,
            ev.AttemptFailed: self.requests.attempt_failed,
            ev.Finished: self.requests.ended,
            ev.Abandoned: self.requests.ended,
            ev.Refused: self.requests.ended,
            ev.LimitsRead: self._limits_read,
        }

    def _limits_read(self, event: ev.LimitsRead) -> None:
        for reading in event.readings:
            self.windows[event.family, reading.kind] = (event.at, reading)


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
    fold = None if lane is None else lane.folds.get(type(event))
    if fold is not None:
        fold(event)


def _sample(at: float, lanes: dict[str, _Lane]) -> ev.Sampled:
    return ev.Sampled(at, tuple(_state(at, key, lane) for key, lane in lanes.items()))


def _state(at: float, key: str, lane: _Lane) -> LaneState:
    config = lane.opened.config or LaneConfig(lane.opened.upstream, lane.opened.provider)
    retrying = sum(each.state == "retry" for each in lane.requests.by_ticket.values())
    windows = (_window(at, family, *found) for (family, _), found in lane.windows.items())
    return LaneState(
        lane=key,
        upstream=lane.opened.upstream,
        provider=lane.opened.provider,
        active=lane.requests.in_flight,
        waiting=lane.requests.waiting - retrying,
        retrying=retrying,
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
