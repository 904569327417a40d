"""Recordings that no proxy would make: any events in any order, as a damaged or foreign journal may hold them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lab.kit import began

from hivemind.journal.records import Gap
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading

_USED = (None, Usage(10, 0, 0, 5), Usage(0, 0, 0, 0), Usage(100_000, 5, 5, 9_999))
_STEPS_S = (0.0, 0.0, 0.001, 0.1, 1.0, 5.0, 70.0)
_ORDERS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("PauseAgent", {"agent": "a", "paused": True}),
    ("PauseAgent", {"agent": "b", "paused": True}),
    ("PauseAgent", {"agent": "a", "paused": False}),
    ("PauseAdmissions", {"paused": True}),
    ("PauseAdmissions", {"paused": False}),
    ("StopAgent", {"agent": "a", "stopped": True}),
    ("Tune", {"knob": "max_concurrency", "value": 1.0, "upstream": None}),
    ("SubmitTasks", {"tasks": ["t1"]}),
    ("ClaimTask", {"task": "t1", "runner": "x"}),
    ("BeginAgent", {"agent": "a"}),
    ("EndAgent", {"agent": "a", "exit_code": 0}),
    ("FinishTask", {"task": "t1", "ok": True}),
    ("SetPriority", {"agent": "a", "priority": "high"}),
    ("SetBudget", {"agent": "b", "tokens": 10, "dollars": None, "per": "ever"}),
    ("Drain", {"draining": True}),
    ("Drain", {"draining": False}),
    ("FlyToTheMoon", {"slowly": True}),
)


def soup(seed: int, count: int) -> Iterator[ev.Event]:
    """So many events, the same for the same seed."""
    rng = random.Random(seed)
    yield began()
    at = 0.0
    makers = [make for make, weight in _MAKERS for _ in range(weight)]
    for _ in range(count):
        at += rng.choice(_STEPS_S)
        yield rng.choice(makers)(rng, at)


def _who(rng: random.Random, at: float) -> tuple[float, int, str, str]:
    return at, rng.randint(1, 12), rng.choice("abd"), rng.choice(("l:1", "l:2", "m:1"))


def _arrived(rng: random.Random, at: float) -> ev.Event:
    model = rng.choice("mn")
    return ev.Arrived(
        *_who(rng, at),
        model,
        model,
        rng.choice(tuple(Priority)),
        rng.random() < 0.5,
        rng.randint(0, 300),
        rng.randint(0, 300),
        parent=rng.choice((None, "a", "z")),
        asked=rng.choice((None, Priority.HIGH)),
        size_chars=rng.choice((0, 5, 100)),
        max_output_tokens=rng.choice((None, 0, 100)),
        patience_s=rng.choice((None, 0.0, 10.0)),
    )


def _failed(rng: random.Random, at: float) -> ev.Event:
    kind, status = rng.choice(tuple(FailureKind)), rng.choice((None, 429, 500))
    again_s, delay_s = rng.choice((None, 0.0, 1.5, 40.0)), rng.choice((None, 0.0, 1.0, 50.0, 1e6))
    return ev.AttemptFailed(
        *_who(rng, at), 1, kind, status, "", again_s, rng.choice(_USED), rng.random() < 0.8, delay_s
    )


def _opened(rng: random.Random, at: float) -> ev.Event:
    lane = rng.choice(("l:1", "l:2", "m:1"))
    config = LaneConfig(lane[0], "generic", rng.choice((0, 1, 3)), rng.choice((0, 5, 60)), rng.choice((0, 1000)))
    return ev.LaneOpened(at, lane, lane[0], "generic", rng.choice((None, config)))


def _limits(rng: random.Random, at: float) -> ev.Event:
    readings = [
        WindowReading(
            rng.choice(tuple(WindowKind)),
            rng.choice((None, 0, 1, 5, 100)),
            rng.choice((None, 0, 1, 5, 300)),
            rng.choice((None, 0.0, 1.0, 60.0, 1e9)),
        )
        for _ in range(rng.randint(0, 2))
    ]
    return ev.LimitsRead(at, rng.choice(("l:1", "l:2", "m:1")), rng.choice("mn"), tuple(readings))


def _order(rng: random.Random, at: float) -> ev.Event:
    name, arguments = rng.choice(_ORDERS)
    return ev.Commanded(at, "x", name, dict(arguments))


def _task(rng: random.Random, at: float) -> ev.Event:
    after = rng.choice(((), ("t1",), ("t2",)))
    return ev.TaskAdded(at, rng.choice(("t1", "t2")), "b", rng.choice("abd"), Priority.NORMAL, 0, after)


def _recalled(rng: random.Random, at: float) -> ev.Event:
    return ev.AgentRecalled(at, rng.choice("abd"), None, rng.choice((None, Priority.LOW)), rng.random() < 0.5, False)


def _leased(rng: random.Random, at: float) -> ev.Event:
    state, slots = rng.choice(("joining", "leased", "safe")), float(rng.randint(0, 9))
    return ev.LeaseChanged(at, rng.choice(("l:1", "l:2", "m:1")), state, slots, slots, rng.randint(1, 3))


_MAKERS: tuple[tuple[Callable[[random.Random, float], ev.Event], int], ...] = (
    (_arrived, 25),
    (lambda rng, at: ev.Granted(*_who(rng, at), rng.randint(1, 3), rng.choice((0.0, 5.0))), 20),
    (lambda rng, at: ev.Finished(*_who(rng, at), "m", 200, 1, rng.choice(_USED), 1.0), 16),
    (_failed, 10),
    (lambda rng, at: ev.FirstContent(*_who(rng, at), rng.choice((0.0, 1.0)), rng.choice((None, 0.5))), 6),
    (_order, 6),
    (_limits, 5),
    (lambda rng, at: ev.Abandoned(*_who(rng, at), rng.random() < 0.5, rng.choice(_USED)), 3),
    (lambda rng, at: ev.Refused(*_who(rng, at), "queue_full", 503), 3),
    (_opened, 2),
    (_task, 1),
    (_recalled, 1),
    (lambda rng, at: Gap(at, at, rng.randint(1, 9), "the disk is too slow"), 1),
    (_leased, 1),
)
"""How to make one, and how often."""
