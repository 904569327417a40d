"""What was to be sent, and what came of it, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from hivemind.console import json_text, printable
from hivemind.lab.loadtest import comparison as comparison
from hivemind.lab.loadtest import table
from hivemind.lab.loadtest.plan import RecordedRequest, wall_s
from hivemind.lab.loadtest.sender import Sent
from hivemind.lab.loadtest.target import Target
from hivemind.text.humanise import duration, plural


@dataclass(frozen=True, slots=True)
class LoadTestPlan:
    """What is to be sent."""

    journal: str
    target: Target | None
    speed: float
    think: bool
    asks: tuple[RecordedRequest, ...]
    unsupported: Counter[str]
    """Requests that can't be made up, by their path."""
    estimate: comparison.CostEstimate

    @property
    def wanted(self) -> str:
        """`88 requests (about 14k tokens in and 4k out, $0.12)`."""
        return f"{plural(len(self.asks), 'request')} ({table.estimate_line(self.estimate)})"


@dataclass(frozen=True, slots=True)
class LoadTestResult:
    """What came of it."""

    plan: LoadTestPlan
    sent: tuple[Sent, ...]
    hivemind: bool
    """The target is one."""
    interrupted: bool


def plan_as_text(plan: LoadTestPlan) -> list[str]:
    """What would be sent."""
    asks = plan.asks
    agents, real = len({ask.agent for ask in asks}), sum(ask.has_body for ask in asks)
    paces = "each once the agent's last answer is there" if plan.think else f"in {duration(wall_s(asks) / plan.speed)}"
    streams = sum(ask.stream for ask in asks)
    return [
        f"{printable(plan.journal)}: {plan.wanted} of {plural(agents, 'agent')}, {paces}",
        f"{real:,} as they were recorded, {len(asks) - real:,} made up; {streams:,} of them streams",
        *_left_out(plan),
        "nothing was sent",
    ]


def plan_as_json(plan: LoadTestPlan) -> str:
    """The same."""
    return _encoded({**_plan_facts(plan), "recorded": comparison.recorded(plan.asks)})


def as_text(outcome: LoadTestResult, room: int | None) -> list[str]:
    """What came of it, beside what was recorded of the same requests."""
    plan, sent = outcome.plan, outcome.sent
    pace = "agents wait for their answers" if plan.think else "at the recorded times"
    speed = "" if plan.speed == 1 else f", {plan.speed:g} times as fast"
    url = "" if plan.target is None else plan.target.url
    what = "HiveMind " if outcome.hivemind else ""
    made = len(sent) - sum(each.real for each in sent)
    told = [f"{printable(plan.journal)} against {what}{url}, {pace}{speed}", ""]
    told += table.shown(comparison.recorded([each.ask for each in sent]), comparison.now(sent), plan.speed, room)
    told += ["", table.late_line(comparison.lateness(sent)), *([f"{made:,} requests were made up"] if made else [])]
    if outcome.interrupted:
        told.append(
            f"stopped early: {plural(len(plan.asks) - len(sent), 'request')} not sent or not over, and not counted"
        )
    return [*told, *_left_out(plan)]


def as_json(outcome: LoadTestResult) -> str:
    """The same."""
    plan, sent = outcome.plan, outcome.sent
    return _encoded(
        {
            **_plan_facts(plan),
            "hivemind": outcome.hivemind,
            "interrupted": outcome.interrupted,
            "over": len(sent),
            "made_up": len(sent) - sum(each.real for each in sent),
            "recorded": comparison.recorded([each.ask for each in sent]),
            "now": comparison.now(sent),
            "late": comparison.lateness(sent),
        }
    )


def _plan_facts(plan: LoadTestPlan) -> dict[str, object]:
    return {
        "journal": plan.journal,
        "against": None if plan.target is None else plan.target.url,
        "speed": plan.speed,
        "think": plan.think,
        "requests": len(plan.asks),
        "agents": len({ask.agent for ask in plan.asks}),
        "with_bodies": sum(ask.has_body for ask in plan.asks),
        "left_out": dict(plan.unsupported),
        "estimate": plan.estimate,
    }


def _left_out(plan: LoadTestPlan) -> list[str]:
    rows: Sequence[tuple[str, int]] = plan.unsupported.most_common(5)
    if not rows:
        return []
    paths = ", ".join(f"{printable(path)} {number:,}" for path, number in rows)
    return [f"left out, because they can't be made up: {paths}"]


def _encoded(facts: dict[str, object]) -> str:
    return json_text(msgspec.json.encode(facts))
