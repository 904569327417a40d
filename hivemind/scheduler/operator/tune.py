"""Turning a knob while everything runs: checked, handed to the lanes it is about, remembered for lanes to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hivemind.scheduler.commands import Rejected, Tune
from hivemind.scheduler.config import LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.operator.knobs import KNOBS, Knob

if TYPE_CHECKING:
    from hivemind.scheduler.scheduler import Scheduler


class Tuned:
    """What was tuned so far, by upstream: a renewed credential opens a new lane, which is to begin with it."""

    __slots__ = ("_everywhere", "_here")

    def __init__(self) -> None:
        self._everywhere: dict[str, float] = {}
        self._here: dict[str, dict[str, float]] = {}
        """By upstream; every one that was seen is in it."""

    @property
    def upstreams(self) -> Iterable[str]:
        """Those that had a lane."""
        return self._here

    def begin(self, config: LaneConfig) -> LaneConfig:
        """What a lane of this upstream begins with."""
        for values in (self._everywhere, self._here.setdefault(config.upstream, {})):
            for name, value in values.items():
                config = turned(config, name, value)
        return config

    def note(self, name: str, value: float, upstream: str | None) -> None:
        """Remember it; said of all upstreams, it goes before what was said of one of them earlier."""
        if upstream is not None:
            self._here[upstream][name] = value
            return
        self._everywhere[name] = value
        for values in self._here.values():
            values.pop(name, None)


def tune(scheduler: Scheduler, command: Tune, now: float) -> None:
    """Turn the knob on everything it is about.

    Raises: Rejected: nothing was changed.
    """
    knob = _knob(command.knob)
    _check_range(knob, command.value)
    upstream = command.upstream
    if upstream is not None and upstream not in scheduler.tuned.upstreams:
        known = ", ".join(scheduler.tuned.upstreams) or "none yet"
        raise Rejected(f"no upstream named {upstream!r}; known: {known}")
    if knob.shared:
        settings = _turned_retry(scheduler.config, knob, command.value)
        scheduler.config = settings
        for lane in scheduler.lanes.values():
            lane.configure(now, lane.config, settings)
        return
    lanes = [lane for lane in scheduler.lanes.values() if upstream is None or lane.config.upstream == upstream]
    configs = [turned(lane.config, knob.name, command.value) for lane in lanes]
    for config in configs:
        _check_floor(knob, command.value, config)
    scheduler.tuned.note(knob.name, command.value, upstream)
    for lane, config in zip(lanes, configs, strict=True):
        lane.configure(now, config, lane.settings)


def turned(config: LaneConfig, name: str, value: float) -> LaneConfig:
    """The lane's configuration with this knob, which isn't a shared one, at this value."""
    section, key, number = _taken_apart(name, value)
    if section == "aimd":
        return replace(config, aimd=replace(config.aimd, **{key: number}))
    if section == "circuit":
        return replace(config, circuit=replace(config.circuit, **{key: number}))
    fields = {key: number}
    if key in ("rpm", "tpm"):
        fields[f"{key}_binding"] = number > 0
    return replace(config, **fields)


def readings(config: LaneConfig, retry: RetryConfig, superseded: Iterable[str]) -> Mapping[str, float]:
    """Every knob's value; `superseded` are limits that were only assumed, and aren't any more."""
    sections: Mapping[str, object] = {"": config, "aimd": config.aimd, "circuit": config.circuit, "retry": retry}
    values = {}
    for name in KNOBS:
        section, _, key = name.rpartition(".")
        values[name] = float(getattr(sections[section], key))
    return values | dict.fromkeys(superseded, 0.0)


def _turned_retry(settings: SchedulerConfig, knob: Knob, value: float) -> SchedulerConfig:
    _, key, number = _taken_apart(knob.name, value)
    retry = replace(settings.retry, **{key: number})
    if retry.max_s < retry.base_s:
        if key == "max_s":
            raise _wrong(knob, value, f"at least retry.base_s, which is {_plain(retry.base_s)}")
        raise _wrong(knob, value, f"at most retry.max_s, which is {_plain(retry.max_s)}")
    return replace(settings, retry=retry)


def _taken_apart(name: str, value: float) -> tuple[str, str, Any]:
    section, _, key = name.rpartition(".")
    return section, key, int(value) if KNOBS[name].whole else float(value)


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
