"""Made-up worlds for the screen: the same for the same seed, and as varied as a bad afternoon."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tui.requests import detail_of, requests_of
from world.kit import state

from hivemind.journal.read.older import OlderLines
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected
from hivemind.scheduler.events import BudgetState, Hold, WindowState
from hivemind.scheduler.types import Priority, Usage, Utilisation, WindowKind
from hivemind.settings.write import Draft
from hivemind.world.fleet import Fleet
from hivemind.world.health import Histogram, Vitals
from hivemind.world.snapshot import (
    AgentView,
    CurvePoint,
    LaneView,
    Line,
    ModelView,
    RequestDetail,
    Requests,
    RequestView,
    Snapshot,
    TicketView,
    Totals,
)
from hivemind.world.verdict import judged, verdict
from hivemind_tui.sources.base import Link, RequestList, Source

NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory-refactors")
STATES = ("streaming", "queued", "streaming", "waiting", "retry", "streaming", "queued", "idle", "streaming", "held")
MODELS = ("claude-opus-4", "claude-sonnet-4", "claude-haiku-4")
SPENT = (
    ModelView("anthropic", "claude-haiku-4", Usage(90_000, 0, 0, 40_512), 0.29),
    ModelView("anthropic", "claude-opus-4", Usage(414_000, 5_200_000, 0, 180_000), 14.81),
    ModelView("anthropic", "claude-sonnet-4", Usage(700_000, 3_200_000, 0, 110_000), 3.32, 40_000),
    ModelView("openai", "gpt-of-a-name-that-is-too-long", Usage(0, 0, 0, 10_000), 0.0, 10_000),
)
LANE = "anthropic"
WALL = 1_700_000_000.0
KNOBS = {
    "aimd.alpha": 0.5,
    "aimd.beta": 0.5,
    "aimd.latency_target_s": 2.0,
    "aimd.floor": 1.0,
    "max_concurrency": 12.0,
    "circuit.threshold": 0.5,
    "circuit.window": 20.0,
    "circuit.cooldown_s": 10.0,
    "rpm": 50.0,
    "tpm": 400_000.0,
    "retry.max_attempts": 10.0,
    "retry.base_s": 1.0,
    "retry.max_s": 30.0,
    "retry.deadline_s": 600.0,
    "retry.budget_ratio": 0.2,
}

_POINTS = range(60)
VITALS = Vitals(
    requests_per_s=2.44,
    tokens_per_min=71_400.0,
    tokens_limit=80_000.0,
    error_share=0.134,
    failed_share=0.02,
    wait_p50_s=0.8,
    wait_p95_s=12.6,
    ttft_p50_s=0.61,
    ttft_p95_s=2.4,
    dollars_per_hour=3.41,
    series={
        "requests_per_s": tuple(1.0 + n % 7 for n in _POINTS),
        "tokens_per_min": tuple(1200.0 * n for n in _POINTS),
        "error_share": tuple(None if n % 5 == 0 else 0.02 * (n % 3) for n in _POINTS),
        "wait_p95_s": tuple(None if n < 20 else 0.3 * n for n in _POINTS),
        "ttft_p95_s": tuple(2.0 + n % 2 for n in _POINTS),
        "dollars_per_hour": tuple(float(n // 10) for n in _POINTS),
        "tasks_done": tuple(n // 5 for n in _POINTS),
    },
    waits=Histogram((0, 0, 0, 4, 9, 22, 31, 48, 37, 29, 18, 11, 4, 1, 0, 0, 0, 0), sum_s=640.0),
    ttfts=Histogram((0, 0, 0, 0, 0, 3, 28, 74, 66, 21, 4, 0, 0, 0, 0, 0, 0, 0), sum_s=255.0),
)
"""A minute in which much happened, and the five before it."""


@functools.cache
def world(seed: int = 11, *, agents: int = 11, minutes: float = 10.0, lanes: int = 1) -> Snapshot:
    """A proxy in the middle of it: some stream, some wait, one is retried, one is paused."""
    dice = random.Random(seed)
    crew = tuple(_agent(dice, index) for index in range(agents))
    tickets = [_ticket(dice, number, agent) for number, agent in enumerate(crew, 1) if agent.state in TICKETS]
    waits = {ticket.agent: ticket.age_s % 12 for ticket in tickets if ticket.state in ("queued", "retry")}
    slots = tuple(ticket for ticket in tickets if ticket.state in ("streaming", "waiting"))
    sent = {ticket.agent: ticket.since_s for ticket in slots}
    crew = tuple(
        replace(agent, waiting_s=waits.get(name, 0.0), sent_s=sent.get(name, 0.0), activity=_activity(number))
        for number, (name, agent) in enumerate((agent.name, agent) for agent in crew)
    )
    queue = tuple(ticket for ticket in tickets if ticket.state in ("queued", "retry"))
    curve = _curve(dice, int(minutes * 60))
    views = tuple(_lane(LANE if n == 0 else f"openai-{n}", slots, queue, curve) for n in range(lanes))
    full = Snapshot(
        at=5000.0,
        wall=WALL,
        uptime_s=8073.0,
        mode="serving",
        address="http://127.0.0.1:8765",
        upstreams=(("anthropic", "https://api.anthropic.com"),),
        lanes=views,
        slots=slots,
        queue=queue,
        queued=len(queue),
        agents=crew,
        lines=_lines(dice),
        totals=Totals(
            requests=214,
            finished=196,
            failed=0,
            refused=0,
            abandoned=2,
            retries=31,
            retried_ok=27,
            agents_recovered=9,
            tokens_saved=182_400,
            usage=Usage(input_tokens=1_204_000, cache_read_tokens=8_400_000, output_tokens=340_512),
            wasted=Usage(input_tokens=0, output_tokens=0),
            dollars=18.42,
        ),
        models=SPENT,
        vitals=VITALS,
    )
    return calm(full)


def calm(snapshot: Snapshot) -> Snapshot:
    """The same, judged as if the agent whose budget is used up had none."""
    unlimited = tuple(replace(agent, budget=None) for agent in snapshot.agents)
    return replace(snapshot, verdict=verdict(replace(snapshot, agents=unlimited)))


TICKETS = ("streaming", "waiting", "queued", "retry")


def calm_world(**about: Any) -> Snapshot:
    """The same with these values, judged by them too."""
    return calm(replace(world(), **about))


def empty_world() -> Snapshot:
    """A proxy that nobody has asked for anything."""
    full = world()
    empty = replace(
        full,
        lanes=(),
        slots=(),
        queue=(),
        queued=0,
        vitals=Vitals(),
        agents=(),
        lines=(),
        uptime_s=3.0,
        totals=Totals(),
    )
    return judged(empty)


class FakeSource(Source):
    """A source whose world is handed in, and that remembers what it was told."""

    link = Link()

    def __init__(
        self, snapshot: Snapshot | Callable[[], Snapshot], reject: str = "", requests: tuple[RequestView, ...] = ()
    ) -> None:
        self._snapshot = snapshot
        self.reject = reject
        self.its_fleet = Fleet()
        self.everywhere: tuple[AgentView, ...] = ()
        self.applied: list[Command] = []
        self.older: tuple[Line, ...] = ()
        """Lines of its journal."""
        self.remembered = requests
        self.revision = 1
        self.collected = RequestList()
        self.file = Draft(Path("hivemind.toml"), "[aimd]\nbeta = 0.5\n", "[aimd]\nbeta = 0.7\n")
        self.drafted: Mapping[str, float] = {}
        self.written: list[Draft] = []

    def snapshot(self) -> Snapshot:
        return self._snapshot() if callable(self._snapshot) else self._snapshot

    def become(self, snapshot: Snapshot | Callable[[], Snapshot]) -> None:
        """Another world from now on."""
        self._snapshot = snapshot

    def fleet(self) -> Fleet:
        return self.its_fleet

    def agents_everywhere(self) -> tuple[AgentView, ...]:
        return self.everywhere

    def requests(self) -> tuple[RequestView, ...]:
        self.collected.update(Requests(self.revision, 0, self.remembered))
        return self.collected.all

    async def older_lines(self, before: float) -> OlderLines:
        lines = [line for line in self.older if line.at < before]
        return OlderLines(tuple(lines[-10:]), lines[-10].at if len(lines) > 10 else None)

    async def detail(self, ticket: int) -> RequestDetail | None:
        return next((detail_of(request) for request in self.remembered if request.ticket == ticket), None)

    async def apply(self, command: Command) -> None:
        if self.reject:
            raise Rejected(self.reject)
        self.applied.append(command)

    async def draft(self, values: Mapping[str, float]) -> Draft:
        self.drafted = values
        return self.file

    async def write(self, draft: Draft) -> None:
        self.written.append(draft)


def busy_source(agents: int = 11, requests: int = 60) -> FakeSource:
    """A world with remembered requests."""
    full = world(agents=agents)
    return FakeSource(full, requests=requests_of(full, requests))


def _agent(dice: random.Random, index: int) -> AgentView:
    state = STATES[index % len(STATES)]
    name = NAMES[index] if index < len(NAMES) else f"agent-{index:02d}"
    asked = dice.randint(3, 120)
    retries = dice.randint(0, 5)
    agent = AgentView(
        name=name,
        client=dice.choice(("claude-code", "codex", "anthropic-sdk")),
        parent=None,
        priority=(Priority.NORMAL, Priority.HIGH, Priority.NORMAL, Priority.CRITICAL, Priority.LOW)[index % 5],
        state=state,
        held=state == "held",
        in_flight=int(state in ("streaming", "waiting")),
        queued=int(state in ("queued", "retry")),
        requests=asked,
        finished=asked - 1,
        failed=0,
        retries=retries,
        retried_ok=retries,
        usage=Usage(
            input_tokens=dice.randint(900, 90_000),
            cache_read_tokens=dice.randint(0, 900_000),
            output_tokens=dice.randint(200, 40_000),
        ),
        ttft_s=round(dice.uniform(0.4, 4.8), 2) if asked > 8 else None,
        waited_s=dice.uniform(0, 90),
        last_seen_s=dice.uniform(0, 12),
        last_error="429 rate_limit_error" if retries else "",
        error_s=185.0,
        error_over=True,
        dollars=round(dice.uniform(0.01, 4.2), 4),
        unpriced=0 if index % 7 else 1200,
        served_s=dice.uniform(20, 900),
        boosted_for_s=42.0 if index == 5 else 0.0,
    )
    return replace(agent, budget=_budget(index, agent))


def budget(agent: AgentView, tokens: int | None = None, dollars: float | None = None, **about: Any) -> BudgetState:
    """The agent's budget, used as far as the agent has used anything."""
    state = BudgetState(
        agent.name, tokens, dollars, "run", "agent", agent.usage.total, agent.dollars, agent.unpriced, 12_000
    )
    return replace(state, **about)


def _budget(index: int, agent: AgentView) -> BudgetState | None:
    """Every third has one, of tokens, of dollars or of both."""
    if index % 3:
        return None
    if index % 9 == 6:
        return budget(agent, dollars=5.0, per="day")
    return budget(agent, 2_000_000, 2.5, covers="subtree") if index % 9 == 3 else budget(agent, 500_000)


def _ticket(dice: random.Random, number: int, agent: AgentView) -> TicketView:
    retry = agent.state == "retry"
    return TicketView(
        ticket=number,
        agent=agent.name,
        lane=LANE,
        model=dice.choice(MODELS),
        priority=agent.priority,
        state=agent.state,
        since_s=dice.uniform(0.2, 60),
        age_s=dice.uniform(60, 90),
        attempt=2 if retry else int(agent.state in ("streaming", "waiting")),
        output_tokens=dice.randint(1, 4000) if agent.state == "streaming" else 0,
        estimated_tokens=dice.randint(300, 30_000),
        retry_in_s=3.1 if retry else None,
        last_error="529 overloaded_error" if retry else "",
        stream=True,
        gate="backoff" if retry else "tokens" if agent.state == "queued" else "",
        gate_opens_in_s=3.1 if retry else 4.0 if agent.state == "queued" else None,
        position=number if agent.state == "queued" else None,
        estimate_s=round(dice.uniform(4, 30), 1) if agent.state in ("queued", "retry") else None,
    )


def _activity(number: int) -> tuple[int, ...]:
    """Bursts and silence, a few of them in the last minute only; every fourth agent has none."""
    steps = (0 if (step // 3 + number) % 3 == 0 else 900 * ((step * 7 + number * 3) % 11) for step in range(24))
    return tuple(steps)[number % 3 * 6 :] if number % 4 else ()


def _curve(dice: random.Random, points: int) -> tuple[CurvePoint, ...]:
    level, curve = 4.0, []
    for index in range(points):
        level, mark, cut = level + 0.03, "", None
        if dice.random() < 0.008:
            cut = level, max(1.0, level / 2)
            level, mark = cut[1], "overloaded"
        level = min(12.0, level)
        ttft = 1.1 + level / 12 + dice.uniform(-0.3, 0.5)
        curve.append(
            CurvePoint(
                at=5000.0 - points + index,
                level=level,
                active=max(0, int(level) - dice.randint(0, 2)),
                waiting=dice.randint(0, 5),
                ttft_s=ttft if index > 20 else None,
                mark=mark,
                cut=cut,
            )
        )
    return tuple(curve)


def _lane(
    name: str, slots: tuple[TicketView, ...], queue: tuple[TicketView, ...], curve: tuple[CurvePoint, ...]
) -> LaneView:
    return LaneView(
        state=state(
            8.5,
            lane=name,
            upstream="anthropic",
            provider="anthropic",
            active=len(slots),
            waiting=sum(1 for ticket in queue if ticket.state == "queued"),
            retrying=sum(1 for ticket in queue if ticket.state == "retry"),
            ceiling=12.0,
            mean_ttft_s=1.42,
            rate_limited_for_s=3.1,
            circuit_errors=3,
            circuit_results=17,
            windows=(
                WindowState("claude-opus", WindowKind.REQUESTS, 50, 31, 6, 19, 23.0, "headers"),
                WindowState("claude-opus", WindowKind.INPUT, 400_000, 318_000, 41_000, 82_000, 23.0, "headers"),
                WindowState("claude-opus", WindowKind.OUTPUT, 80_000, 24_000, 3_000, 56_000, 23.0, "headers"),
            ),
            plan=(Utilisation("5h", 0.97, 4360.0, "allowed_warning"), Utilisation("7d", 0.41, 300_000.0, "allowed")),
            upcoming=tuple(
                Hold(ticket.ticket, ticket.gate, ticket.gate_opens_in_s, ticket.estimate_s) for ticket in queue
            ),
            knobs=dict(KNOBS),
        ),
        curve=curve,
    )


def _lines(dice: random.Random) -> tuple[Line, ...]:
    texts = (
        ("info", "aimd", LANE, "level 8.0 → 8.5 (grow)"),
        ("warn", "retry", "erin", "529 overloaded_error, next try in 3.1s"),
        ("bad", "429", LANE, "rate limited: level 11.0 → 5.5, paused 4s"),
        ("info", "you", "you", "ceiling 12 on anthropic"),
        ("good", "retried", "grace", "answered at attempt 3 after 2 errors it never saw"),
        ("warn", "circuit", LANE, "half-open → closed after a good probe"),
    )
    picked = [texts[dice.randrange(len(texts))] for _ in range(30)]
    return tuple(
        Line(at=4700.0 + 10 * n, wall=WALL - 300 + 10 * n, level=level, tag=tag, who=who, text=text)
        for n, (level, tag, who, text) in enumerate(picked)
    )
