"""Alerts: what is one, that each is told once, when it is over, and who has seen it."""

from __future__ import annotations

import pytest
from world.kit import LANE, arrived, budget, commanded, finished, granted, hold, sampled, state, told
from world.test_verdict import agent, with_agent

from hivemind.records import replace
from hivemind.scheduler.commands import Acknowledge, Conflict
from hivemind.scheduler.events import AgentBegan, AgentEnded, AlertOver, AlertRaised, Event
from hivemind.world.alerts import ALERTS_KEPT, QUIET_S, RULES, AlertBook, AlertFold, check_acknowledge, conditions
from hivemind.world.fleet import Member
from hivemind.world.health import AlertLimits
from hivemind.world.merge import ProxyPart, merged
from hivemind.world.snapshot import LaneView, Snapshot
from hivemind.world.world import World

LIMITS = AlertLimits(dollars_per_hour=10.0)


def calm(at: float = 2.0) -> Snapshot:
    """One agent whose request was answered."""
    return replace(told(arrived(), granted(), finished(at=1.5), sampled(2.0, state(active=0))).snapshot(2.0), at=at)


def died(at: float = 2.0, name: str = "ann") -> Snapshot:
    return replace(calm(at), agents=(agent(name, state="died", exit_code=3),))


def waits(seconds: float, at: float = 2.0, name: str = "ann") -> Snapshot:
    return replace(calm(at), agents=(agent(name, waiting_s=seconds),))


def spends(dollars: float, at: float = 2.0) -> Snapshot:
    return replace(calm(at), vitals=replace(calm().vitals, dollars_per_hour=dollars))


def used(share: float, owner: str | None = None, at: float = 2.0) -> Snapshot:
    given = budget(owner, used_tokens=int(5_000 * share))
    if owner is None:
        return replace(calm(at), pool=given)
    return replace(calm(at), agents=(agent(owner, budget=given),))


def circuit(now: str, at: float = 2.0) -> Snapshot:
    return replace(calm(at), lanes=(LaneView(state(circuit=now), ()),))


def hangs() -> Snapshot:
    """Its first request was answered after a second, and of the second one nothing comes."""
    events = arrived(), granted(), finished(at=1.5), arrived(2, at=2.0), granted(2, at=2.0), sampled(2.0, state())
    return told(*events).snapshot(135.0)


BAD = {
    "died": (died(), "ann died (exit code 3)"),
    "hung": (hangs(), "nothing of ann's answer has come for 2 min 13 s"),
    "wait": (waits(61.0), "ann waits for 61 s"),
    "budget": (used(0.9), "the budget of all agents is used to 90 %: 4,500 of 5,000 tokens used this run"),
    "circuit": (circuit("open"), f"the circuit of {LANE} is open for more than 30 s"),
    "spend": (spends(12.5), "$12.50 an hour are spent, more than $10.00"),
}
OFF = {
    "died": "died",
    "hung": "wait_s",
    "wait": "wait_s",
    "budget": "budget_share",
    "circuit": "circuit_s",
    "spend": "dollars_per_hour",
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_finds_what_it_is_about_and_can_be_off(rule: str) -> None:
    snapshot, text = BAD[rule]
    assert [(each.rule, each.text) for each in conditions(snapshot, LIMITS)] == [(rule, text)]
    off = replace(LIMITS, **{OFF[rule]: 0})  # type: ignore[arg-type]  # one of its fields, which all take 0
    assert not list(conditions(snapshot, off))
    assert not list(conditions(calm(), LIMITS))


def test_no_limits_mean_no_rules() -> None:
    assert AlertLimits().any
    assert not AlertLimits(died=False, wait_s=0, budget_share=0, circuit_s=0).any


def told_by(book: AlertBook, *snapshots: Snapshot) -> list[tuple[str, str]]:
    events = [event for snapshot in snapshots for event in book.check(snapshot)]
    return [("over" if isinstance(event, AlertOver) else "raised", event.rule) for event in events]


def test_what_still_holds_is_told_once() -> None:
    book = AlertBook(LIMITS)
    assert told_by(book, died(2.0), died(3.0), died(4.0)) == [("raised", "died")]
    assert told_by(book, calm(5.0), calm(6.0)) == [("over", "died")]
    assert told_by(book, died(7.0)) == [("raised", "died")]


def test_alerts_are_numbered_and_keep_their_text() -> None:
    book = AlertBook(LIMITS)
    (first,) = book.check(died(2.0))
    (second,) = book.check(replace(died(3.0), agents=(*died().agents, *died(name="bob").agents)))
    assert (first.number, second.number, second.about) == (1, 2, "bob")
    over = book.check(calm(4.0))
    assert [(event.number, event.text) for event in over] == [(1, first.text), (2, second.text)]


@pytest.mark.parametrize(
    ("rule", "above", "near", "below"),
    [
        ("wait", waits(61.0), waits(50.0), waits(0.0)),
        ("spend", spends(10.5), spends(9.0), spends(2.0)),
        ("budget", used(0.86), used(0.8), used(0.5)),
    ],
)
def test_a_figure_around_its_mark_is_one_alert(rule: str, above: Snapshot, near: Snapshot, below: Snapshot) -> None:
    book = AlertBook(LIMITS)
    assert not told_by(book, replace(near, at=2.0)), "near isn't beyond"
    course = [replace((above, near)[second % 2], at=3.0 + second) for second in range(20)]
    assert told_by(book, *course) == [("raised", rule)]
    assert told_by(book, replace(below, at=23.0 + QUIET_S)) == [("over", rule)]


def test_a_wait_that_ends_and_begins_again_is_one_alert() -> None:
    book = AlertBook(LIMITS)
    assert told_by(book, waits(61.0, 2.0), waits(0.0, 3.0), waits(62.0, 4.0), waits(0.0, 5.0)) == [("raised", "wait")]
    assert told_by(book, waits(0.0, 4.0 + QUIET_S)) == [("over", "wait")]


def test_long_waits_are_one_alert_about_the_agent_that_waited_longest_when_it_began() -> None:
    book = AlertBook(LIMITS)
    (raised,) = book.check(waits(61.0, 2.0))
    assert raised.about == "ann"
    assert not told_by(book, waits(62.0, 3.0, "bob"))
    (over,) = book.check(waits(0.0, 3.0 + QUIET_S))
    assert over.about == "ann"
    again = AlertRaised(5.0, 2, "wait", "bob", "")
    assert alerts(raised, over, again) == [(2, False, "")], "it takes the place of the one that is over"


def test_a_circuit_is_an_alert_once_it_was_open_for_long_whatever_its_probes_do() -> None:
    book = AlertBook(LIMITS)
    short = [circuit("open", 2.0), circuit("open", 20.0), circuit("closed", 21.0), circuit("open", 22.0)]
    assert not told_by(book, *short, circuit("half_open", 40.0), circuit("open", 51.0))
    assert told_by(book, circuit("half_open", 53.0), circuit("open", 54.0)) == [("raised", "circuit")]
    assert told_by(book, circuit("half_open", 55.0), circuit("closed", 56.0), circuit("open", 57.0)) == []
    assert told_by(book, circuit("closed", 57.0 + QUIET_S)) == [("over", "circuit")]


def test_waits_that_an_operator_decided_are_none() -> None:
    """One of an agent that is held, for its task or its budget, or while all is paused."""
    assert list(conditions(waits(99.0), LIMITS))
    held = with_agent(waits(99.0), held=True)
    gated = told(arrived(), sampled(1.0, state(waiting=1, upcoming=(hold(1, "dependency"),)))).snapshot(99.0)
    paused = replace(waits(99.0), mode="paused")
    for snapshot in (held, gated, paused):
        assert not list(conditions(snapshot, LIMITS))


def test_many_that_wait_are_one_alert() -> None:
    crowd = tuple(agent(f"a{n}", waiting_s=60.0 + n) for n in range(5))
    (found,) = conditions(replace(calm(), agents=crowd), LIMITS)
    assert found.text == "a4 waits for 64 s, and 4 other agents for more than 60 s"


def test_a_used_up_budget_says_so() -> None:
    (found,) = conditions(used(1.0, "ann"), LIMITS)
    assert (found.about, found.text) == ("ann", "ann's budget is used up: 5,000 of 5,000 tokens used this run")


# --- In the world -----------------------------------------------------------------------------------------------------

RAISED = AlertRaised(3.0, 1, "died", "ann", "ann died (exit code 3)")
OVER = AlertOver(4.0, 1, "died", "ann", "ann died (exit code 3)")
DEATH = (arrived(), AgentBegan(1.0, "ann", None, None, False), AgentEnded(2.0, "ann", 3), RAISED)


def alerts(*events: Event) -> list[tuple[int, bool, str]]:
    return [(each.number, each.over, each.acknowledged) for each in told(*events).snapshot(9.0).alerts]


def test_an_alert_stays_until_it_is_over_and_acknowledged() -> None:
    seen = commanded("Acknowledge", about="ann", rule=None)
    assert alerts(RAISED) == [(1, False, "")]
    assert alerts(RAISED, OVER) == [(1, True, "")]
    assert alerts(RAISED, seen) == [(1, False, "you")]
    assert alerts(RAISED, seen, OVER) == alerts(RAISED, OVER, seen) == []


def test_acknowledging_names_an_agent_a_rule_or_all() -> None:
    other = AlertRaised(4.0, 2, "spend", "", "$12.00 an hour")
    both = RAISED, other
    assert alerts(*both, commanded("Acknowledge", about="ann", rule=None)) == [(2, False, ""), (1, False, "you")]
    assert alerts(*both, commanded("Acknowledge", about=None, rule="spend")) == [(2, False, "you"), (1, False, "")]
    assert alerts(*both, commanded("Acknowledge", about=None, rule=None)) == [(2, False, "you"), (1, False, "you")]


def test_an_acknowledged_death_degrades_no_longer() -> None:
    assert told(*DEATH).snapshot(5.0).verdict.state == "degraded"
    seen = told(*DEATH, commanded("Acknowledge", at=4.0, about="ann", rule=None)).snapshot(5.0)
    assert (seen.verdict.state, [finding.code for finding in seen.verdict.findings]) == ("healthy", ["agent_died"])


def test_the_log_says_what_was_raised_over_and_seen() -> None:
    seen = commanded("Acknowledge", at=5.0, who="ann@desk", about="ann", rule=None)
    lines = told(RAISED, OVER, seen).snapshot(9.0).lines
    assert [(line.level, line.tag, line.who, line.text) for line in lines] == [
        ("bad", "alert", "ann", "ann died (exit code 3)"),
        ("good", "alert", "ann", "over: ann died (exit code 3)"),
        ("info", "alert", "ann", "alerts acknowledged, by ann@desk"),
    ]


def test_a_restored_world_has_the_same_alerts() -> None:
    world = told(RAISED, AlertRaised(4.0, 2, "spend", "", "$12.00 an hour"))
    other = World(at=0.0, wall=1000.0, address="", upstreams=())
    other.restore(world.keep(5.0))
    assert other.snapshot(6.0).alerts == world.snapshot(6.0).alerts


def test_alerts_are_bounded_and_one_about_the_same_takes_the_place_of_the_one_before() -> None:
    fold = AlertFold()
    for number in range(1, 2 * ALERTS_KEPT):
        fold.raised(AlertRaised(1.0, number, "died", f"a{number}", ""))
    assert len(fold.alerts) == ALERTS_KEPT
    assert alerts(RAISED, OVER, AlertRaised(5.0, 2, "died", "ann", "")) == [(2, False, "")]


def test_only_what_is_there_can_be_acknowledged() -> None:
    known = told(RAISED).alerts
    check_acknowledge(Acknowledge(), known)
    check_acknowledge(Acknowledge("ann", "died"), known)
    with pytest.raises(Conflict, match=r"^no alert about 'bob' waits to be acknowledged; known: ann$"):
        check_acknowledge(Acknowledge("bob"), known)
    with pytest.raises(Conflict, match=r"^no alert spend waits to be acknowledged; known: none yet$"):
        check_acknowledge(Acknowledge(None, "spend"), ())
    check_acknowledge(Acknowledge(), ())


def test_proxies_that_tell_of_the_same_make_one_alert() -> None:
    """It is acknowledged once it is at each of them."""
    one = told(RAISED).snapshot(9.0)
    two = told(RAISED, commanded("Acknowledge", about=None, rule=None)).snapshot(9.0)
    parts = [ProxyPart(Member(f"{n}", f"m{n}", 1, "1", 1, "", 0.0), each, n) for n, each in enumerate((one, two))]
    (alert,) = merged(parts).alerts
    assert (alert.number, alert.about, alert.acknowledged) == (1000, "ann", "")
    (alert,) = merged(parts[1:]).alerts
    assert alert.acknowledged == "you"
