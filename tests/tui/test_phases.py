"""A request's course in phases and in words, and why it waits: every gate has words."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from rich.cells import cell_len
from tui.courses import AT, attempt, cases, lost, request
from tui.worlds import budget, world

from hivemind.records import replace
from hivemind.scheduler.events import GATES, LaneState, LeaseGauges, WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.world.snapshot import RequestView, TicketView
from hivemind_tui.render import wait_reason
from hivemind_tui.render.glyphs import PHASES
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.render.phases import described, failures, fine, phases_of, summarised

INK = Pen()
KINDS = {
    "new": "queue",
    "queued": "queue",
    "sent": "queue first",
    "streaming": "queue first stream",
    "pausing": "queue failed pause",
    "queued again": "queue failed pause queue",
    "answered": "queue failed queue first stream",
    "at once": "first",
    "failed": "queue failed pause queue failed",
    "refused": "queue",
    "refused late": "queue failed pause queue",
    "left": "queue first stream",
    "left waiting": "queue",
    "cut": "queue first stream failed",
    "stopped": "queue first",
    "odd": "queue first stream",
}


def words(chunks: list[list[Span]]) -> list[str]:
    return ["".join(text for text, _ in chunk) for chunk in chunks]


@pytest.mark.parametrize("name", KINDS)
def test_course_of_every_kind_of_request(name: str) -> None:
    """Each state has the phases that people would name, and no others."""
    assert " ".join(phase.kind for phase in phases_of(cases()[name], AT)) == KINDS[name]


@pytest.mark.parametrize("name", sorted(cases()))
def test_pieces_fill_the_time(name: str) -> None:
    """From the arrival to the end, or to now, without a gap and never backwards."""
    view = cases()[name]
    made = phases_of(view, AT)
    assert made[0].start_at == view.arrived_at
    assert made[-1].end_at >= min(AT, view.ended_at or AT) - 0.005
    assert all(one.end_at == pytest.approx(other.start_at, abs=0.005) for one, other in pairwise(made))
    assert {phase.kind for phase in made} <= set(PHASES)
    assert min(phase.length_s for phase in made) >= 0


def test_clocks_that_make_no_sense() -> None:
    """Whatever order the moments of an attempt are in, there is a course and no phase of it is of negative length."""
    dice = random.Random(3)

    def when() -> float:
        return dice.uniform(-5, 60)

    for number in range(400):
        made = tuple(
            replace(
                lost(n, when(), when(), when(), dice.choice((None, when())), first_content_at=when()),
                outcome=dice.choice(("answered", "left", "in_flight", "overloaded")),
                ended_at=dice.choice((None, AT - when())),
                first_content_at=dice.choice((None, AT - when())),
            )
            for n in range(1, dice.randrange(5))
        )
        view = replace(request(number, "retry", when(), *made), ended_at=dice.choice((None, AT - when())))
        course = phases_of(view, AT)
        assert course
        assert all(phase.length_s >= 0 for phase in course)
        assert [phase.start_at for phase in course] == sorted(phase.start_at for phase in course)
        assert words(described(view, course, INK))
        assert words(summarised(view, course, INK))


def test_failures_are_counted_by_kind() -> None:
    """The most frequent first; attempts that went well, or that the client left, are none."""
    own: list[RequestView] = [cases()[name] for name in ("left", "failed", "cut", "answered", "streaming")]
    assert failures(own) == "529 x3, truncated x1"
    assert failures([cases()["streaming"]]) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(-0.1, "0.00s"), (0.944, "0.94s"), (9.996, "10.0s"), (59.96, "1m00s"), (185, "3m05s")]
)
def test_fine_durations(value: float, text: str) -> None:
    """To the hundredth where that says something; clocks that run backwards count as no time."""
    assert fine(value) == text


def test_prefill_is_told_until_the_first_content() -> None:
    """What the server has read of the prompt is shown in place of `sent`, and no longer than that goes on."""
    reading = request(1, "waiting", 9.0, attempt(1, 9.0, 8.0, prefill=(2048, 7218)))
    assert "prefill 2048/7218 8" in words(described(reading, phases_of(reading, AT), INK))[-1]
    begun = request(1, "streaming", 9.0, attempt(1, 9.0, 8.0, prefill=(7218, 7218), first_content_at=1.0))
    assert "prefill" not in "".join(words(described(begun, phases_of(begun, AT), INK)))


ALL = (*GATES, "next", "", "a gate of tomorrow")
LANE = world().lanes[0].state


def waiting(**changes: Any) -> TicketView:
    """A queued request, third in line at a slot, for twelve seconds still."""
    ticket = next(each for each in world().queue if each.state == "queued")
    fresh: dict[str, Any] = {
        "gate": "slot",
        "gate_opens_in_s": None,
        "position": 3,
        "estimate_s": 12.2,
        "last_error": "",
    }
    return replace(ticket, **(fresh | changes))


def lane(**changes: Any) -> LaneState:
    return replace(LANE, **({"active": 8} | changes))


@pytest.mark.parametrize("gate", ALL)
@pytest.mark.parametrize("known", [True, False])
def test_every_gate_has_words(gate: str, known: bool) -> None:
    """Whatever holds it, and however little is known around it, there are words for it."""
    ticket = waiting(gate=gate, gate_opens_in_s=4.0 if known else None, position=2 if known else None)
    told = wait_reason.sentence(ticket, lane() if known else None, world().agents[0] if known else None)
    assert len(told) > 4
    assert "None" not in told + wait_reason.short(ticket)
    assert wait_reason.gate(ticket)


def test_each_gate_has_a_sentence_of_its_own() -> None:
    """No two gates are told alike."""
    told = {wait_reason.sentence(waiting(gate=gate)).partition(";")[0] for gate in ALL}
    assert len(told) == len(ALL)


def test_a_slot_is_told_in_full() -> None:
    """Gate, how many are before it, and about how long."""
    told = wait_reason.sentence(waiting(), lane())
    assert told == "waits for a slot: all 8 are taken and 2 go first; about 12 s"


@pytest.mark.parametrize(
    ("position", "words"), [(1, "it is next"), (2, "1 goes first"), (3, "2 go first"), (None, "all 8 are taken;")]
)
def test_the_place_in_line_is_told_by_who_goes_first(position: int | None, words: str) -> None:
    """Nobody has to count from a place number."""
    assert words in wait_reason.sentence(waiting(position=position), lane())


def test_a_level_that_fell_is_told() -> None:
    """After a cut more fly than may, and the sentence doesn't claim that there are so many slots."""
    assert "8 are in flight, the level is 4" in wait_reason.sentence(waiting(), lane(level=4.0))
    assert "the only one is taken" in wait_reason.sentence(waiting(), lane(level=1.2, active=1))


def test_the_window_is_the_one_of_the_tickets_model() -> None:
    """Of several families the sentence takes its own one's window, the tightest of input and output."""
    windows = (
        WindowState("claude-opus-4", WindowKind.INPUT, 400_000, 0, 0, 5_000, 20.0, "headers"),
        WindowState("claude-opus-4", WindowKind.OUTPUT, 80_000, 0, 0, 79_000, 20.0, "headers"),
        WindowState("claude-haiku-4", WindowKind.INPUT, 400_000, 0, 0, 100, 20.0, "headers"),
    )
    ticket = waiting(gate="tokens", model="claude-opus-4-20250514", estimated_tokens=13_000, gate_opens_in_s=4.0)
    told = wait_reason.sentence(ticket, lane(windows=windows))
    assert told.startswith("waits for the token window: it takes ≈13k, 5.0k of 400k input left, room in 4.0 s")


@pytest.mark.parametrize(
    ("resets_in_s", "checked_in_s", "opens"),
    [(20.0, None, "room in 20 s"), (86400.0, 12.0, "one request checks its reset in 12 s")],
)
def test_the_request_window_tells_what_is_left(resets_in_s: float, checked_in_s: float | None, opens: str) -> None:
    """And when there is room again, or when one request asks where its reset is doubtful."""
    window = WindowState("claude-opus-4", WindowKind.REQUESTS, 50, 50, 0, 0, resets_in_s, "headers", checked_in_s)
    ticket = waiting(gate="requests", gate_opens_in_s=checked_in_s or resets_in_s)
    assert f"0 of 50 left, {opens} and 2 go first" in wait_reason.sentence(ticket, lane(windows=(window,)))


def test_the_circuit_is_told_by_its_state() -> None:
    """Open by itself, forced open and half-open are three different things to wait for."""
    ticket = waiting(gate="circuit", gate_opens_in_s=8.1)
    assert "a probe goes in 8.1 s" in wait_reason.sentence(ticket, lane(circuit="open"))
    assert "forced open (c changes that)" in wait_reason.sentence(ticket, lane(circuit="open", circuit_forced=True))
    assert "probe" in wait_reason.sentence(ticket, lane(circuit="half_open"))


def test_what_is_left_of_a_budget_is_told() -> None:
    """The ticket's size beside what its agent still has."""
    agent = world().agents[0]
    agent = replace(agent, budget=budget(agent, agent.usage.total + 2_000))
    told = wait_reason.sentence(waiting(gate="budget", estimated_tokens=13_000), lane(), agent)
    assert "≈13k tokens" in told
    assert "2.0k left this run" in told


def test_a_budget_above_the_agents_own_may_be_what_holds_it() -> None:
    """Where its own would do."""
    agent = world().agents[0]
    agent = replace(agent, budget=budget(agent, agent.usage.total + 100_000))
    told = wait_reason.sentence(waiting(gate="budget", estimated_tokens=13_000), lane(), agent)
    assert "a budget that covers its agent" in told
    assert agent.budget is not None
    agent = replace(agent, budget=replace(agent.budget, here_tokens=10))
    told = wait_reason.sentence(waiting(gate="budget", estimated_tokens=13_000), lane(), agent)
    assert "this proxy's chunk of a budget that its fleet shares" in told


def test_what_a_fleet_holds_is_told_with_its_share() -> None:
    """How many slots this proxy has of all, and how many proxies share the limit."""
    leased = lane(lease=LeaseGauges("leased", 3, 4.0, 12.0))
    assert wait_reason.sentence(waiting(gate="fleet_slots"), leased) == (
        "waits for a slot of the fleet: this proxy has 4 of 12 and 2 go first; about 12 s"
    )
    assert wait_reason.sentence(waiting(gate="credits", estimate_s=None), leased) == (
        "waits for credits of the fleet: 3 proxies share the rate limit and 2 go first"
    )
    assert wait_reason.sentence(waiting(gate="fleet", estimate_s=None), lane()) == (
        "waits for the fleet: this proxy has no lease yet and 2 go first"
    )


def test_a_task_that_waits_for_others_is_named() -> None:
    """Where it is known which it is."""
    agent = replace(world().agents[0], task="lint")
    assert wait_reason.sentence(waiting(gate="dependency"), lane(), agent) == "waits: task lint waits for other tasks"
    assert wait_reason.sentence(waiting(gate="dependency"), lane()) == "waits: its agent's task waits for other tasks"


def test_a_pause_between_tries_names_the_error_and_the_next_try() -> None:
    """What failed, which attempt comes, and exactly when."""
    ticket = waiting(gate="backoff", gate_opens_in_s=3.1, attempt=2, last_error="529 overloaded_error", position=None)
    assert wait_reason.sentence(ticket) == "failed upstream (529 overloaded_error); try 3 in 3.1 s"
    assert wait_reason.short(ticket) == "try 3 in 3.1s: 529 overloaded_error"
    assert wait_reason.short(ticket, 20) == "try 3 in 3.1s"


@pytest.mark.parametrize(
    ("room", "words"), [(40, "slot, 3rd, ≈12s"), (14, "slot ≈12s"), (8, "slot"), (2, "slot"), (0, "slot")]
)
def test_the_short_form_leaves_out_what_does_not_fit(room: int, words: str) -> None:
    """First the place, then the time; the gate stays."""
    assert wait_reason.short(waiting(), room) == words


@pytest.mark.parametrize("gate", ALL)
def test_the_short_form_fits_where_its_shortest_does(gate: str) -> None:
    """Nothing is longer than the room it was given, down to the bare word."""
    ticket = waiting(gate=gate, gate_opens_in_s=754.0, estimate_s=800.0, last_error="漢字" * 20, attempt=12)
    least = len(wait_reason.short(ticket, 0))
    for room in range(least, 60):
        assert cell_len(wait_reason.short(ticket, room)) <= room


def test_where_nobody_can_tell_no_time_is_told() -> None:
    """An unknown estimate isn't shown as zero; where the gate's opening is known, that is told instead."""
    assert wait_reason.eta(waiting(estimate_s=None)) == ""
    assert wait_reason.short(waiting(estimate_s=None)) == "slot, 3rd"
    assert wait_reason.eta(waiting(gate="rate_limited", estimate_s=None, gate_opens_in_s=9.0)) == "9.0s"
    asked = waiting(gate="rate_limited", estimate_s=None, gate_opens_in_s=9.0)
    assert wait_reason.short(asked) == "provider, 3rd, in 9.0s"


def test_an_estimate_is_no_finer_than_it_can_be() -> None:
    """Whole seconds, and never nothing."""
    assert wait_reason.eta(waiting(estimate_s=0.2)) == "≈1s"
    assert wait_reason.eta(waiting(estimate_s=8.4)) == "≈8s"
    assert wait_reason.eta(waiting(estimate_s=65.0)) == "≈1m05s"


def test_an_agent_is_told_by_the_request_that_flies_first() -> None:
    """Of several waiting requests of an agent the one at the front says what it waits for."""
    first, second = waiting(ticket=7), waiting(ticket=5, gate="tokens")
    assert wait_reason.first_of_each([first, second]) == {first.agent: first}
