"""An experiment on a running proxy: turns its knobs, measures slices, and always puts back what was set before."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TypeAlias

import msgspec

from hivemind.api_types import RequestsPart
from hivemind.cli import changes
from hivemind.cli.client import ProxyClient, ProxyError
from hivemind.cli.operator.guardian import Kept, put_back
from hivemind.errors import HiveMindError, UsageError
from hivemind.lab.explore.engine import Experiment, Side, Slice
from hivemind.scheduler.commands import some
from hivemind.store.token_file import state_dir
from hivemind.world.snapshot import REQUESTS_PAGE, RequestView

Tell: TypeAlias = Callable[[Side, float, Slice | None], None]
_POLL_S = 1.0
_SETTLES = 10
_BETWEEN_S = 0.2


class Interrupted(Exception):
    """The user or the system ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class ChangedElsewhere(Exception):
    """Somebody else changed a knob that is tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried, on which proxy, and for how long each time."""

    proxy: ProxyClient
    changed: Mapping[str, float]
    """Settings B: the value of each knob."""
    upstream: str | None
    slice_s: float
    transition_s: float
    """Beginning of each slice that isn't measured."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an experiment ended."""

    before: Mapping[str, float]
    """Settings A."""
    kept: bool
    """B is in force."""
    foreign: tuple[str, ...]
    """Knobs that somebody else turned meanwhile, and that were left alone."""
    exit_code: int


def present(proxy: ProxyClient, knobs: Mapping[str, float], upstream: str | None) -> dict[str, float]:
    """Return the value of each knob now. Raises: UsageError: it has none, or several; ProxyError."""
    found = {}
    for name in knobs:
        values = changes.knob_values(proxy, name)
        if not values:
            raise UsageError(f"{name} has no value yet: no request was seen")
        if upstream is not None and upstream not in values:
            raise UsageError(f"no upstream named {upstream!r}; known: {some(sorted(values))}")
        values = values if upstream is None else {upstream: values[upstream]}
        if len(set(values.values())) > 1:
            each = ", ".join(f"{value:g} for {place}" for place, value in values.items())
            raise UsageError(f"{name} is {each}; name one with --upstream")
        found[name] = next(iter(values.values()))
    return found


def explore(trial: Trial, experiment: Experiment, tell: Tell, *, keep: bool) -> Outcome:
    """Run the experiment until it is over; with `keep` leave B in force if it proved better, else put A back.

    `tell` is called about once a second with the side, the seconds into the slice and, once it is complete, the slice.

    Raises: UsageError: a knob has no single value, or another experiment runs on this proxy; ProxyError.
    """
    with _locked(trial.proxy) as lock:
        before = present(trial.proxy, trial.changed, trial.upstream)
        if before == dict(trial.changed):
            raise UsageError("these are the present settings; there is nothing to compare")
        place, token, who = trial.proxy.place, trial.proxy.token.text, trial.proxy.who
        kept = Kept(place.url, place.port, token, who, trial.upstream, before, dict(trial.changed))
        with _guarded(kept, lock) as guardian, _signals():
            return _conduct(trial, experiment, before, kept, guardian, tell, keep=keep)


def _conduct(
    trial: Trial,
    experiment: Experiment,
    before: Mapping[str, float],
    kept: Kept,
    guardian: subprocess.Popen[bytes],
    tell: Tell,
    *,
    keep: bool,
) -> Outcome:
    knobs, code, stays = _Knobs(trial, before), 0, False
    try:
        _note(trial.proxy, f"explore begins: {_named(before)} (A) and {_named(trial.changed)} (B) take turns")
        while experiment.verdict is None:
            if guardian.poll() is not None:
                raise ProxyError("the process that would put the settings back has ended")
            _slice(knobs, experiment, tell)
        stays = keep and experiment.verdict == "better"
        if stays:
            knobs.turn("B")
    except Interrupted as ended:
        stays, code = False, ended.exit_code
        experiment.stop(f"interrupted ({ended})")
    except ChangedElsewhere as ended:
        experiment.stop(str(ended))
    finally:
        foreign: tuple[str, ...] = ()
        with _ignoring_signals():
            if not stays:
                foreign = put_back(trial.proxy, kept)
            assert guardian.stdin is not None
            with contextlib.suppress(OSError):
                guardian.stdin.write(b"done\n")
                guardian.stdin.close()
            with contextlib.suppress(ProxyError):
                _note(trial.proxy, f"explore ended: {'B is kept' if stays else 'A is in force again'}")
    return Outcome(before, stays, foreign, code)


def _slice(knobs: _Knobs, experiment: Experiment, tell: Tell) -> None:
    trial, side = knobs.trial, experiment.side
    knobs.turn(side)
    begun = time.monotonic()
    log = _Log(trial.proxy)
    log.read()
    first: float | None = None
    while True:
        gone = time.monotonic() - begun
        if gone >= trial.slice_s:
            break
        tell(side, gone, None)
        until = trial.slice_s if gone >= trial.transition_s else trial.transition_s
        time.sleep(max(0.0, min(_POLL_S, until - gone)))
        knobs.check()
        log.read()
        if first is None and time.monotonic() - begun >= trial.transition_s:
            first = log.at
        elif first is not None and not experiment.check(log.measured(side, first)):
            return
    found = log.measured(side, log.at - 1.0 if first is None else first)
    experiment.add(found)
    tell(side, trial.slice_s, found)


class _Knobs:
    """Turns the knobs from A to B and back, and notices if somebody else does."""

    def __init__(self, trial: Trial, before: Mapping[str, float]) -> None:
        self.trial = trial
        self._values: Mapping[Side, Mapping[str, float]] = {"A": before, "B": trial.changed}
        self._side: Side = "A"

    def turn(self, side: Side) -> None:
        """Put these settings in force. Raises: ChangedElsewhere, ProxyError."""
        self.check()
        if side == self._side:
            return
        self._side = side
        for name, value in self._values[side].items():
            self.trial.proxy.command("Tune", knob=name, value=value, upstream=self.trial.upstream)
        self.check()

    def check(self) -> None:
        """Raises: ChangedElsewhere: a knob isn't as it was turned; ProxyError."""
        for left in reversed(range(_SETTLES)):
            wrong = self._wrong()
            if not wrong:
                return
            if left:
                time.sleep(_BETWEEN_S)
        raise ChangedElsewhere(f"somebody else turned {' and '.join(wrong)} meanwhile")

    def _wrong(self) -> list[str]:
        lanes = self.trial.proxy.world().snapshot.lanes
        states = [view.state for view in lanes if self.trial.upstream in (None, view.state.upstream)]
        wanted = self._values[self._side]
        return [name for name, value in wanted.items() if any(each.knobs.get(name, value) != value for each in states)]


class _Log:
    """The requests that ended since it was begun."""

    def __init__(self, proxy: ProxyClient) -> None:
        self._proxy, self._run, self._since = proxy, "", 0
        self._ended: dict[int, RequestView] = {}
        self.at = 0.0
        """When it was read last, on the proxy's clock."""

    def read(self) -> None:
        """Take what is new. Raises: ProxyError."""
        at = self._proxy.world().snapshot.at
        full = True
        while full:
            part = self._proxy.get("/requests", RequestsPart, run=self._run or None, since=str(self._since))
            if self._run and part.run != self._run:
                raise ProxyError("the proxy was started anew meanwhile")
            self._run, self._since, full = part.run, part.revision, len(part.changed) >= REQUESTS_PAGE
            self._ended.update((each.ticket, each) for each in part.changed if each.over)
        self.at = at

    def measured(self, side: Side, since: float) -> Slice:
        """Return what ended from then on until it was read last."""
        ended = [each for each in self._ended.values() if since < (each.ended_at or 0.0) <= self.at]
        attempts = [attempt for each in ended if each.state == "answered" for attempt in each.attempts[-1:]]
        return Slice(
            side,
            max(self.at - since, 0.001),
            sum(each.state == "answered" for each in ended),
            sum(each.state in ("failed", "refused") for each in ended),
            sum(each.usage.total for each in ended if each.usage),
            tuple(each.waited_s for each in ended),
            tuple(each.first_content_at - each.granted_at for each in attempts if each.first_content_at is not None),
        )


def _named(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _note(proxy: ProxyClient, text: str) -> None:
    proxy.command("AddNote", text=text)


@contextlib.contextmanager
def _locked(proxy: ProxyClient) -> Iterator[BinaryIO]:
    """Hold the lock of experiments on this proxy, which the guardian holds too."""
    given = os.environ.get("HIVEMIND_STATE_DIR")
    name = "".join(letter if letter.isalnum() else "-" for letter in proxy.place.url)
    try:
        folder = state_dir(Path(given) if given else None)
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"explore-{name}.lock").open("ab")
    except OSError as error:
        raise HiveMindError(f"can't lock out other experiments: {error.strerror or error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HiveMindError(
                f"another hivemind explore runs on {proxy.place.url}; wait until it has ended"
            ) from None
        yield file


@contextlib.contextmanager
def _guarded(kept: Kept, lock: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process that puts the settings back if this one is killed."""
    guardian = subprocess.Popen(
        [sys.executable, "-P", "-m", "hivemind.cli.operator.guardian"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[lock.fileno()],
        start_new_session=True,
    )
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    try:
        guardian.stdin.write(msgspec.json.encode(kept) + b"\n")
        guardian.stdin.flush()
        if not guardian.stdout.readline():
            raise HiveMindError("the process that would put the settings back can't be started")
        yield guardian
    finally:
        with contextlib.suppress(OSError):
            guardian.stdin.close()
        guardian.wait()
        guardian.stdout.close()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    def ended(number: int, _: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled(ended):
        yield


@contextlib.contextmanager
def _ignoring_signals() -> Iterator[None]:
    with _handled(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        earlier = [signal.signal(number, handler) for number in numbers]
    except ValueError:  # not in the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        for number, old in zip(numbers, earlier, strict=True):
            signal.signal(number, old)


def signed(proxy: ProxyClient) -> ProxyClient:
    """Return the proxy's client whose commands say in the log that an experiment gave them."""
    return replace(proxy, who=f"explore of {proxy.who}"[:40])
