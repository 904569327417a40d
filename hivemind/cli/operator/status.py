"""`hivemind status`: how the proxy is."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import asdict

from hivemind.api_types import SnapshotPart
from hivemind.cli import client
from hivemind.cli.plugin import Command
from hivemind.console import printable
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.text.humanise import count, dollars, duration, level, moment, plural, rate, share, size
from hivemind.text.table import Cell, TextColumn, lines, styled, width
from hivemind.world.health import Vitals
from hivemind.world.snapshot import Alarm, FleetView, RecordingView, Snapshot
from hivemind.world.verdict import about, parts, remedy, sentence, short_sentence, word
from hivemind.world.work import going_on

_COLUMNS = (
    TextColumn("LANE", cut=True),
    TextColumn("LEVEL", right=True),
    TextColumn("IN FLIGHT", right=True),
    TextColumn("WAITING", right=True),
    TextColumn("CIRCUIT"),
    TextColumn("LEFT OF WINDOWS", cut=True, spare=1),
)
VERDICT_STYLES = {
    "healthy": "good",
    "slowed": "warn",
    "degraded": "warn",
    "paused": "warn",
    "draining": "warn",
    "blocked": "bad",
}
_FINDINGS_SHOWN = 6
_SHOWN = set(Vitals.__struct_fields__) - {"recent_waits", "recent_ttfts"}
"""Vitals that `--json` prints."""
_CIRCUITS = {"closed": "", "half_open": "warn", "open": "bad"}


def _add_flags(parser: argparse.ArgumentParser) -> None:
    client.add_flags(parser)
    parser.add_argument("--line", action="store_true", help="print one line, for tmux, starship or waybar")


def _run(namespace: argparse.Namespace) -> int:
    part = client.find_proxy(namespace).world()
    text = [one_line(part.snapshot)] if namespace.line else shown(part, width())
    return client.print_answer(namespace, as_facts(part), text)


def one_line(world: Snapshot) -> str:
    """Return the verdict, in trouble its cause, and what flows: `HEALTHY 5/5 in flight, 3 waiting, $1.20/h`."""
    found, vitals = world.verdict, world.vitals
    levels = [lane.state.level for lane in world.lanes]
    limit = "" if not levels or math.inf in levels else f"/{sum(map(int, levels))}"
    parts = [f"{len(world.slots)}{limit} in flight", f"{world.queued:,} waiting"]
    parts += [f"{dollars(vitals.dollars_per_hour)}/h"] if vitals.dollars_per_hour else []
    if vitals.tasks:
        left_s = world.forecast.tasks_done_in_s
        eta = "" if left_s is None else f" (ETA {about(left_s)})"
        parts.append(f"{vitals.tasks_done}/{vitals.tasks} tasks{eta}")
    state = styled(word(found), VERDICT_STYLES.get(found.state, ""))
    cause = "" if found.cause is None or found.state == "healthy" else f" {printable(short_sentence(found.cause))};"
    return f"{state}{cause} {', '.join(parts)}"


def as_facts(part: SnapshotPart) -> dict[str, object]:
    """Return what `--json` prints."""
    world = part.snapshot
    return {
        "version": part.version,
        "verdict": world.verdict,
        "mode": world.mode,
        "address": world.address,
        "uptime_s": world.uptime_s,
        "upstreams": world.upstreams,
        "queued": world.queued,
        "agents": Counter(agent.state for agent in world.agents),
        "tasks": Counter(task.state for task in world.tasks),
        "pool": world.pool,
        "totals": world.totals,
        "recording": world.recording,
        "alarms": world.alarms,
        "notices": world.notices,
        "fleet": world.fleet,
        "work": world.work,
        "lanes": [lane.state for lane in world.lanes],
        "vitals": {name: value for name, value in asdict(world.vitals).items() if name in _SHOWN},
        "forecast": world.forecast,
    }


def shown(part: SnapshotPart, room: int | None) -> list[str]:
    """Return the lines that are shown."""
    from hivemind.cli.operator.agents import WORDS
    from hivemind.scheduler.tasks import TASK_STATES
    from hivemind.text import amounts
    from hivemind.world.snapshot import TASKS_SHOWN

    world, totals = part.snapshot, part.snapshot.totals
    text = [*_verdict(world)]
    text.append(f"{world.mode} at {world.address}, up {duration(world.uptime_s)} (HiveMind {printable(part.version)})")
    text += [styled(_alarm(each), "bad") for each in world.alarms]
    text += [styled(f"NOTICE {printable(each)}", "warn") for each in world.notices] + [""]
    usage = totals.usage
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    parts = f"{count(usage.input_tokens)} in, {count(cached)} cached, {count(usage.output_tokens)} out"
    unpriced = (
        f"and {count(totals.unpriced)} {'token' if totals.unpriced == 1 else 'tokens'} without a known price"
        if totals.unpriced
        else ""
    )
    number = f"{len(world.tasks)}{'+' if len(world.tasks) >= TASKS_SHOWN else ''}"
    rows = [
        ("requests", f"{totals.requests:,}", _requests(world)),
        ("tokens", count(usage.total), parts),
        ("cost", dollars(totals.dollars, totals.unpriced), unpriced),
        ("agents", str(len(world.agents)), _by_state(WORDS.get(agent.state, agent.state) for agent in world.agents)),
        ("tasks", number, _by_state((task.state for task in world.tasks), TASK_STATES) + _paused(world) + _eta(world)),
    ]
    text += [f"{name:10}{value:>9}  {text}".rstrip() for name, value, text in rows if name != "tasks" or world.tasks]
    if world.work:
        text.append(f"{'work':10}{sum(each.count for each in world.work):>9}  {printable(going_on(world.work))}")
    text += [f"{name:10}{value:>9}  {text}" for name, value, text in _vitals(world)]
    if world.pool is not None:
        text.append(f"{'pool':10}{world.pool.share:>8.0%}".replace("%", " %") + f"  {amounts.how_used(world.pool)}")
    if world.recording is not None:
        text.append(_journal(world.recording))
    if world.fleet is not None:
        text.append(_fleet(world.fleet))
    if world.lanes:
        text += ["", *lines(_COLUMNS, [_lane(view.state) for view in world.lanes], room)]
    return text


def _verdict(world: Snapshot) -> list[str]:
    """Return the verdict, and below it what else was found, and the command that does something about each."""
    found = world.verdict
    text = [" ".join([styled(word(found), VERDICT_STYLES.get(found.state, "")), printable("; ".join(parts(found)))])]
    for number, finding in enumerate(found.findings[:_FINDINGS_SHOWN]):
        told = [printable(sentence(finding))] if number else []  # the first one is told in the line above
        command = remedy(finding, world)
        told += [command] if command else []
        text += [f"  {': '.join(told)}"] if told else []
    return [each.rstrip() for each in text]


def _alarm(alarm: Alarm) -> str:
    about = " ".join(printable(each) for each in (alarm.lane, alarm.agent) if each)
    return f"ALARM {alarm.rule}{': ' if about else ''}{about}: {printable(alarm.text)}"


def _journal(recording: RecordingView) -> str:
    parts = [printable(recording.path)]
    if recording.lost:
        parts.append(f"{plural(recording.lost, 'event')} missing")
    if recording.failing:
        parts.append(f"can't be written now ({printable(recording.failing)})")
    level = "bad" if recording.failing else "warn" if recording.lost else ""
    return f"{'journal':10}{size(recording.bytes):>9}  {styled(', '.join(parts), level)}"


def _fleet(fleet: FleetView) -> str:
    level = {"safe": "warn", "learning": "warn", "alone": "bad", "connecting": "bad"}.get(fleet.state, "")
    return f"{'fleet':10}{fleet.members:>9}  {styled(f'{fleet.state}: {printable(fleet.text)}', level)}"


def _vitals(world: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield what the last minute was like, if anything happened in it."""
    vitals, forecast = world.vitals, world.forecast
    if vitals.requests_per_s:
        limit = f" of {count(vitals.tokens_limit)}" if vitals.tokens_limit else ""
        tokens = f"{count(round(vitals.tokens_per_min))}{limit} tokens a minute"
        parts = [tokens, f"{dollars(vitals.dollars_per_hour)} an hour"]
        if forecast.dollars_by_hour is not None:
            end = time.strftime("%H:%M", time.localtime(world.wall + forecast.hour_ends_in_s))
            parts.append(f"{dollars(forecast.dollars_by_hour)} by {end}")
        yield "rate", rate(vitals.requests_per_s), ", ".join(parts)
    if vitals.error_share is not None:
        failed = share(vitals.failed_share or 0.0)
        yield "errors", share(vitals.error_share), f"of attempts in the last minute, {failed} of requests"
    if vitals.wait_p50_s is not None and vitals.wait_p95_s is not None:
        text = f"p50, p95 {_rounded(vitals.wait_p95_s)}"
        if vitals.ttft_p50_s is not None and vitals.ttft_p95_s is not None:
            text += f"; first token {_rounded(vitals.ttft_p50_s)}, p95 {_rounded(vitals.ttft_p95_s)}"
        yield "wait", _rounded(vitals.wait_p50_s), text


def _rounded(seconds: float) -> str:
    """Return a quantile to two figures, which is as exact as it is."""
    return duration(float(f"{seconds:.2g}"))


def _paused(world: Snapshot) -> str:
    paused_s = max((task.paused_s for task in world.tasks), default=0.0)
    return f" (the paused until {moment(now := time.time(), now + paused_s)})" if paused_s else ""


def _eta(world: Snapshot) -> str:
    left_s = world.forecast.tasks_done_in_s
    return "" if left_s is None else f"; ETA {duration(left_s)}"


def _requests(world: Snapshot) -> str:
    totals = world.totals
    ends = {
        "failed": totals.failed,
        "refused": totals.refused,
        "left": totals.abandoned,
        "retried OK": totals.retried_ok,
    }
    parts = [f"{len(world.slots)} in flight", f"{world.queued:,} waiting", f"{totals.finished:,} finished"]
    return ", ".join([*parts, *(f"{number:,} {word}" for word, number in ends.items() if number)])


def _by_state(states: Iterable[str], order: Iterable[str] = ()) -> str:
    counted = Counter(states)
    known = [state for state in order if counted[state]] or sorted(counted)
    return ", ".join(f"{counted[state]} {state}" for state in known)


def _lane(lane: LaneState) -> list[Cell | str]:
    ceiling = "" if math.isinf(lane.ceiling) else f" of {lane.ceiling:g}"
    height = level(lane.level) + ("" if math.isinf(lane.level) else ceiling)
    circuit = lane.circuit.replace("_", " ")
    for family, left_s in lane.pauses:
        circuit += f", {printable(family) + ' ' if family else ''}rate-limited {duration(left_s)}"
    style = _CIRCUITS.get(lane.circuit, "")
    waiting = str(lane.waiting + lane.retrying)
    return [printable(lane.lane), height, str(lane.active), waiting, Cell(circuit, style), left(lane.windows)]


def left(windows: Iterable[WindowState]) -> str:
    """`requests 46/50, tokens 79k/80k`; where models have windows of their own, after the name of each family."""
    families: dict[str, list[str]] = {}
    for each in windows:
        if each.limit < math.inf:
            text = f"{each.kind.value} {count(max(0.0, each.remaining))}/{count(each.limit)}"
            text += f" ({each.source})" if each.source in ("assumed", "refused") else ""
            families.setdefault(each.family, []).append(text)
    if len(families) == 1:
        return ", ".join(*families.values())
    return "; ".join(f"{printable(name)}: {', '.join(parts)}" for name, parts in families.items())


command = Command(_add_flags, _run)
