"""The verdict on a proxy: from a snapshot to a word, with what is wrong and what ends it.

Pure, and the only place where it is decided: the header, `hivemind status`, `/_health`, `/metrics`, `hm.status` and the
lines of a proxy without a screen show it. What a moment could turn over and back (a window that fills each second, a
share of errors around a mark) counts only where it lasts, by what the snapshot tells of the recent past.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.events import BudgetState, LaneState
from hivemind.text.amounts import owner, raise_command
from hivemind.text.humanise import duration, exit_text, moment, percent, plural
from hivemind.text.shells import command_line
from hivemind.world.alerts import unacknowledged
from hivemind.world.forecast import period_left_s
from hivemind.world.gates import GATES, OPERATORS, WINDOW_GATES
from hivemind.world.health import SEVERITIES, Finding, Verdict
from hivemind.world.slow import ASSUMED, causes, why_slow
from hivemind.world.snapshot import HUNG, AgentView, FleetView, LaneView, RecordingView, Snapshot, TicketView


class Kind(Struct, frozen=True):
    """A kind of finding."""

    noun: str
    """As it is counted."""
    meaning: str


CODES: Mapping[str, Kind] = {
    "paused": Kind("pause", "the operator paused everything"),
    "draining": Kind("drain", "new requests are refused, those in flight finish"),
    "budget_used": Kind("used-up pool", "the budget of all agents is used up"),
    "circuit_forced": Kind(
        "forced-open circuit", "the operator forces a lane's circuit open, so that its requests are refused"
    ),
    "circuit_open": Kind("open circuit", "a lane's circuit is open: too many of its requests failed"),
    "agent_died": Kind("dead agent", "an agent's process ended with an error, or by a signal that no operator sent"),
    "hung": Kind("hung request", "nothing of an answer has come for far longer than is usual for its model and size"),
    "slowed": Kind("cause of slowness", "requests wait for much of their time"),
    "rate_limited": Kind("rate-limited lane", "the provider asked a lane to wait (Retry-After)"),
    "window_used": Kind("used-up rate window", "a lane's rate windows are used up"),
    "used_up": Kind("used-up plan", "the provider says that a lane's credit, plan or long quota is used up"),
    "no_lease": Kind("unleased lane", "a lane has no lease of its fleet, so that it may send nothing"),
    "alarm": Kind("alarm", "an invariant is broken, or the event loop was held"),
    "journal": Kind("journal that can't be written", "the journal can't be written"),
    "store_away": Kind("fleet's store away", "the fleet's store can't be reached"),
    "agent_refused": Kind("refused agent", "an agent was refused, and nothing of it was answered since"),
    "agent_budget": Kind("used-up budget", "an agent's budget is used up"),
    "circuit_half_open": Kind("half-open circuit", "a lane's circuit lets one probe through"),
    "errors": Kind("failing lane", "many of a lane's requests failed in the last minute"),
    "long_wait": Kind("long wait", "a request has waited for as long as `alerts.wait_s` says"),
    "budget_low": Kind("low budget", "the share of a budget that `alerts.budget_share` says is used"),
    "circuit_closed": Kind("forced-closed circuit", "the operator forces a lane's circuit closed, whatever fails"),
    "journal_gaps": Kind("journal with gaps", "events are missing in the journal"),
    "window_early": Kind(
        "long window that won't last", "at the present rate a plan's long window is used up before its reset"
    ),
    "window_paced": Kind("paced window", "requests of a class wait so that a plan's long window lasts (`pace`)"),
    "agent_held": Kind("held agent", "the operator holds an agent's requests"),
}
"""What can be found, the gravest first."""
_KINDS_MOST = 2
"""Kinds of findings that are named; the rest are counted together."""
RECENT_S = 1.0
"""Age of a verdict that is still told to those who ask often."""
FOUND_MOST = 50
"""Findings of one code that are listed."""
_LASTS_S = 3.0
"""What shuts a lane for less than this, while it was sending a moment ago, is how a rate limit works, and no news."""
_MINUTE_S = 60.0
_OF_WINDOWS = frozenset({"window_used", "no_lease"})
"""Findings about lanes that their gauges don't tell."""
_BRACKETS = re.compile(r" \([^()]*\)")
_RANKS = {code: rank for rank, code in enumerate(CODES)}
_WORST = {severity: rank for rank, severity in enumerate(reversed(SEVERITIES))}


def judged(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with its verdict; to be called again after what it is judged by has changed."""
    return replace(snapshot, verdict=verdict(snapshot))


def completed(snapshot: Snapshot, fleet: FleetView | None, recording: RecordingView | None) -> Snapshot:
    """Return the snapshot with what only its host knows, judged again if that is a matter for the verdict."""
    whole = replace(snapshot, fleet=fleet, recording=recording)
    return judged(whole) if any(_of_host(whole)) else whole


def verdict(snapshot: Snapshot) -> Verdict:
    """Return the verdict on everything else that the snapshot tells. What waits for long, and which budget is nearly
    used up, is decided by the same limits as the alerts about them."""
    findings = sorted(_all_findings(snapshot), key=lambda each: (_WORST[each.severity], _RANKS[each.code]))
    state = _state(snapshot, findings)
    found = Verdict(
        state=state,
        findings=tuple(_bounded(findings)),
        counts=dict(Counter(each.code for each in findings)),
        waiting=snapshot.queued,
        open=snapshot.queued + snapshot.in_flight,
        last_in_s=_last_in_s(snapshot),
    )
    return replace(found, text=" ".join([word(found), "; ".join(parts(found))]).rstrip())


class Recent:
    """The verdict of a moment ago, for what is asked often by anybody: a snapshot is made once a second at most."""

    def __init__(self, snapshot: Callable[[], Snapshot], now: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._now = now
        self._found: tuple[float, Verdict] | None = None

    def __call__(self) -> Verdict:
        """Return it."""
        now = self._now()
        if self._found is None or now - self._found[0] >= RECENT_S:
            self._found = now, self._snapshot().verdict
        return self._found[1]


def word(found: Verdict) -> str:
    """Return the state as it is shown: `HEALTHY`."""
    return found.state.upper()


def parts(found: Verdict, *, brief: bool = False) -> list[str]:
    """Return what is told of a verdict after its word, the most important first: the cause and its end; where it is
    about most requests, how many wait and for how long; what else was found, of which `brief` gives the number."""
    told = [] if found.cause is None else [sentence(found.cause)]
    few = found.state == "healthy" or (found.state == "degraded" and found.waiting * 2 < found.open)
    if found.waiting and not few:
        told.append(f"{found.waiting:,} of {found.open:,} wait")
        if found.last_in_s is not None:
            told.append(f"last gets through in about {about(found.last_in_s)}")
    others = Counter(found.counts)
    if found.cause is not None:
        others[found.cause.code] -= 1
    if not others.total():
        return told
    return [*told, plural(others.total(), "more finding") if brief else f"also {_kinds(+others)}"]


def _kinds(counts: Counter[str]) -> str:
    """`2 dead agents, 1 open circuit`: the gravest kinds by number, and how many findings there are beside them."""
    named = [plural(number, CODES[code].noun) for code, number in [*counts.items()][:_KINDS_MOST]]
    rest = counts.total() - sum([*counts.values()][:_KINDS_MOST])
    return ", ".join([*named, *([plural(rest, "more finding")] if rest else [])])


def sentence(finding: Finding) -> str:
    """`circuit open, probe in 1 s`."""
    return f"{finding.text}, {finding.ends}" if finding.ends else finding.text


def short_sentence(finding: Finding) -> str:
    """The same without what stands in brackets."""
    return sentence(replace(finding, text=_BRACKETS.sub("", finding.text)))


def remedy(finding: Finding, snapshot: Snapshot) -> str:
    """Return the command line that does something about it; empty: there is none."""
    if finding.code in ("paused", "draining"):
        return "hivemind resume"
    if finding.code in ("budget_used", "agent_budget", "budget_low"):
        states = [snapshot.pool, *(agent.budget for agent in snapshot.agents)]
        for state in states:
            if state is not None and (state.owner or "") == finding.about:
                return raise_command(state)
    if finding.code == "agent_died":
        open_ = unacknowledged(snapshot.alerts, finding.about, "died")
        return command_line("hivemind ack", finding.about) if open_ else ""
    if finding.code == "slowed":
        knob = ASSUMED.get(causes(snapshot.waits.seconds)[0][0])
        return f"hivemind set {knob} VALUE" if knob else ""
    if finding.code == "hung":
        return command_line("hivemind cut --retry", finding.about)
    if finding.code == "agent_held":
        return command_line("hivemind release", finding.about)
    if finding.code in ("circuit_forced", "circuit_closed"):
        return command_line("hivemind circuit auto", finding.about)
    return ""


def lanes_held_up(snapshot: Snapshot) -> frozenset[str]:
    """Return the lanes that send nothing new for now: by the operator, their circuit, the provider, a rate window or
    their lease."""
    states = [view.state for view in snapshot.lanes]
    held = {each.lane for each in states if each.circuit != "closed" or each.rate_limited_for_s > 0 or each.paused}
    return frozenset(held | {each.about for each in snapshot.verdict.findings if each.code in _OF_WINDOWS})


def about(seconds: float) -> str:
    """`8 s`, `1 min`, `3 h`: a duration that is estimated, in one unit."""
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 0.95 * unit_s:
            return f"{max(1, round(seconds / unit_s)):,} {unit}"
    return _seconds(seconds)


def _seconds(seconds: float) -> str:
    """`1 s`, `2 min 5 s`: whole seconds, as a countdown shows them."""
    return duration(max(1, math.ceil(seconds)))


def _state(snapshot: Snapshot, findings: list[Finding]) -> str:
    if snapshot.mode in ("draining", "paused"):
        return snapshot.mode
    gravest = findings[0].severity if findings else "note"
    return "healthy" if gravest == "note" else gravest


def _bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.code] = counts.get(finding.code, 0) + 1
        if counts[finding.code] <= FOUND_MOST:
            yield finding


def _all_findings(snapshot: Snapshot) -> Iterator[Finding]:
    lanes = list(_of_lanes(snapshot))
    yield from _of_operator(snapshot)
    yield from _of_pool(snapshot)
    yield from lanes
    yield from _of_host(snapshot)
    yield from _of_agents(snapshot)
    yield from _of_hung(snapshot)
    if snapshot.waits.slowed and snapshot.mode == "serving":
        yield Finding("slowed", "slowed", why_slow(snapshot.waits))
    stands_still = snapshot.mode != "serving" or any(each.severity == "blocked" for each in lanes)
    if snapshot.alert_limits.wait_s and not stands_still:
        yield from _of_waits(snapshot, {each.about for each in lanes if each.severity == "degraded"})


# --- What the operator decided ---------------------------------------------------------------------------------------


def _of_operator(snapshot: Snapshot) -> Iterator[Finding]:
    in_flight = snapshot.in_flight
    if snapshot.mode == "paused":
        yield Finding("blocked", "paused", "nothing new is sent", ends="until you resume")
    elif snapshot.mode == "draining":
        ends = f"{in_flight:,} still in flight" if in_flight else "until it ends or you accept requests again"
        yield Finding("blocked", "draining", "new requests are refused", ends=ends)
    for agent in snapshot.agents:
        if agent.held and agent.queued and snapshot.mode == "serving":
            yield Finding("note", "agent_held", f"{agent.name} is held", agent.name, "until you release it")


def _of_pool(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.pool is None:
        return
    if snapshot.pool.share >= 1:
        severity = "degraded" if snapshot.in_flight else "blocked"
        yield _used_up(snapshot.pool, severity, "budget_used", snapshot.wall)
    else:
        yield from _nearly_used_up(snapshot.pool, snapshot)


def _used_up(state: BudgetState, severity: str, code: str, wall: float) -> Finding:
    text, whose = f"{_named_budget(state)} is used up", state.owner or ""
    left_s = period_left_s(state.per, wall)
    if left_s == math.inf:
        return Finding(severity, code, text, whose, "until you raise it")
    when = "midnight" if state.per == "day" else "the first"
    return Finding(severity, code, text, whose, f"until you raise it or {when} in {about(left_s)}", left_s)


def _nearly_used_up(state: BudgetState, snapshot: Snapshot) -> Iterator[Finding]:
    low = snapshot.alert_limits.budget_share
    if not low or not low <= state.share < 1:
        return
    whose = state.owner or ""
    text = f"{_named_budget(state)} is {math.floor(state.share * 100)} % used"
    left_s = snapshot.forecast.budgets.get(whose)
    anew_s = period_left_s(state.per, snapshot.wall)
    if anew_s < math.inf and (left_s is None or left_s > anew_s):
        yield Finding("note", "budget_low", text, whose, f"anew in {about(anew_s)}")
    elif left_s is not None:
        yield Finding("note", "budget_low", text, whose, f"lasts about {about(left_s)}", left_s)
    else:
        yield Finding("note", "budget_low", text, whose, "raise it before it is used up")


def _named_budget(state: BudgetState) -> str:
    return "the pool" if state.owner is None else owner(state)


# --- Lanes -----------------------------------------------------------------------------------------------------------


def _of_lanes(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is wrong with the lanes. What shuts one blocks all if no other lane has a request in flight that could
    have been sent now, or is open to those that wait."""
    if snapshot.mode != "serving":
        return
    several = len(snapshot.lanes) > 1
    shut = {view.state.lane: found for view in snapshot.lanes if (found := _shut(view, snapshot, several)) is not None}
    wanted = {view.state.lane for view in snapshot.lanes if _is_wanted(view.state)}
    # What nobody waits for still shuts: a request that came now would be refused, or wait.
    blocked = (
        bool(shut) and not snapshot.in_flight and shut.keys() >= (wanted or {v.state.lane for v in snapshot.lanes})
    )
    for view in snapshot.lanes:
        lane = view.state
        if lane.lane in shut:
            severity = "blocked" if blocked and (lane.lane in wanted or not wanted) else "degraded"
            yield replace(shut[lane.lane], severity=severity)
        else:
            yield from _ailing(view, snapshot, several)


def _is_wanted(lane: LaneState) -> bool:
    """Return whether requests wait for more than their operator's decision."""
    waiting = lane.waiting + lane.retrying
    held = sum(hold.gate in OPERATORS for hold in lane.upcoming)
    return waiting > min(held, len(lane.upcoming))


def _shut(view: LaneView, snapshot: Snapshot, several: bool) -> Finding | None:
    """Return why the lane sends nothing, if it does; its severity is still to be decided."""
    lane = view.state
    if lane.active:
        return None
    name = _named(lane, several)
    if lane.circuit == "open":
        return _open_circuit(lane, name)
    if not _is_wanted(lane):
        return None
    gates = {hold.gate for hold in lane.upcoming} - OPERATORS - {"backoff"}
    if lane.pauses and (lane.rate_limited_for_s > 0 or gates == {"rate_limited"}):
        family, left_s = min(lane.pauses, key=lambda pause: pause[1])
        return _rate_limited("degraded", lane, name, family, left_s) if _lasts(view, snapshot.at, left_s) else None
    if gates == {"fleet"}:
        return Finding(
            "degraded", "no_lease", f"{name}no lease from the fleet yet", lane.lane, "once its store answers"
        )
    if gates and gates <= WINDOW_GATES.keys():
        opens = [hold.opens_in_s for hold in lane.upcoming if hold.gate in WINDOW_GATES]
        known = [each for each in opens if each is not None]
        opens_in_s = min(known) if known else None
        if _lasts(view, snapshot.at, opens_in_s):
            which = " and ".join(WINDOW_GATES[gate] for gate in WINDOW_GATES if gate in gates)
            ends = "" if opens_in_s is None else f"opens in {_seconds(opens_in_s)}"
            return Finding("degraded", "window_used", f"{name}{which} used up", lane.lane, ends, opens_in_s)
    return None


def _rate_limited(severity: str, lane: LaneState, name: str, family: str, left_s: float) -> Finding:
    text = f"{name}{family + ' ' if family else ''}rate-limited{_quoted(lane, 'Retry-After')}"
    return Finding(severity, "rate_limited", text, lane.lane, f"resumes in {_seconds(left_s)}", left_s)


def _named(lane: LaneState, several: bool) -> str:
    return f"{lane.lane}: " if several else ""


def _open_circuit(lane: LaneState, name: str) -> Finding:
    if lane.circuit_forced:
        ends = "until you set it to automatic"
        return Finding("degraded", "circuit_forced", f"{name}circuit forced open", lane.lane, ends)
    reopens_in_s, text = lane.circuit_reopens_in_s, f"{name}circuit open{_quoted(lane)}"
    if reopens_in_s is None:
        return Finding("degraded", "circuit_open", text, lane.lane, "until a probe succeeds")
    return Finding("degraded", "circuit_open", text, lane.lane, f"probe in {_seconds(reopens_in_s)}", reopens_in_s)


def _quoted(lane: LaneState, otherwise: str = "") -> str:
    """Return in brackets what the upstream said last."""
    said = lane.refusal.replace("(", "[").replace(")", "]") or otherwise
    return f" ({said})" if said else ""


def _lasts(view: LaneView, at: float, for_s: float | None) -> bool:
    """Return whether what shuts a lane is more than a moment: it sent nothing lately, or won't for a while."""
    if for_s is None or for_s >= _LASTS_S:
        return True
    lately = [point for point in view.curve[-5:] if at - point.at <= _LASTS_S]
    return bool(lately) and not any(point.active for point in lately)


def _ailing(view: LaneView, snapshot: Snapshot, several: bool) -> Iterator[Finding]:
    """Yield what is wrong with a lane that sends."""
    lane, name = view.state, _named(view.state, several)
    if lane.circuit == "open":
        yield _open_circuit(lane, name)
    elif lane.circuit == "half_open":
        ends = "its probe decides" if lane.active else "the next request is the probe"
        yield Finding("degraded", "circuit_half_open", f"{name}circuit half-open{_quoted(lane)}", lane.lane, ends)
    elif lane.circuit_forced:
        ends = "until you set it to automatic"
        yield Finding("note", "circuit_closed", f"{name}circuit forced closed", lane.lane, ends)
    if lane.used_up:
        text = f"{name}the provider's plan is used up{_quoted(lane)}"
        yield Finding("degraded", "used_up", text, lane.lane, "until a request gets through")
    yield from _long_windows(lane, name, snapshot.wall)
    if lane.circuit == "closed":
        yield from _erring(view, snapshot, several)
        for family, left_s in lane.pauses if _is_wanted(lane) else ():
            if left_s >= _LASTS_S:
                yield _rate_limited("note", lane, name, family, left_s)


def _long_windows(lane: LaneState, name: str, wall: float) -> Iterator[Finding]:
    """Yield which long windows end early at the present rate, and whom the pace holds until when."""
    for window in lane.plan:
        text, resets_in_s = f"{name}the {window.name} window is {percent(window.used)} used", window.reset_in_s
        resets = "" if resets_in_s is None else f"resets at {moment(wall, wall + resets_in_s)}"
        if window.ends_in_s:
            at = moment(wall, wall + window.ends_in_s)
            ends = f"ends at {at} at this rate and {resets}"
            yield Finding("note", "window_early", text, lane.lane, ends, window.ends_in_s)
        held_s = window.low_held_s
        if held_s >= _LASTS_S and lane.waiting:
            who = "low and normal wait" if window.normal_held_s >= _LASTS_S else "low waits"
            yield Finding(
                "note", "window_paced", f"{text}: {who}", lane.lane, f"low until {moment(wall, wall + held_s)}", held_s
            )


def _erring(view: LaneView, snapshot: Snapshot, several: bool) -> Iterator[Finding]:
    """Yield whether errors come near to what opens the circuit; answers of 429 alone only say how much is allowed."""
    lane, minute = view.state, snapshot.vitals.error_share
    marks = {point.mark for point in view.curve[-90:] if snapshot.at - point.at <= _MINUTE_S and point.mark}
    causes = {mark for mark in marks if "=" not in mark and mark != "latency"}
    share = counted = lane.circuit_errors / lane.circuit_window if lane.circuit_window else 0.0
    if minute is not None and not several:
        share = min(minute, 1.0) if lane.circuit_errors else 0.0
    elif not causes and not minute:
        share = 0.0  # they are older
    if not share or share < lane.circuit_threshold / 2:
        return
    only_limited = causes == {"rate_limited"} and not snapshot.vitals.failed_share
    # The circuit compares with a full window, so its share of a few attempts is too low to be told as theirs.
    told = lane.circuit_errors / lane.circuit_results if several and lane.circuit_results else share
    text = f"{_named(lane, several)}{percent(told)} of attempts fail{_quoted(lane)}"
    ends = f"the circuit opens at {percent(lane.circuit_threshold)}"
    if told >= lane.circuit_threshold:
        # The share of a minute is another one than that of the attempts that the circuit counts.
        ends = f"the circuit counts {percent(counted)} and opens at {percent(lane.circuit_threshold)}"
    yield Finding("note" if only_limited else "degraded", "errors", text, lane.lane, ends)


# --- The proxy's own parts -------------------------------------------------------------------------------------------


def _of_host(snapshot: Snapshot) -> Iterator[Finding]:
    for alarm in snapshot.alarms:
        whose = alarm.agent or alarm.lane
        text = f"alarm {alarm.rule}" + (f" of {whose}" if whose else "")
        yield Finding("degraded", "alarm", text, whose, "until it holds again")
    recording = snapshot.recording
    if recording is not None and recording.failing:
        text = f"the journal can't be written ({recording.failing})"
        yield Finding("degraded", "journal", text, ends="until its disk takes it again")
    elif recording is not None and recording.lost:
        text = f"{plural(recording.lost, 'event')} missing in the journal"
        yield Finding("note", "journal_gaps", text)
    fleet = snapshot.fleet
    if fleet is not None and fleet.state in ("safe", "alone", "connecting"):
        text = {
            "safe": "the fleet's store is away",
            "alone": "disconnected from the fleet",
            "connecting": "the fleet's store can't be reached yet",
        }[fleet.state]
        yield Finding("degraded", "store_away", text, ends="until it answers")


# --- Agents ----------------------------------------------------------------------------------------------------------


def _of_agents(snapshot: Snapshot) -> Iterator[Finding]:
    seen = {alert.about for alert in snapshot.alerts if alert.rule == "died" and alert.acknowledged}
    for agent in snapshot.agents:
        if agent.state == "died":
            yield _died(agent, agent.name in seen)
        elif agent.refused_s is not None and agent.state not in ("ended", "stopped"):
            why = f" ({agent.refusal})" if agent.refusal else ""
            when = f" {about(agent.refused_s)} ago" if agent.refused_s >= _MINUTE_S else ""
            text = f"{agent.name} was refused{when}{why}"
            yield Finding("degraded", "agent_refused", text, agent.name, "until a request is answered")
        budget = agent.budget
        if budget is None or budget.owner != agent.name:
            continue
        if budget.share >= 1:
            severity = "note" if agent.running is False and not agent.queued else "degraded"
            yield _used_up(budget, severity, "agent_budget", snapshot.wall)
        elif agent.state not in ("ended", "died", "stopped"):
            yield from _nearly_used_up(budget, snapshot)


def _died(agent: AgentView, seen: bool) -> Finding:
    how = "" if agent.exit_code is None else f" ({exit_text(agent.exit_code)})"
    ends = "until restarted" if seen else "until restarted or acknowledged"
    return Finding("note" if seen else "degraded", "agent_died", f"{agent.name} died{how}", agent.name, ends)


def _of_hung(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield those that are hung, the longest first. Where they are all of a lane's that are in flight, nothing of it is
    sent until one ends: a cut level doesn't rise without answers."""
    hung = sorted((each for each in snapshot.slots if each.state == HUNG), key=lambda each: -each.silent_s)
    counts = Counter(each.lane for each in hung)
    lanes = [view.state for view in snapshot.lanes]
    stuck = {lane.lane: lane.waiting for lane in lanes if lane.level - 1 < lane.active <= counts[lane.lane]}
    for ticket in hung:
        text = f"{ticket.agent} is hung: nothing has come for {_seconds(ticket.silent_s)}"
        if waits := stuck.get(ticket.lane):
            text += f"; nothing else is in flight, and {plural(waits, 'request')} can't be sent"
        yield Finding("degraded", "hung", text, ticket.agent, "until it goes on, times out or is cut")


# --- Waits -----------------------------------------------------------------------------------------------------------


def _of_waits(snapshot: Snapshot, troubled: set[str]) -> Iterator[Finding]:
    """Yield the longest current wait, if it is too long and no finding about its lane explains it."""
    free = [each for each in snapshot.queue if each.gate not in OPERATORS and each.lane not in troubled]
    waits_s = {agent.name: agent.waiting_s for agent in snapshot.agents if agent.waiting_s} if free else {}
    long_wait_s = snapshot.alert_limits.wait_s

    def waited_s(ticket: TicketView) -> float:
        return max(ticket.since_s, waits_s.get(ticket.agent, 0.0))

    longest = max(free, key=waited_s, default=None)
    if longest is None or not _is_long(waited_s(longest), long_wait_s, lambda: _waited_lately(snapshot, long_wait_s)):
        return
    why = GATES[longest.gate].trouble if longest.gate in GATES else ""
    text = f"{longest.agent} waits for {_seconds(waited_s(longest))}" + (f" ({why})" if why else "")
    in_s = longest.estimate_s
    ends = "" if in_s is None else f"sent in about {about(in_s)}"
    yield Finding("degraded", "long_wait", text, longest.agent, ends, in_s)


def _is_long(wait_s: float, long_s: float, lately: Callable[[], bool]) -> bool:
    """Return whether a wait is too long: so that a queue whose longest wait is about that long isn't so each other
    second, a shorter one suffices while requests were sent lately that had waited as long."""
    return wait_s >= long_s or (wait_s >= 0.75 * long_s and lately())


def _waited_lately(snapshot: Snapshot, long_s: float) -> bool:
    p95_s = snapshot.vitals.wait_p95_s
    return p95_s is not None and p95_s >= 0.9 * long_s


def _last_in_s(snapshot: Snapshot) -> float | None:
    """Return when the last of those that wait is sent, by the estimates of those that are shown."""
    estimates = [ticket.estimate_s for ticket in snapshot.queue]
    known = [each for each in estimates if each is not None]
    if not known or len(known) < len(estimates):
        return None
    return max(known) * snapshot.queued / len(known)
