"""Turning a knob while everything runs: checked, handed to the lanes in its scope, remembered for lanes to come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from hivemind.scheduler.commands import Rejected, Tune
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.lane import Lane
from hivemind.scheduler.operator.knobs import KNOBS, Knob, parsed, turned


class Tuning:
    """What was tuned so far, by upstream, so that a lane opened for a renewed credential begins with it."""

    def __init__(self) -> None:
        self._everywhere: dict[str, float] = {}
        self._upstreams: dict[str, dict[str, float]] = {}
        """By upstream, every one that had a lane included."""

    def begin(self, config: LaneConfig) -> LaneConfig:
        """Return what a new lane of this upstream begins with."""
        for values in (self._everywhere, self._upstreams.setdefault(config.upstream, {})):
            for name, value in values.items():
                config = turned(config, name, value)
        return config

    def turn(self, command: Tune, lanes: Iterable[Lane], settings: SchedulerConfig, now: float) -> SchedulerConfig:
        """Turn the knob on every lane in its scope. Return the settings that hold from now on.

        Raises: Rejected: nothing was changed.
        """
        knob, value, upstream = _knob(command.knob), command.value, command.upstream
        _check_range(knob, value)
        if upstream is not None and upstream not in self._upstreams:
            known = ", ".join(self._upstreams) or "none yet"
            raise Rejected(f"no upstream named {upstream!r}; known: {known}")
        if knob.shared:
            settings = _turned_retry(settings, knob, value)
            for lane in lanes:
                lane.configure(now, lane.config, settings)
            return settings
        configs = {
            lane: turned(lane.config, knob.name, value)
            for lane in lanes
            if upstream is None or lane.config.upstream == upstream
        }
        for config in configs.values():
            _check_floor(knob, value, config)
        self._remember(knob.name, value, upstream)
        for lane, config in configs.items():
            lane.configure(now, config, lane.settings)
        return settings

    def _remember(self, name: str, value: float, upstream: str | None) -> None:
        """A value for all upstreams replaces what was tuned for one of them earlier."""
        if upstream is not None:
            self._upstreams[upstream][name] = value
            return
        self._everywhere[name] = value
        for values in self._upstreams.values():
            values.pop(name, None)


def _turned_retry(settings: SchedulerConfig, knob: Knob, value: float) -> SchedulerConfig:
    _, key, number = parsed(knob.name, value)
    retry = replace(settings.retry, **{key: number})
    if retry.max_s < retry.base_s:
        if key == "max_s":
            raise _wrong(knob, value, f"at least retry.base_s, which is {_plain(retry.base_s)}")
        raise _wrong(knob, value, f"at most retry.max_s, which is {_plain(retry.max_s)}")
    return replace(settings, retry=retry)


def _knob(name: str) -> Knob:
    if name in KNOBS:
        return KNOBS[name]
    close = get_close_matches(name.lower(), KNOBS, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(KNOBS)}"
    raise Rejected(f"no knob named {name!r}; {hint}")


def _check_range(knob: Knob, value: float) -> None:
    if knob.zero_is_none and value == 0:
        return
    if knob.lowest <= value <= knob.highest and (not knob.whole or value == int(value)):
        return
    allowed = f"{'a whole number' if knob.whole else 'a number'} from {_plain(knob.lowest)} to {_plain(knob.highest)}"
    raise _wrong(knob, value, f"{allowed}, or 0 for no limit" if knob.zero_is_none else allowed)


def _check_floor(knob: Knob, value: float, config: LaneConfig) -> None:
    floor, ceiling = config.aimd.floor, config.max_concurrency
    if not ceiling or floor <= ceiling:
        return
    if knob.name == "aimd.floor":
        raise _wrong(knob, value, f"at most max_concurrency, which is {ceiling:,} ({config.upstream})")
    if knob.name == "max_concurrency":
        raise _wrong(knob, value, f"at least aimd.floor, which is {_plain(floor)} ({config.upstream})")


def _wrong(knob: Knob, value: float, right: str) -> Rejected:
    return Rejected(f"{knob.name} {_plain(value)}: must be {right}")


def _plain(value: float) -> str:
    return f"{value:,.10g}"
