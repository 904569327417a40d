"""The plan and the result of a load test as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from hivemind.console import json_text, printable
from hivemind.lab.comparison import Measure, Row, Verdict, compare
from hivemind.lab.loadtest.plan import LoadTestPlan
from hivemind.lab.loadtest.requests import wall_s
from hivemind.lab.loadtest.sender import Sent
from hivemind.lab.loadtest.totals import Lateness, Totals, lateness, measures, recorded_totals, sent_totals
from hivemind.text.humanise import count, duration, plural
from hivemind.text.table import Cell, Column, lines

LATE_S = 0.05
"""A p95 of lateness from which on a warning is shown."""
_COLUMNS = (
    Column("", cut=True),
    Column("RECORDED", right=True),
    Column("NOW", right=True),
    Column("DIFFERENCE", right=True, spare=1),
)
_STYLES: Mapping[Verdict, str] = {"better": "good", "worse": "bad"}


@dataclass(frozen=True, slots=True)
class LoadTestResult:
    """What a load test came to."""

    plan: LoadTestPlan
    sent: tuple[Sent, ...]
    hivemind: bool
    """The target is a HiveMind."""
    interrupted: bool


def plan_as_text(plan: LoadTestPlan) -> list[str]:
    """Return what would be sent, for people."""
    requests = plan.requests
    agents, real = len({each.agent for each in requests}), sum(each.has_body for each in requests)
    pace = f"in {duration(wall_s(requests) / plan.speed)}"
    if plan.think:
        pace = "each once the agent's last answer is there"
    streams = sum(each.stream for each in requests)
    return [
        f"{printable(plan.journal)}: {plan} of {plural(agents, 'agent')}, {pace}",
        f"{real:,} as they were recorded, {len(requests) - real:,} made up; {streams:,} of them streams",
        *_unsupported(plan),
        "nothing was sent",
    ]


def plan_as_json(plan: LoadTestPlan) -> str:
    """Return what would be sent, for programs."""
    return _encoded({**_plan_fields(plan), "recorded": recorded_totals(plan.requests)})


def as_text(result: LoadTestResult, room: int | None) -> list[str]:
    """Return the result beside what was recorded of the same requests, for people."""
    plan, sent = result.plan, result.sent
    pace = "agents wait for their answers" if plan.think else "at the recorded times"
    speed = "" if plan.speed == 1 else f", {plan.speed:g} times as fast"
    url = "" if plan.target is None else plan.target.url
    what = "HiveMind " if result.hivemind else ""
    synthetic = len(sent) - sum(each.real for each in sent)
    text = [f"{printable(plan.journal)} against {what}{url}, {pace}{speed}", ""]
    text += table(recorded_totals([each.request for each in sent]), sent_totals(sent), plan.speed, room)
    text += ["", late_line(lateness(sent)), *([f"{synthetic:,} requests were made up"] if synthetic else [])]
    if result.interrupted:
        missing = plural(len(plan.requests) - len(sent), "request")
        text.append(f"stopped early: {missing} not sent or not over, and not counted")
    return [*text, *_unsupported(plan)]


def as_json(result: LoadTestResult) -> str:
    """Return the result for programs."""
    sent = result.sent
    return _encoded(
        {
            **_plan_fields(result.plan),
            "hivemind": result.hivemind,
            "interrupted": result.interrupted,
            "over": len(sent),
            "made_up": len(sent) - sum(each.real for each in sent),
            "recorded": recorded_totals([each.request for each in sent]),
            "now": sent_totals(sent),
            "late": lateness(sent),
        }
    )


def table(recorded: Totals, now: Totals, speed: float, room: int | None) -> list[str]:
    """Return the lines of the table. Differences that are more than noise are coloured."""
    recorded = replace(recorded, sending_s=recorded.sending_s / speed)
    sending = "sent within" if speed == 1 else f"sent within, at {speed:g}x"
    found = compare(
        tuple(measures(recorded, now, sending)), [recorded], [now], more_work=now.answered - recorded.answered
    )
    rows: list[list[Cell | str]] = [
        [
            row.measure.name,
            _amount(row.measure, recorded),
            _amount(row.measure, now),
            Cell(_difference(row), _STYLES.get(row.verdict, "")),
        ]
        for row in found
    ]
    return lines(_COLUMNS, rows, room)


def late_line(late: Lateness) -> str:
    """Return how well the planned times were kept."""
    figures = f"p50 {duration(late.p50_s)}, p95 {duration(late.p95_s)}, longest {duration(late.longest_s)}"
    if late.p95_s < LATE_S:
        return f"sent late: {figures}"
    return f"sent late: {figures}; this machine didn't keep up, or --concurrency held it back, so the load was less"


def _amount(measure: Measure[Totals], totals: Totals) -> str:
    value = measure.of(totals)
    if value is None:
        return "-"
    if measure.unit == "seconds":
        return duration(value)
    return count(value) if measure.unit == "tokens" else f"{value:,.0f}"


def _difference(row: Row[Totals]) -> str:
    if row.difference is None:
        return ""
    if row.measure.unit == "count":
        return f"{row.difference.mean:+,.0f}" if row.difference.mean else ""
    return f"{row.difference.mean / row.base * 100:+.0f} %" if row.base else ""


def _plan_fields(plan: LoadTestPlan) -> dict[str, object]:
    return {
        "journal": plan.journal,
        "against": None if plan.target is None else plan.target.url,
        "speed": plan.speed,
        "think": plan.think,
        "requests": len(plan.requests),
        "agents": len({each.agent for each in plan.requests}),
        "with_bodies": sum(each.has_body for each in plan.requests),
        "left_out": dict(plan.unsupported),
        "estimate": plan.estimate,
    }


def _unsupported(plan: LoadTestPlan) -> list[str]:
    rows = plan.unsupported.most_common(5)
    paths = ", ".join(f"{printable(path)} {number:,}" for path, number in rows)
    return [f"left out, because they can't be made up: {paths}"] if rows else []


def _encoded(fields: dict[str, object]) -> str:
    return json_text(msgspec.json.encode(fields))
