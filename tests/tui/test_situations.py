"""The first screen in each situation that an operator is called for: the verdict, its cause and its end stand on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from tui.kit import frame, screen, settle, text, whole_screen
from tui.worlds import FakeSource, empty_world, world

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, Hold
from hivemind.world.gates import GATES
from hivemind.world.health import Forecast, Waits
from hivemind.world.slow import MAX_CONCURRENCY, RPM
from hivemind.world.snapshot import LaneView, RecordingView, Snapshot, TicketView
from hivemind.world.verdict import completed, judged
from hivemind_tui.panels import header
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

pytestmark = pytest.mark.e2e


def _calm(**about: Any) -> Snapshot:
    """Requests flow, a few wait for a slot, and nothing is rate-limited."""
    full = world()
    full = replace(full, agents=tuple(replace(agent, budget=None) for agent in full.agents))
    queue = tuple(replace(ticket, gate="slot", gate_opens_in_s=None, since_s=3.0) for ticket in full.queue)
    state = replace(full.lanes[0].state, rate_limited_for_s=0.0, circuit_errors=0, upcoming=_holds(queue, "slot", None))
    return judged(replace(full, queue=queue, lanes=(LaneView(state, full.lanes[0].curve),), **about))


def _holds(queue: tuple[TicketView, ...], gate: str, opens_in_s: float | None) -> tuple[Hold, ...]:
    return tuple(Hold(ticket.ticket, gate, opens_in_s, 55.0) for ticket in queue)


def _waiting(gate: str, opens_in_s: float | None, **about: Any) -> Snapshot:
    """All of them wait for one gate."""
    full = _calm()
    queue = tuple(
        replace(ticket, state="queued", gate=gate, gate_opens_in_s=opens_in_s, estimate_s=55.0)
        for ticket in (*full.slots, *full.queue)
    )
    holds = _holds(queue, gate, opens_in_s)
    state = replace(full.lanes[0].state, active=0, waiting=len(queue), retrying=0, upcoming=holds, **about)
    return judged(replace(full, slots=(), queue=queue, queued=len(queue), lanes=(LaneView(state, ()),)))


def _died() -> Snapshot:
    full = _calm()
    first, *others = full.agents
    return judged(replace(full, agents=(replace(first, state="died", exit_code=3, running=False), *others)))


def _pool(used: int, **about: Any) -> Snapshot:
    pool = BudgetState(None, 1_000_000, None, "run", "all", used, 0.0, 0)
    return judged(replace(_calm(pool=pool), **about))


def _one_upstream_fails() -> Snapshot:
    """The other one serves what is in flight."""
    full = _calm()
    works = full.lanes[0].state
    fails = replace(works, lane="openai", upstream="openai", active=0, waiting=0, retrying=0, upcoming=())
    fails = replace(fails, circuit="open", circuit_reopens_in_s=6.0)
    return judged(replace(full, lanes=(*full.lanes, LaneView(fails, ()))))


def _waits_long() -> Snapshot:
    full = _calm()
    first, *others = full.queue
    patient = replace(first, since_s=95.0, estimate_s=40.0)
    return judged(replace(full, queue=(patient, *others)))


WAITING = "9 of 9 wait"
_KEY = re.compile(r" \(\w\)$")
SITUATIONS: dict[str, tuple[Callable[[], Snapshot], tuple[str, ...]]] = {
    "healthy": (_calm, ("● HEALTHY",)),
    "idle": (empty_world, ("● HEALTHY",)),
    "one agent died": (_died, ("▲ DEGRADED alice died (exit code 3), until restarted or acknowledged",)),
    "the circuit is open": (
        lambda: _waiting("circuit", 0.6, circuit="open", circuit_reopens_in_s=0.6),
        ("✕ BLOCKED circuit open, probe in 1 s", WAITING),
    ),
    "the circuit is forced open": (
        lambda: _waiting("circuit", None, circuit="open", circuit_forced=True),
        ("✕ BLOCKED circuit forced open, until you set it to automatic (c)", WAITING),
    ),
    "half-open": (lambda: _probing(), ("▲ DEGRADED circuit half-open, its probe decides",)),
    "a window is used up": (
        lambda: _waiting("requests", 41.0),
        ("✕ BLOCKED requests a minute used up, opens in 41 s", WAITING),
    ),
    "rate-limited": (
        lambda: _waiting("rate_limited", 8.5, rate_limited_for_s=8.5),
        ("✕ BLOCKED rate-limited (Retry-After), resumes in 9 s", WAITING),
    ),
    "90 % of the budget": (
        lambda: _pool(900_000, forecast=Forecast(budgets={"": 720.0})),
        ("● HEALTHY", "the pool is 90 % used, lasts about 12 min"),
    ),
    "the budget is used up": (
        lambda: _pool(1_000_000, slots=(), lanes=()),
        ("✕ BLOCKED the pool is used up, until you raise it",),
    ),
    "paused": (lambda: _calm(mode="paused"), ("PAUSED nothing new is sent, until you resume (p)",)),
    "draining": (lambda: _calm(mode="draining"), ("DRAINING new requests are refused, 6 still in flight (D)",)),
    "one upstream of two fails": (_one_upstream_fails, ("▲ DEGRADED openai: circuit open, probe in 6 s",)),
    "the journal can't be written": (
        lambda: completed(_calm(), None, RecordingView("/j", 4_200, 7, "No space left on device")),
        ("▲ DEGRADED the journal can't be written", "until its disk takes it again"),
    ),
    "a long wait": (_waits_long, ("▲ DEGRADED bob waits for 95 s (no slot is free), sent in about 40 s",)),
}


def _probing() -> Snapshot:
    """One of them is the probe."""
    full = _waiting("circuit", None, circuit="half_open")
    state = replace(full.lanes[0].state, active=1)
    probe = replace(full.queue[0], state="waiting")
    rest = full.queue[1:]
    return judged(replace(full, lanes=(LaneView(state, ()),), slots=(probe,), queue=rest, queued=len(rest)))


async def test_verdict_cause_and_end_are_in_the_first_row() -> None:
    """In each situation, as one small screen gets from one to the next, and on a large one."""
    source = FakeSource(_calm())
    missing = []
    async with screen(source, (80, 24)) as pilot:
        for name, (made, words) in SITUATIONS.items():
            source.become(made())
            await frame(pilot)
            rows = whole_screen(pilot).splitlines()[0], text(header.render(View(made()), 160, 2, Pen()))
            missing += [f"{name}: {each!r} is missing in {row!r}" for each in words for row in rows if each not in row]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_line_for_programs_says_the_same(name: str) -> None:
    """`hivemind status` and `hm.status` have the words of the screen, on one line."""
    made, words = SITUATIONS[name]
    said = made().verdict.text
    for each in words:
        assert _KEY.sub("", each.lstrip("●▲✕ ")) in said


SLOW: list[tuple[dict[str, float], str]] = [
    (
        {"level cut by 529s": 75.0, "requests a minute": 10.0, "circuit": 9.0},
        "80 % level cut by 529s  11 % requests a minute  10 % circuit",
    ),
    ({MAX_CONCURRENCY: 60.0}, "100 % max concurrency (HiveMind's own limit) ] frees it"),
    ({RPM: 60.0, "circuit": 2.0}, "97 % requests a minute (assumed by HiveMind) 4 frees it"),
    ({GATES["held"].kept or GATES["held"].word: 600.0, "circuit": 2.0}, ""),
    ({"circuit": 20.0}, ""),
]


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_why_it_is_slow_has_a_row_of_its_own(size: tuple[int, int]) -> None:
    """Beside every state while waits are considerable; not for what an operator holds; it fits the smallest screen."""
    full = _calm()
    died = replace(full, agents=(replace(full.agents[0], state="died", exit_code=1), *full.agents[1:]))
    source = FakeSource(full)
    async with screen(source, size=size) as pilot:
        for (seconds, row), (made, state) in product(SLOW, ((full, "HEALTHY"), (died, "DEGRADED"))):
            source.become(judged(replace(made, waits=Waits(seconds, 300.0, slowed=False))))
            await frame(pilot)
            await settle(pilot)
            first, second, third, *_ = whole_screen(pilot).splitlines()
            assert state in first
            assert "[1" in (third if row else second)
            brief = re.sub(r"\((HiveMind's own limit|assumed by HiveMind)\)", "(HiveMind's)", row)
            wanted = f"waits in 10 min:  {row}" if size[0] > 80 else f"waits:  {brief}"
            assert not row or second.strip().startswith(wanted)
