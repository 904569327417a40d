"""A lane under a lease: credits and slots in place of its own limits."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.commands import PinLevel, ReleaseLane, SetCircuit, Tune
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import LeaseChanged, LeaseGauges
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.lease import LeaseState, WindowKey
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading

REQUESTS: WindowKey = ("m", WindowKind.REQUESTS)
TOKENS: WindowKey = ("m", WindowKind.TOKENS)
JOINING, LEASED, SAFE, ALONE = LeaseState.JOINING, LeaseState.LEASED, LeaseState.SAFE, LeaseState.ALONE


def leased(lane: LaneConfig | None = None, **lease: Any) -> Hands:
    """A scheduler whose lanes need leases, and have this one if it is given."""
    hands = Hands(lane or lane_config(slots=8, rpm=60), leasing=True)
    if lease:
        hands.lease(**lease)
    return hands


def sent(*tickets: Ticket) -> list[bool]:
    return [ticket.state is TicketState.IN_FLIGHT for ticket in tickets]


def test_nothing_is_granted_without_a_lease() -> None:
    """Requests wait for the first one, and a sync is asked for at once."""
    hands = leased()
    waiting = hands.arrive()
    assert sent(waiting) == [False]
    assert list(hands.scheduler.short) == [LANE]
    hands.lease(slots=4, level=8, credits={REQUESTS: 5.0})
    assert sent(waiting) == [True]


def test_a_lease_ends_by_itself() -> None:
    """A process that was suspended grants nothing before it has another one, though no timer has told it yet."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 5.0}, until=3.0)
    first = hands.arrive("a")
    hands.wait(3.0)
    late = hands.arrive("b")
    assert sent(first, late) == [True, False]
    hands.lease(slots=8, level=8, until=6.0)
    assert sent(late) == [True]


def test_credits_are_spent_once() -> None:
    """Two credits let two requests through, whatever our own limit is; the third waits for a sync."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 2.0})
    first, second, third = (hands.arrive(f"a{n}") for n in range(3))
    assert sent(first, second, third) == [True, True, False]
    hands.wait(50.0)  # sixty a minute are more than three
    assert not third.attempts
    report = hands.report().windows[REQUESTS]
    assert (report.used, report.left, report.first) == ({0: 2.0}, 0.0, 1.0)
    assert report.wanted[Priority.NORMAL] >= 1.0
    assert (report.limit, report.source) == (60.0, "assumed")
    hands.lease(slots=8, level=8, credits={REQUESTS: 1.0})
    assert sent(third) == [True]
    assert hands.report().windows[REQUESTS].used == {50: 1.0}


def test_a_sync_is_asked_for_once_a_report() -> None:
    """Only what the last report didn't know of is worth one."""
    hands = leased(slots=1, level=8, credits={REQUESTS: 9.0})
    in_flight = hands.arrive("a")
    assert not hands.scheduler.short
    hands.arrive("b")
    assert list(hands.scheduler.short) == [LANE]
    hands.report()
    hands.arrive("c")
    assert not hands.scheduler.short
    hands.arrive("d", priority=Priority.CRITICAL)
    assert list(hands.scheduler.short) == [LANE]
    hands.report()
    hands.lease(slots=0, level=8)
    hands.succeed(in_flight)  # the slot is another proxy's now
    assert list(hands.scheduler.short) == [LANE]


def test_estimates_are_settled_where_they_were_taken() -> None:
    """A refund counts at the second of the grant, an excess when it is known; both move the credits."""
    hands = leased(lane_config(slots=8, tpm=100_000), slots=8, level=8, credits={TOKENS: 10_000.0})
    low, high = hands.arrive("a"), hands.arrive("b")
    estimate = low.estimated_input + low.estimated_output
    hands.wait(5.5)
    hands.succeed(low, Usage(input_tokens=10, output_tokens=5))
    hands.succeed(high, Usage(input_tokens=2000, output_tokens=500))
    window = hands.lane.allowances["m"].windows[WindowKind.TOKENS]
    assert window.credits is not None
    assert window.credits.left == 10_000 - 15 - 2500
    assert hands.report().windows[TOKENS].used == {0: estimate + 15, 5: 2500 - estimate}


def test_a_request_larger_than_a_window_needs_most_of_it() -> None:
    """As locally: nine tenths of the limit are enough, and the rest is a debt."""
    hands = leased(lane_config(slots=8, tpm=1000), slots=8, level=8, credits={TOKENS: 899.0})
    large = hands.arrive(size=8000)
    assert sent(large) == [False]
    assert hands.report().windows[TOKENS].first == 900.0
    hands.lease(slots=8, level=8, credits={TOKENS: 1.0})
    assert sent(large) == [True]
    assert hands.report().windows[TOKENS].left < 0


def test_credits_that_the_provider_denies_are_given_up() -> None:
    """Others than the fleet have used them. What it gives again later holds, whatever reset the headers stated."""
    hands = leased(lane_config(slots=8, rpm=100), slots=8, level=8, credits={REQUESTS: 50.0})
    first = hands.arrive()
    reading = WindowReading(WindowKind.REQUESTS, 100, 1, 30.0)
    hands.scheduler.headers(hands.now, first, (reading,))
    assert sent(hands.arrive("b"), late := hands.arrive("c")) == [True, False]
    report = hands.report().windows[REQUESTS]
    assert (report.left, report.returned) == (0.0, 48.0)
    stated = report.stated
    assert stated is not None
    assert (stated.limit, stated.remaining, stated.reset_in_s) == (100.0, 1.0, 30.0)
    assert hands.report().windows[REQUESTS].stated is None
    hands.wait(1.0)
    hands.lease(slots=8, level=8, credits={REQUESTS: 1.0})
    assert sent(late) == [True]


def test_headers_hold_nobody_without_the_store() -> None:
    """What all proxies used up just before would hold each of them for a minute; the share without the store is safe as
    it is. A window longer than a minute isn't leased, so it holds."""
    hands = leased(lane_config(slots=8, rpm=100), slots=8, level=8, credits={REQUESTS: 50.0})
    first = hands.arrive()
    hands.scheduler.headers(hands.now, first, (WindowReading(WindowKind.REQUESTS, 100, 0, 60.0),))
    hands.lease(SAFE, slots=8, level=8, limits={REQUESTS: 3.0})
    second = hands.arrive("b")
    assert sent(second, hands.arrive("c"), hands.arrive("d")) == [True, True, False]
    hands.scheduler.headers(hands.now, second, (WindowReading(WindowKind.REQUESTS, 100, 0, 7200.0),))
    hands.lease(SAFE, slots=8, level=8, limits={REQUESTS: 9.0})
    assert sent(hands.arrive("e")) == [False]


def test_spare_credits_are_returned_where_others_are_short() -> None:
    """While nothing is short they harm nobody; then all goes back that isn't wanted here."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 5.0})
    hands.succeed(hands.arrive())
    kept = hands.report().windows[REQUESTS]
    assert (kept.left, kept.returned) == (4.0, 0.0)
    hands.lease(slots=8, level=8, tight=frozenset({REQUESTS}))
    report = hands.report().windows[REQUESTS]
    assert report.left == pytest.approx(sum(report.wanted[:4]))
    assert report.left + report.returned == pytest.approx(4.0)
    hands.wait(70.0)
    hands.lease(slots=8, level=8)
    rest = hands.report().windows[REQUESTS]
    assert rest.left < 0.001


def test_without_the_store_the_last_minute_counts() -> None:
    """A safe limit holds at once with what was used before, over 61 s."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 3.0})
    for n in range(3):
        hands.succeed(hands.arrive(f"a{n}"))
    hands.lease(SAFE, slots=4, level=8, limits={REQUESTS: 4.0}, members=3)
    fourth, fifth = hands.arrive("b"), hands.arrive("c")
    assert sent(fourth, fifth) == [True, False]
    hands.until(60.9)
    assert not fifth.attempts
    hands.until(61.1)
    assert sent(fifth) == [True]


def test_credits_are_void_without_the_store() -> None:
    """What was left is another proxy's by the time that the store is back."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 30.0})
    hands.succeed(hands.arrive())
    hands.lease(SAFE, slots=4, level=8, limits={REQUESTS: 4.0})
    hands.lease(slots=8, level=8)
    assert sent(hands.arrive()) == [False]


def test_a_window_that_no_safe_lease_names_opens_after_a_minute() -> None:
    """Until then nobody knows what the others used of it; then it is a share of its limit."""
    hands = leased(lane_config(slots=80, rpm=60), slots=80, level=80)
    hands.lease(SAFE, slots=80, level=80, members=3)
    tickets = [hands.arrive(f"a{n}") for n in range(20)]
    hands.wait(60.0)
    assert not any(sent(*tickets))
    hands.wait(3.0)
    assert sum(sent(*tickets)) == 18


def test_congestion_is_reported_once_and_holds_at_once() -> None:
    """One cut for one event, at the lease that was known; the next lease decides what holds then."""
    hands = leased(lane_config(slots=20), slots=8, level=20, cuts=3)
    in_flight = [hands.arrive(f"a{n}") for n in range(8)]
    hands.wait(1.0)
    for ticket in in_flight[:4]:
        hands.fail(ticket, failure(FailureKind.OVERLOADED, retryable=False))
    assert (hands.lane.aimd.level, hands.lane.gate.limit) == (10.0, 4.0)
    assert list(hands.scheduler.short) == [LANE]
    hands.lease(slots=8, level=20, cuts=3)  # it was on its way already
    assert (hands.lane.aimd.level, hands.lane.gate.limit) == (10.0, 4.0)
    report = hands.report()
    assert (report.cut, report.cuts) == (0.5, 3)
    hands.lease(slots=8, level=20, cuts=3)  # so was this
    assert (hands.lane.aimd.level, hands.lane.gate.limit) == (10.0, 4.0)
    assert hands.report().cut is None
    hands.lease(slots=5, level=10, cuts=4)
    assert (hands.lane.aimd.level, hands.lane.gate.limit) == (10.0, 5.0)
    hands.fail(in_flight[4], failure(FailureKind.OVERLOADED, retryable=False))  # begun before the cut
    assert hands.report().cut is None


def test_growth_is_only_reported() -> None:
    """A full gate with good latencies asks for more; the level moves with the lease."""
    hands = leased(lane_config(slots=20), slots=1, level=4)
    for n in range(3):
        ticket = hands.arrive(f"a{n}")
        hands.wait(0.5)
        hands.succeed(ticket)
    assert hands.lane.aimd.level == 4
    report = hands.report()
    assert (report.grow, report.settle_s) == (0.5, 0.5)
    assert not hands.report().grow


def test_aimd_moves_within_the_slots_of_a_safe_lease() -> None:
    """Without the store congestion here is met here."""
    hands = leased(lane_config(slots=20), slots=8, level=20)
    hands.lease(SAFE, slots=4, level=20, members=3)
    in_flight = [hands.arrive(f"a{n}") for n in range(5)]
    assert sent(*in_flight) == [True] * 4 + [False]
    hands.wait(1.0)
    hands.fail(in_flight[0], failure(FailureKind.OVERLOADED, retryable=False))
    assert hands.lane.gate.limit == 2.0
    hands.lease(slots=8, level=20)
    assert hands.lane.gate.limit == 8.0
    assert hands.report().cut is None


def test_a_pause_holds_for_all_until_one_operator_ends_it() -> None:
    """It is reported until a lease names it; the next one that names none ends it."""
    hands = leased(lane_config(slots=8), slots=8, level=8)
    hands.fail(hands.arrive(), failure(FailureKind.RATE_LIMITED, delay_s=20.0))
    hands.lease(slots=8, level=8)  # from before the report
    assert hands.lane.paused_family_until("m") == 20.0
    assert hands.report().pauses == {"m": 20.0}
    hands.lease(slots=8, level=8)  # its report didn't arrive at first
    assert hands.lane.paused_family_until("m") == 20.0
    hands.lease(slots=8, level=8, pauses={"m": 20.0})
    assert not hands.report().pauses
    ticket = hands.arrive()
    assert sent(ticket) == [False]
    hands.lease(slots=8, level=8)
    hands.wait(0.1)  # behind the one that is tried again
    assert sent(ticket) == [True]


def test_an_operator_ends_a_pause_for_all() -> None:
    """It is told once, and the pause of a lease that was on its way doesn't begin anew."""
    hands = leased(lane_config(slots=8), slots=8, level=8, pauses={None: 20.0})
    ticket = hands.arrive()
    assert sent(ticket) == [False]
    hands.apply(ReleaseLane(LANE))
    hands.lease(slots=8, level=8, pauses={None: 20.0})
    assert sent(ticket) == [True]
    assert hands.report().resumed
    assert not hands.report().resumed


def opened(hands: Hands) -> None:
    """Four failures, and the circuit is open."""
    for ticket in [hands.arrive(f"unlucky-{n}") for n in range(4)]:
        hands.fail(ticket, failure(retryable=False))
    assert hands.lane.circuit.state.value == "open"


def test_the_circuit_is_probed_only_where_the_lease_says_so() -> None:
    """The cooldown alone doesn't let a probe through here."""
    hands = leased(circuit_lane(), slots=8, level=8, trips=1)
    opened(hands)
    report = hands.report()
    assert (report.opened_for_s, report.trips, report.probe_ok) == (10.0, 1, None)
    hands.lease(slots=8, level=8, circuit="open", trips=2, reopens_in_s=10.0)
    ticket = hands.arrive()
    hands.wait(15.0)
    assert sent(ticket) == [False]
    hands.lease(slots=8, level=8, circuit="probe", trips=2)
    second = hands.arrive("second")
    assert sent(ticket, second) == [True, False]
    hands.lease(slots=8, level=8, circuit="probe", trips=2)
    hands.succeed(ticket)
    assert sent(second) == [True]
    report = hands.report()
    assert (report.probe_ok, report.trips, report.opened_for_s) == (True, 2, None)
    hands.lease(slots=8, level=8, trips=3)
    assert hands.lane.circuit.state.value == "closed"


def test_a_probe_that_fails_opens_the_circuit_again() -> None:
    """For all, for another cooldown."""
    hands = leased(circuit_lane(), slots=8, level=8, circuit="probe", trips=2)
    hands.fail(hands.arrive(), failure(retryable=False))
    report = hands.report()
    assert (report.probe_ok, report.opened_for_s, report.trips) == (False, 10.0, 2)
    assert hands.lane.circuit.state.value == "open"


def test_a_circuit_that_opens_elsewhere_refuses_here() -> None:
    """Those that may not wait for it are refused at once, as where it opened."""
    hands = leased(circuit_lane(when_open="refuse"), slots=0, level=8)
    ticket = hands.arrive()
    hands.lease(slots=8, level=8, circuit="open", trips=1, reopens_in_s=10.0)
    assert ticket.refusal is not None
    assert ticket.refusal.reason == "circuit_open"


def test_an_operator_holds_the_circuit_and_the_level_for_all() -> None:
    """Commands hold here at once, are reported once, and come back as a lease."""
    hands = leased(circuit_lane(), slots=8, level=8)
    hands.apply(SetCircuit("open", None))
    hands.apply(PinLevel(3.0, None))
    hands.lease(slots=8, level=8)
    assert (hands.lane.circuit.state.value, hands.lane.aimd.level) == ("open", 3.0)
    report = hands.report()
    assert (report.forced, report.pin) == ("open", 3.0)
    hands.lease(slots=8, level=8)
    assert (hands.lane.circuit.state.value, hands.lane.aimd.level) == ("open", 3.0)
    report = hands.report()
    assert (report.forced, report.pin) == (None, None)
    hands.lease(slots=3, level=3, pinned=3.0, circuit="open", forced="open", trips=1)
    assert (hands.lane.circuit.forced, hands.lane.aimd.pinned) == ("open", True)
    hands.lease(slots=3, level=3, trips=2)
    assert (hands.lane.circuit.forced, hands.lane.aimd.pinned) == (None, False)


def test_knobs_change_what_is_reported() -> None:
    """A limit set here is told with its source; the level stays that of the lease."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 5.0})
    hands.arrive()
    hands.apply(Tune("rpm", 30.0))
    hands.apply(Tune("max_concurrency", 2.0))
    report = hands.report()
    assert (report.windows[REQUESTS].limit, report.windows[REQUESTS].source) == (30.0, "settings")
    assert report.ceiling == 2.0
    assert hands.lane.gate.limit == 8.0


def test_what_is_reported_of_requests() -> None:
    """In flight, waiting in line and at work, by class; held agents aren't in line."""
    hands = leased(lane_config(slots=8), slots=2, level=8)
    hands.arrive("a", priority=Priority.HIGH)
    hands.arrive("b")
    hands.arrive("b")
    hands.arrive("c", priority=Priority.LOW)
    report = hands.report()
    assert (report.in_flight, report.waiting, report.agents) == ([0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 1])
    assert (report.ceiling, report.floor) == (8.0, 1.0)


def test_credits_of_a_forgotten_window_are_given_back() -> None:
    """It was forgotten with its family, and nothing has stated a limit of it since."""
    hands = leased(slots=2, level=8, credits={("m", WindowKind.OUTPUT): 3.0})
    assert hands.report().windows["m", WindowKind.OUTPUT].returned == 3.0


def gates(hands: Hands) -> list[str]:
    return [hold.gate for hold in lane_state(hands.lane, hands.now, paused=False).upcoming]


def test_a_wait_for_a_lease_is_told() -> None:
    """For the first one, for slots that others have, and for credits; not where the lane itself is full."""
    hands = leased(lane_config(slots=8, rpm=60))
    hands.arrive("a")
    assert gates(hands) == ["fleet"]
    hands.lease(slots=0, level=8, members=3)
    assert gates(hands) == ["fleet_slots"]
    hands.lease(slots=4, level=8, members=3)
    hold = lane_state(hands.lane, hands.now, paused=False).upcoming[0]
    assert (hold.gate, hold.opens_in_s) == ("credits", None)
    hands.lease(slots=1, level=1, members=3, credits={REQUESTS: 5.0})
    hands.arrive("b")
    assert gates(hands) == ["slot"]
    hands.lease(SAFE, slots=1, level=1, members=3, limits={REQUESTS: 0.5})
    hands.succeed(hands.granted[0])
    assert gates(hands) == ["credits"]


def test_the_gauges_tell_of_the_lease() -> None:
    """State, members, the key's level and what is in flight; windows show what all used."""
    hands = leased()
    assert lane_state(hands.lane, 0.0, paused=False).lease == LeaseGauges("joining", 1, 0, 8.0)
    hands.lease(slots=3, level=8, members=2, in_flight=7, waiting=1, credits={REQUESTS: 5.0}, used={REQUESTS: 40.0})
    hands.arrive()
    hands.wait(0.5)
    state = lane_state(hands.lane, hands.now, paused=False)
    assert state.lease == LeaseGauges("leased", 2, 3, 8, 7, 1, 0.5)
    (window,) = state.windows
    assert (window.limit, window.used, window.used_here, window.remaining) == (60, 41.0, 1.0, 19.0)


def test_the_smallest_limit_of_all_counts() -> None:
    """What an outsized request needs follows from the limit in force, which another member may have set."""
    hands = leased(lane_config(slots=8, tpm=1000), slots=8, level=8, credits={TOKENS: 450.0})
    ticket = hands.arrive(size=8000)
    assert sent(ticket) == [False]
    hands.lease(slots=8, level=8, in_force={TOKENS: 500.0})
    assert sent(ticket) == [True]
    assert hands.report().windows[TOKENS].limit == 1000.0


def test_an_open_circuit_of_the_fleet_lets_requests_wait_for_the_probe() -> None:
    """Only a proxy with waiting requests is told to probe; so once it may be probed nothing is refused."""
    hands = leased(circuit_lane(when_open="refuse"), slots=8, level=8, circuit="open", trips=1, reopens_in_s=10.0)
    assert hands.arrive().refusal is not None
    hands.wait(10.0)
    hands.lease(slots=8, level=8, circuit="open", trips=1, reopens_in_s=0.0)
    ticket = hands.arrive("b")
    assert ticket.refusal is None
    assert hands.report().waiting == [0, 0, 1, 0]
    hands.lease(slots=8, level=8, circuit="probe", trips=1)
    assert sent(ticket) == [True]


def test_people_are_told_what_matters() -> None:
    """Each change of state, and large changes of the slots, but not four a second."""
    hands = leased(lane_config(slots=80))
    for slots in (8, 8, 4, 5, 6, 7):
        hands.lease(slots=slots, level=80)
        hands.wait(0.25)
    hands.wait(1.0)
    hands.lease(slots=20, level=80)
    hands.lease(SAFE, slots=2, level=80, members=3)
    seen = [(event.state, event.slots, event.members) for event in hands.seen(LeaseChanged)]
    assert seen == [("leased", 8, 1), ("leased", 6, 1), ("leased", 20, 1), ("safe", 2, 3)]


def test_a_lane_without_limits_has_leases_without_limits() -> None:
    """Then a cut begins with what is in flight here, until the others' are known."""
    hands = leased(lane_config(slots=0))
    hands.lease()
    in_flight = [hands.arrive(f"a{n}") for n in range(8)]
    assert all(sent(*in_flight))
    hands.wait(1.0)
    hands.fail(in_flight[0], failure(FailureKind.OVERLOADED, retryable=False))
    assert hands.lane.gate.limit == 4.0
    assert hands.report().ceiling == math.inf


def test_a_circuit_that_the_fleet_should_have_probed_is_probed_here() -> None:
    """Without the store it is half-open as soon as its cooldown is over, even if that was before."""
    hands = leased(circuit_lane(), slots=8, level=8, circuit="open", trips=1, reopens_in_s=5.0)
    ticket = hands.arrive()
    hands.wait(8.0)
    hands.lease(SAFE, slots=4, level=8, members=2)
    assert hands.lane.circuit.state.value == "half_open"
    assert sent(ticket) == [True]


def test_a_statement_without_a_limit_takes_no_credits() -> None:
    """Some providers state zeros where they don't limit anything; the headers' own window leaves them out too."""
    hands = leased(slots=8, level=8, credits={REQUESTS: 5.0})
    hands.scheduler.headers(hands.now, hands.arrive(), (WindowReading(WindowKind.REQUESTS, 0, 0, 30.0),))
    assert sent(hands.arrive("b")) == [True]
    assert hands.report().windows[REQUESTS].stated is None


def test_credits_given_up_are_not_returned_once_they_are_void() -> None:
    """By then they are another proxy's."""
    hands = leased(lane_config(slots=8, rpm=100), slots=8, level=8, credits={REQUESTS: 50.0})
    hands.scheduler.headers(hands.now, hands.arrive(), (WindowReading(WindowKind.REQUESTS, 100, 1, 30.0),))
    hands.lease(SAFE, slots=4, level=8, limits={REQUESTS: 4.0})
    hands.lease(slots=8, level=8, credits={REQUESTS: 1.0})
    report = hands.report().windows[REQUESTS]
    assert (report.left, report.returned) == (1.0, 0.0)


def test_a_family_that_others_use_has_their_limit_from_its_first_request() -> None:
    """Without the store a lane goes by the smallest limit of all, for families it hadn't used before too."""
    hands = leased(lane_config(slots=80, rpm=600))
    hands.lease(SAFE, slots=80, level=80, members=2, limits={}, in_force={REQUESTS: 20.0})
    hands.wait(62.0)
    assert sum(sent(*(hands.arrive(f"a{n}") for n in range(20)))) == 9
