"""The verdict: what is found in a snapshot, how grave it is, what ends it, and what is no news."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from world.kit import LANE, arrived, budget, commanded, finished, granted, hold, only_agent, sampled, state, told
from world.kit import refused as refused_event

from hivemind.records import replace
from hivemind.scheduler.events import FamilyHold, LaneState
from hivemind.scheduler.types import Utilisation
from hivemind.world.alerts import conditions
from hivemind.world.fleet import Member
from hivemind.world.health import SEVERITIES, VERDICTS, Alert, AlertLimits, Finding, Forecast, Vitals
from hivemind.world.merge import ProxyPart, merged
from hivemind.world.snapshot import AgentView, Alarm, CurvePoint, FleetView, LaneView, RecordingView, Snapshot
from hivemind.world.verdict import CODES, FOUND_MOST, _kinds, completed, judged, lanes_held_up, parts, remedy, verdict

OTHER = "other:1"


def asked(*lanes: LaneState, in_flight: int = 0, waiting: int = 0, agents: str = "ann") -> Snapshot:
    """A proxy with so many requests of an agent in flight and waiting, and these lanes."""
    events = [arrived(number, agents) for number in range(1, in_flight + waiting + 1)]
    world = told(*events, *(granted(number, agents) for number in range(1, in_flight + 1)), sampled(2.0, *lanes))
    return world.snapshot(2.0)


def shut(*, waiting: int = 2, gate: str = "circuit", opens_in_s: float | None = 1.0, **about: object) -> LaneState:
    """A lane on which so many requests wait for one gate."""
    holds = tuple(hold(number, gate, opens_in_s, 60.0 + number) for number in range(1, waiting + 1))
    return state(active=0, waiting=waiting, upcoming=holds, **about)  # type: ignore[arg-type]


def found(snapshot: Snapshot) -> Finding:
    """The only finding."""
    (finding,) = snapshot.verdict.findings
    return finding


def with_agent(snapshot: Snapshot, **about: object) -> Snapshot:
    """The same, its only agent with these values."""
    (agent,) = snapshot.agents
    return judged(replace(snapshot, agents=(replace(agent, **about),)))  # type: ignore[arg-type]


def agent(name: str, **about: object) -> AgentView:
    """An agent like ann."""
    (ann,) = asked(state(active=1), in_flight=1).agents
    return replace(ann, name=name, **about)  # type: ignore[arg-type]


def test_a_proxy_that_nobody_asked_is_healthy() -> None:
    found = told().snapshot(1.0).verdict
    assert (found.state, found.text, found.findings, found.open) == ("healthy", "HEALTHY", (), 0)


def test_requests_that_flow_and_wait_for_a_slot_are_healthy() -> None:
    snapshot = asked(shut(gate="slot", opens_in_s=None), in_flight=3, waiting=2)
    assert (snapshot.verdict.text, snapshot.verdict.waiting, snapshot.verdict.open) == ("HEALTHY", 2, 5)


# --- Lanes -----------------------------------------------------------------------------------------------------------


def test_an_open_circuit_before_all_that_wait_blocks() -> None:
    snapshot = asked(shut(waiting=60, circuit="open", circuit_reopens_in_s=0.7), waiting=60)
    text = "BLOCKED circuit open, probe in 1 s; 60 of 60 wait; last gets through in about 2 min"
    assert snapshot.verdict.text == text
    finding = found(snapshot)
    assert (finding.severity, finding.code, finding.about, finding.ends_in_s) == ("blocked", "circuit_open", LANE, 0.7)


def test_an_open_circuit_degrades_while_older_requests_are_in_flight() -> None:
    lane = replace(shut(circuit="open", circuit_reopens_in_s=4.0), active=1)
    snapshot = asked(lane, in_flight=1, waiting=2)
    assert (snapshot.verdict.state, found(snapshot).code) == ("degraded", "circuit_open")


@pytest.mark.parametrize("waiting", [0, 3])
def test_a_circuit_forced_open_blocks_although_it_refuses_what_comes(waiting: int) -> None:
    snapshot = asked(shut(waiting=waiting, circuit="open", circuit_forced=True, opens_in_s=None), waiting=waiting)
    assert snapshot.verdict.text.startswith("BLOCKED circuit forced open, until you set it to automatic")


def test_one_lane_of_two_that_is_shut_degrades_and_is_named() -> None:
    other = state(active=1, lane=OTHER)
    snapshot = asked(shut(circuit="open", circuit_reopens_in_s=9.5), other, in_flight=1, waiting=2)
    in_flight = replace(snapshot.slots[0], lane=OTHER)
    shut_lane, other_lane = snapshot.lanes
    idle = replace(shut_lane, state=replace(shut_lane.state, active=0, waiting=2))
    snapshot = judged(replace(snapshot, slots=(in_flight,), lanes=(idle, other_lane)))
    assert snapshot.verdict.text.startswith(f"DEGRADED {LANE}: circuit open, probe in 10 s; 2 of 3 wait")


def test_lanes_that_are_held_up_are_those_of_the_findings_too() -> None:
    """By a circuit, a Retry-After, or a rate window that is used up, which no gauge tells."""
    used_up = shut(gate="requests", opens_in_s=40.0)
    others = (
        state(active=1, lane="works:1"),
        state(active=0, lane="open:1", circuit="open", circuit_reopens_in_s=3.0),
        state(active=0, lane="rate_limited:1", rate_limited_for_s=3.0),
    )
    snapshot = asked(used_up, *others, waiting=2)
    assert [each.code for each in snapshot.verdict.findings if each.about == LANE] == ["window_used"]
    assert lanes_held_up(snapshot) == {LANE, "open:1", "rate_limited:1"}


def test_an_idle_lane_that_is_shut_blocks_nothing_that_waits_elsewhere() -> None:
    lanes = shut(gate="slot", opens_in_s=None), state(active=0, lane=OTHER, circuit="open", circuit_reopens_in_s=3.0)
    assert asked(*lanes, waiting=2).verdict.state == "degraded"


def test_a_half_open_circuit_degrades() -> None:
    snapshot = asked(replace(shut(circuit="half_open"), active=1), in_flight=1, waiting=2)
    assert snapshot.verdict.text.startswith("DEGRADED circuit half-open, its probe decides; 2 of 3 wait")


def test_a_circuit_forced_closed_is_a_note() -> None:
    snapshot = asked(state(active=1, circuit_forced=True), in_flight=1)
    assert snapshot.verdict.text == "HEALTHY circuit forced closed, until you set it to automatic"


def test_a_pause_of_the_providers_blocks_what_waits() -> None:
    snapshot = asked(shut(gate="rate_limited", opens_in_s=8.2, rate_limited_for_s=8.2), waiting=2)
    assert snapshot.verdict.text.startswith("BLOCKED rate-limited (Retry-After), resumes in 9 s; 2 of 2 wait")


def test_a_pause_of_one_model_blocks_only_what_waits_for_it() -> None:
    """It is named."""
    hold = FamilyHold("opus", "rate_limited", 8.2)
    lane = replace(shut(gate="rate_limited", opens_in_s=8.2), families=(hold,))
    assert asked(lane, waiting=2).verdict.text.startswith("BLOCKED opus rate-limited (Retry-After), resumes in 9 s;")
    flows = asked(replace(lane, active=1), in_flight=1, waiting=2)
    assert (flows.verdict.state, found(flows).text) == ("healthy", "opus rate-limited (Retry-After)")


def test_a_pause_of_the_providers_while_requests_flow_is_a_note() -> None:
    lane = replace(shut(gate="rate_limited", opens_in_s=8.2, rate_limited_for_s=8.2), active=1)
    snapshot = asked(lane, in_flight=1, waiting=2)
    assert (snapshot.verdict.state, found(snapshot).code) == ("healthy", "rate_limited")


def test_a_used_up_window_blocks_until_it_resets() -> None:
    snapshot = asked(shut(gate="requests", opens_in_s=41.0), waiting=2)
    wanted = "BLOCKED requests a minute used up, opens in 41 s; 2 of 2 wait; last gets through in about 1 min"
    assert snapshot.verdict.text == wanted


@pytest.mark.parametrize(("active", "wanted"), [(2, "healthy"), (0, "blocked")])
def test_a_window_that_is_full_for_a_moment_is_news_only_if_nothing_was_sent_lately(active: int, wanted: str) -> None:
    snapshot = asked(shut(gate="tokens", opens_in_s=0.8), waiting=2)
    curve = tuple(CurvePoint(at, 4.0, active, 2, None, "") for at in (0.0, 1.0, 2.0))
    snapshot = judged(replace(snapshot, lanes=(LaneView(snapshot.lanes[0].state, curve),)))
    assert snapshot.verdict.state == wanted


def test_a_lane_without_a_lease_blocks() -> None:
    snapshot = asked(shut(gate="fleet", opens_in_s=None), waiting=2)
    assert snapshot.verdict.text.startswith("BLOCKED no lease from the fleet yet, once its store answers; 2 of 2 wait")


def test_requests_of_agents_that_the_operator_holds_block_nothing() -> None:
    lane = shut(gate="held", opens_in_s=None, circuit="closed", rate_limited_for_s=20.0)
    snapshot = with_agent(asked(lane, waiting=2), held=True)
    assert snapshot.verdict.text == "HEALTHY ann is held, until you release it"


# --- Errors ----------------------------------------------------------------------------------------------------------


def _erring(mark: str, *, errors: int = 6, minute: float | None = 0.3, failed: float | None = 0.0) -> Snapshot:
    lane = state(active=1, circuit_errors=errors, circuit_results=20)
    snapshot = asked(lane, in_flight=1)
    curve = (CurvePoint(1.5, 4.0, 1, 0, None, mark),)
    vitals = Vitals(error_share=minute, failed_share=failed)
    return judged(replace(snapshot, lanes=(LaneView(snapshot.lanes[0].state, curve),), vitals=vitals))


def test_errors_above_half_of_what_opens_the_circuit_degrade() -> None:
    snapshot = _erring("overloaded")
    assert snapshot.verdict.text == "DEGRADED 30 % of attempts fail, the circuit opens at 50 %"


def test_of_several_lanes_the_share_is_that_of_the_attempts_themselves() -> None:
    """Nine of nine are all that were made, though the circuit compares them with a window of twenty."""
    lane = state(active=1, circuit_errors=9, circuit_results=9)
    snapshot = asked(lane, replace(lane, lane=OTHER, circuit_errors=0), in_flight=1)
    curve = (CurvePoint(1.5, 4.0, 1, 0, None, "overloaded"),)
    lanes = tuple(replace(each, curve=curve) for each in snapshot.lanes)
    verdict = judged(replace(snapshot, lanes=lanes, vitals=Vitals(error_share=0.5, failed_share=0.0))).verdict
    text = f"DEGRADED {LANE}: 100 % of attempts fail, the circuit counts 45 % and opens at 50 %"
    assert verdict.text == text


def test_answers_of_429_that_retries_absorb_are_a_note() -> None:
    assert (_erring("rate_limited").verdict.state, found(_erring("rate_limited")).code) == ("healthy", "errors")


def test_answers_of_429_that_reach_agents_degrade() -> None:
    assert _erring("rate_limited", failed=0.1).verdict.state == "degraded"


def test_errors_of_long_ago_are_no_news() -> None:
    assert _erring("", minute=0.0).verdict.findings == ()


def test_without_vitals_marks_of_the_last_minute_tell_that_errors_are_recent() -> None:
    assert (_erring("", minute=None).verdict.state, _erring("server_error", minute=None).verdict.state) == (
        "healthy",
        "degraded",
    )


# --- The operator's decisions ----------------------------------------------------------------------------------------


def test_a_pause_of_all_is_the_operators_word_whatever_else_is_wrong() -> None:
    world = told(arrived(1), arrived(2), granted(1), commanded("PauseAdmissions", paused=True))
    world.apply(sampled(2.0, shut(waiting=1, gate="paused", circuit="open")))
    assert world.snapshot(2.0).verdict.text == "PAUSED nothing new is sent, until you resume; 1 of 2 wait"


def test_draining_says_how_many_are_still_in_flight() -> None:
    world = told(arrived(1), granted(1), commanded("Drain", draining=True))
    assert world.snapshot(2.0).verdict.text == "DRAINING new requests are refused, 1 still in flight"


# --- Budgets ---------------------------------------------------------------------------------------------------------


def _pool(used: int, per: str = "run", **about: object) -> Snapshot:
    return judged(replace(asked(), pool=budget(None, used_tokens=used, per=per), **about))  # type: ignore[arg-type]


def test_a_used_up_pool_blocks() -> None:
    snapshot = _pool(5_000)
    assert snapshot.verdict.text == "BLOCKED the pool is used up, until you raise it"
    assert remedy(found(snapshot), snapshot) == "hivemind budget --pool AMOUNT"


def test_a_used_up_pool_of_a_day_says_when_the_day_ends() -> None:
    midnight = time.mktime((2026, 3, 3, 22, 0, 0, 0, 0, -1))
    snapshot = _pool(5_000, "day", wall=midnight)
    assert found(snapshot).ends == "until you raise it or midnight in 2 h"
    assert found(snapshot).ends_in_s == 7200.0


def test_a_budget_of_which_little_is_left_is_a_note_with_its_end() -> None:
    snapshot = _pool(4_500, forecast=Forecast(budgets={"": 720.0}))
    assert snapshot.verdict.text == "HEALTHY the pool is 90 % used, lasts about 12 min"


def test_an_agents_used_up_budget_degrades_until_it_is_done() -> None:
    snapshot = asked(state(active=1), in_flight=1)
    spent = budget("ann", used_tokens=6_000)
    assert with_agent(snapshot, budget=spent).verdict.text == "DEGRADED ann's budget is used up, until you raise it"
    assert with_agent(snapshot, budget=spent, running=False).verdict.state == "healthy"


# --- Agents ----------------------------------------------------------------------------------------------------------


def test_an_agent_that_died_degrades_until_it_was_seen_or_goes_on() -> None:
    snapshot = asked(state(active=1), in_flight=1)
    died = with_agent(snapshot, state="died", exit_code=3, running=False)
    assert died.verdict.text == "DEGRADED ann died (exit code 3), until restarted or acknowledged"
    assert remedy(found(died), died) == "", "a process is started again by those who started it"
    unseen = judged(replace(died, alerts=(Alert(1, "died", "ann", "ann died", 1.0),)))
    assert remedy(found(unseen), unseen) == "hivemind ack ann"
    alert = Alert(1, "died", "ann", "ann died", 1.0, acknowledged="you")
    seen = judged(replace(died, alerts=(alert,)))
    assert (seen.verdict.state, found(seen).code) == ("healthy", "agent_died")


def test_agents_that_end_normally_leave_a_healthy_proxy() -> None:
    snapshot = replace(
        asked(), agents=tuple(agent(f"a{n}", state="ended", exit_code=0, running=False) for n in range(9))
    )
    assert judged(snapshot).verdict.text == "HEALTHY"


def test_many_dead_agents_are_counted_and_bounded() -> None:
    dead = tuple(agent(f"a{n}", state="died", exit_code=-9) for n in range(FOUND_MOST + 5))
    verdict = judged(replace(asked(), agents=dead)).verdict
    assert verdict.text == (
        f"DEGRADED a0 died (killed by SIGKILL), until restarted or acknowledged; also {FOUND_MOST + 4} dead agents"
    )
    assert len(verdict.findings) == FOUND_MOST


@pytest.mark.parametrize(("ago_s", "wanted"), [(10.0, ""), (900.0, " 15 min ago")])
def test_a_refused_agent_degrades_until_it_is_answered(ago_s: float, wanted: str) -> None:
    """However long ago, and also while it tries again."""
    snapshot = asked(state(active=1), in_flight=1)
    for shown in ("refused", "queued"):
        refused = with_agent(snapshot, state=shown, refused_s=ago_s, refusal="queue full")
        assert (refused.verdict.state, found(refused).text) == ("degraded", f"ann was refused{wanted} (queue full)")
    world = told(arrived(1), refused_event(1, at=5.0))
    for event in (arrived(2, at=6.0), granted(2, at=7.0)):
        world.apply(event)
    assert (world.snapshot(400.0).verdict.state, only_agent(world.snapshot(400.0)).refused) == ("degraded", 1)
    world.apply(finished(2, at=401.0))
    assert world.snapshot(402.0).verdict.state == "healthy"


# --- Waits -----------------------------------------------------------------------------------------------------------


def _long(wait_s: float, p95_s: float | None = None) -> Snapshot:
    lane = state(waiting=1, upcoming=(hold(3, "slot", None, 61.0),))
    snapshot = asked(lane, in_flight=2, waiting=1)
    return with_agent(replace(snapshot, vitals=Vitals(wait_p95_s=p95_s)), waiting_s=wait_s)


def test_a_long_wait_degrades_with_what_holds_it() -> None:
    wanted = "DEGRADED ann waits for 65 s (no slot is free), sent in about 1 min"
    assert _long(65.0).verdict.text.startswith(wanted)


def test_a_queue_with_waits_of_about_the_mark_is_not_healthy_each_other_second() -> None:
    assert [_long(wait_s, 62.0).verdict.state for wait_s in (61.0, 55.0, 48.0, 40.0)] == ["degraded"] * 3 + ["healthy"]
    assert _long(55.0).verdict.state == "healthy"


@pytest.mark.parametrize(("wait_s", "state_"), [(60.0, "degraded"), (120.0, "healthy"), (0.0, "healthy")])
def test_the_wait_that_is_too_long_is_that_of_the_alert(wait_s: float, state_: str) -> None:
    """`alerts.wait_s` decides both; 0: never."""
    snapshot = replace(_long(65.0), alert_limits=AlertLimits(wait_s=wait_s))
    assert verdict(snapshot).state == state_
    assert [each.rule for each in conditions(snapshot, snapshot.alert_limits) if each.begins] == (
        ["wait"] if state_ == "degraded" else []
    )


@pytest.mark.parametrize(("share", "codes"), [(0.85, ["budget_low"]), (0.95, []), (0.0, [])])
def test_the_budget_that_is_nearly_used_up_is_that_of_the_alert(share: float, codes: list[str]) -> None:
    """`alerts.budget_share` decides both; 0: never."""
    pool = budget(None, tokens=100, used_tokens=90)
    snapshot = judged(replace(asked(), pool=pool, alert_limits=AlertLimits(budget_share=share)))
    assert [each.code for each in snapshot.verdict.findings] == codes


# --- The proxy's own parts -------------------------------------------------------------------------------------------


def test_an_alarm_degrades() -> None:
    snapshot = judged(replace(asked(), alarms=(Alarm("gate", LANE, "", "It has 3 of 2.", 1.0),)))
    assert snapshot.verdict.text == f"DEGRADED alarm gate of {LANE}, until it holds again"


def test_what_only_the_host_knows_is_judged_too() -> None:
    journal = RecordingView("j", 1, 0, "No space left on device")
    snapshot = completed(asked(), None, journal)
    assert snapshot.verdict.text == (
        "DEGRADED the journal can't be written (No space left on device), until its disk takes it again"
    )
    gaps = completed(asked(), None, RecordingView("j", 1, 3, ""))
    assert gaps.verdict.text == "HEALTHY 3 events missing in the journal"
    fleet = FleetView("alone", "", 1, 1, None, 0, 0.0, 0, {})
    assert completed(asked(), fleet, None).verdict.text == "DEGRADED disconnected from the fleet, until it answers"


def test_proxies_shown_as_one_have_one_verdict() -> None:
    dead = with_agent(asked(state(active=1), in_flight=1), state="died", exit_code=1)
    two = [ProxyPart(Member(str(n), f"m{n}", n, "", 1, "", 0.0), each, n) for n, each in enumerate((asked(), dead))]
    assert merged(two).verdict.text.startswith("DEGRADED ann died (exit code 1)")


# --- All of them -----------------------------------------------------------------------------------------------------


def test_of_what_else_was_found_the_gravest_kinds_are_named() -> None:
    """Each with its number, and how many findings there are beside."""
    snapshot = asked(state(active=1), in_flight=1)
    dead = [agent(f"a{n}", state="died", exit_code=1) for n in range(4)]
    refused = agent("r", state="refused", refused_s=1.0)
    snapshot = replace(
        snapshot, agents=(*snapshot.agents, *dead, refused), pool=budget(None, tokens=100, used_tokens=90)
    )
    snapshot = replace(snapshot, alarms=(Alarm("gate", "", "", "", 1.0),))
    assert judged(snapshot).verdict.text == (
        "DEGRADED a0 died (exit code 1), until restarted or acknowledged; also 3 dead agents, 1 alarm, 2 more findings"
    )


def test_everything_that_can_be_found_can_be_counted() -> None:
    assert all(_kinds(Counter([code])).startswith("1 ") for code in CODES)


def test_the_gravest_is_the_cause_and_the_others_are_counted() -> None:
    snapshot = asked(shut(circuit="open", circuit_reopens_in_s=5.0), waiting=2)
    snapshot = replace(snapshot, agents=(*snapshot.agents, agent("bob", state="died", exit_code=1)))
    snapshot = judged(replace(snapshot, alarms=(Alarm("gate", "", "", "", 1.0),)))
    assert [each.code for each in snapshot.verdict.findings] == ["circuit_open", "agent_died", "alarm"]
    assert snapshot.verdict.text.startswith(
        "BLOCKED circuit open, probe in 5 s; 2 of 2 wait; last gets through in about 1 min; also 1 dead agent, 1 alarm"
    )
    assert parts(snapshot.verdict, brief=True)[-1] == "2 more findings"


def test_how_long_the_last_waits_is_told_only_where_each_is_estimated() -> None:
    lane = shut(waiting=1, circuit="open", circuit_reopens_in_s=5.0)
    assert asked(lane, waiting=2).verdict.last_in_s is None
    assert asked(lane, waiting=1).verdict.last_in_s == 61.0


def test_more_wait_than_are_shown() -> None:
    snapshot = asked(shut(waiting=2, circuit="open", circuit_reopens_in_s=5.0), waiting=2)
    assert judged(replace(snapshot, queued=10)).verdict.last_in_s == 62.0 * 5


def test_every_state_and_severity_is_known() -> None:
    assert {"healthy", "slowed", "degraded", "paused", "draining", "blocked"} == set(VERDICTS)
    assert SEVERITIES == ("note", "slowed", "degraded", "blocked")
    assert all(kind.noun and kind.meaning for kind in CODES.values())


def test_where_a_long_window_ends_and_whom_its_pace_holds() -> None:
    """By the clock, as notes: what a plan has left makes no proxy unhealthy."""
    window = Utilisation("5h", 0.63, 9000.0, "allowed", 18_000.0, "", 4500.0, 1200.0, 0.0)
    snapshot = asked(state(active=1, waiting=1, plan=(window,)), in_flight=1, waiting=1)
    at = [time.strftime("%H:%M", time.localtime(snapshot.wall + each)) for each in (4500, 9000, 1200)]
    text = "the 5h window is 63 % used"
    assert sorted((each.severity, each.code, each.text, each.ends) for each in snapshot.verdict.findings) == [
        ("note", "window_early", text, f"ends at {at[0]} at this rate and resets at {at[1]}"),
        ("note", "window_paced", f"{text}: low waits", f"low until {at[2]}"),
    ]
    assert snapshot.verdict.state == "healthy"


def test_the_command_that_mends() -> None:
    """Names whom it is about; there is none for a budget that nobody has."""
    for code, command in (("hung", "hivemind cut --retry ann"), ("agent_held", "hivemind release ann")):
        assert remedy(Finding("degraded", code, "", "ann"), told().snapshot(1.0)) == command
    assert remedy(Finding("note", "budget_low", "", "nobody"), told().snapshot(1.0)) == ""
