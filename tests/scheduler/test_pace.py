"""What answers take alone, and AIMD beside servers that compute prompts for real, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from scheduler.driving import Hands

from hivemind.records import replace
from hivemind.scheduler.config import AimdConfig, LaneConfig
from hivemind.scheduler.events import LevelChanged
from hivemind.scheduler.pace import ALONE, Alone, Knee
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Computed, Usage

STEP_S = 0.05
TOKEN_S = 0.001  # of a prompt, alone
LONG = 14_000


def lane(slots: int = 5, target_s: float = 2.0) -> LaneConfig:
    return LaneConfig("up", "generic", slots, 0, 0, aimd=AimdConfig(latency_target_s=target_s))


class Server:
    """Computes prompts, so many tokens a second in all, at the times' speed that so many at once bring."""

    def __init__(self, hands: Hands, speed: Callable[[int], float], *, one_by_one: bool = False) -> None:
        self.hands = hands
        self.speed = speed
        self.one_by_one = one_by_one
        self.work: dict[int, tuple[Ticket, int, float]] = {}
        self.done = 0

    def serve(self, agents: dict[str, int], seconds: float, *, prompts: int | None = None) -> None:
        """Let agents send prompts of so many tokens each, one after another, for so long, or until so many are done."""
        hands, end = self.hands, self.hands.now + seconds
        asked: dict[str, Ticket] = {}
        while hands.now < end and (prompts is None or self.done < prompts):
            for agent, tokens in agents.items():
                if (before := asked.get(agent)) is None or before.state is TicketState.DONE:
                    asked[agent] = hands.arrive(agent, size=4 * tokens, max_out=1)
                if (ticket := asked[agent]).state is TicketState.IN_FLIGHT and ticket.id not in self.work:
                    self.work[ticket.id] = ticket, tokens, tokens * TOKEN_S + 0.1
            hands.wait(STEP_S)
            computed = list(self.work)[: 1 if self.one_by_one else None]
            for number in computed:
                ticket, tokens, left_s = self.work[number]
                left_s -= STEP_S * self.speed(len(computed)) / len(computed)
                self.work[number] = ticket, tokens, left_s
                if left_s <= 0:
                    del self.work[number]
                    hands.succeed(ticket, Usage(input_tokens=tokens, output_tokens=1))
                    self.done += 1


def causes(hands: Hands) -> set[str]:
    return {event.cause for event in hands.seen(LevelChanged)}


def test_long_prompts_alone_do_not_cut() -> None:
    """One prompt at a time, short and long ones in turn, is no load, however long it takes."""
    hands = Hands(lane())
    server = Server(hands, lambda _: 1.0)
    for tokens in (LONG, 100, LONG, 2 * LONG, 100, LONG):
        server.serve({"a": tokens}, 60, prompts=server.done + 1)
    assert hands.now > 60
    assert hands.lane.aimd.level == 5
    assert not hands.seen(LevelChanged)


def test_long_prompts_beside_short_ones_do_not_cut() -> None:
    """Where the server has room for all of them, long prompts among short ones are no congestion either."""
    hands = Hands(lane())
    Server(hands, float).serve({"a": LONG, "b": 100, "c": 2 * LONG, "d": 200}, 200)
    assert "latency" not in causes(hands)


@pytest.mark.parametrize("tokens", [100, LONG])
def test_load_beyond_the_knee_cuts(tokens: int) -> None:
    """Several at once on a server that computes one after another take longer than each would alone."""
    hands = Hands(lane(target_s=0.2))
    server = Server(hands, lambda _: 1.0, one_by_one=True)
    server.serve({"a": tokens}, 100, prompts=3)
    server.serve({f"a{number}": tokens for number in range(5)}, 300, prompts=40)
    assert "latency" in causes(hands)
    assert hands.lane.aimd.level < 5


def test_a_spike_cuts() -> None:
    """An upstream that slows down for all is told by the same prompts taking longer."""
    hands = Hands(lane())
    server, agents = Server(hands, float), {f"a{number}": 100 for number in range(5)}
    server.serve(agents, 20)
    assert not hands.seen(LevelChanged)
    server.speed = lambda flying: flying / 30
    server.serve(agents, 60)
    assert causes(hands) >= {"latency"}
    assert hands.lane.aimd.level < 3


@pytest.mark.parametrize(
    ("speed", "least", "most"),
    [
        (lambda flying: 1.0, 2, 11),
        (lambda flying: min(float(flying), 4.0), 4, 14),
        (lambda flying: 32 * flying / (32 + flying), 22, 40),
        pytest.param(float, 22, 40, marks=pytest.mark.slow),
    ],
    ids=["serial", "four slots", "batches", "any number"],
)
@pytest.mark.parametrize(
    ("tokens", "begin", "seconds"), [(100, 2, 60), pytest.param(3000, 5, 400, marks=pytest.mark.slow)]
)
def test_the_level_settles_near_the_knee(
    speed: Callable[[int], float], least: float, most: float, tokens: int, begin: int, seconds: float
) -> None:
    """Without a stated limit it grows as long as more in flight bring more, and no further."""
    hands = Hands(lane(slots=0, target_s=3600.0), checked=False)
    hands.lane.aimd.pin(begin)
    hands.lane.aimd.pin(None)
    hands.lane.push_level(0.0, "test")
    server = Server(hands, speed)
    agents = {f"a{number}": tokens for number in range(24)}
    if begin == 2:
        server.serve({"a0": tokens}, 20)
    server.serve(agents, seconds)
    late = [event.level for event in hands.seen(LevelChanged) if event.at > hands.now - seconds / 2]
    assert all(least <= level <= most for level in [*late, hands.lane.aimd.level])


def test_throughput_leads_no_lower_than_where_the_level_begins() -> None:
    """Where twice the slots that a server states are computed one by one all the same, they still wait there."""
    hands = Hands(replace(lane(slots=0, target_s=3600.0), begin_at=8), checked=False)
    server = Server(hands, lambda _: 1.0)
    for agents in (1, 3, 24):
        server.serve({f"a{number}": 100 for number in range(agents)}, 60)
    assert causes(hands) == {"grow", "knee"}
    assert min(event.level for event in hands.seen(LevelChanged)) == 8


def test_what_is_learned_are_bounds() -> None:
    """No answer took less than it is said to take alone; one that was alone and took longer raises that."""
    alone = Alone()
    assert alone.estimate(5) == math.inf
    alone.learn(13.0, 13_000, 0, alone=False)
    alone.learn(0.5, 100, 0, alone=False)
    assert (alone.estimate(100), alone.estimate(26_000)) == (0.5, 26.0)
    alone.learn(99.0, 13_000, 0, alone=False)
    assert alone.estimate(13_000) == 13.0
    for _ in range(40):
        alone.learn(39.0, 13_000, 0, alone=True)
    assert alone.estimate(13_000) == pytest.approx(39.0, rel=0.01)


def test_the_knee_is_unknown_without_fewer_in_flight() -> None:
    """What half as many bring has to be known, and not long ago."""
    knee = Knee()
    for _ in range(9):
        knee.learn(0.0, 8, took_s=8.0, alone_s=1.0)
    assert knee.reach(0.0, 8) == math.inf
    for _ in range(9):
        knee.learn(0.0, 4, took_s=4.0, alone_s=1.0)
    assert (knee.reach(0.0, 8), knee.reach(0.0, 4), knee.reach(0.0, 16)) == (4, 4, math.inf)
    assert knee.reach(1000.0, 8) == math.inf


def test_when_a_stream_begins() -> None:
    """It isn't known at first, then as long as prompts of that length take, one after another."""
    hands = Hands(lane(slots=0))
    ticket = hands.arrive("a", size=400)
    assert hands.lane.begins_s(ticket) == math.inf
    hands.wait(0.5)
    hands.content(ticket)
    hands.succeed(ticket, Usage(input_tokens=100, output_tokens=1))
    short = hands.arrive("a", size=400)
    assert hands.lane.begins_s(short) == pytest.approx(0.5)
    long = hands.arrive("b", size=400_000)
    assert hands.lane.begins_s(long) == pytest.approx(2 * 500)


def test_what_the_server_says_is_learned_without_its_queue() -> None:
    """Four at a server that computes one after another: what each waited inside is no part of what it takes alone."""
    hands = Hands(lane(slots=0))
    tickets = [hands.arrive(f"a{number}", size=400) for number in range(4)]
    for number, ticket in enumerate(reversed(tickets)):
        hands.wait(10.0 if not number else 1.0)
        hands.scheduler.first_content(hands.now, ticket)
        usage = Usage(input_tokens=100, output_tokens=10)
        hands.scheduler.succeed(hands.now, ticket, 200, usage, Computed(0.5, 0.25))
    pace = hands.lane.allowances["m"].pace
    assert (pace.first.estimate(100), pace.first.estimate(200)) == (0.5, 1.0)


def test_what_others_ask_of_the_server_is_load() -> None:
    """One of ours beside three that came past the proxy isn't alone, so that a slow answer raises no bound, and the
    next begins after all of them."""
    hands = Hands(lane(slots=0))
    hands.succeed(hands.arrive("a"), None)
    hands.wait(1.0)
    quick = hands.arrive("a", size=400)
    hands.wait(1.0)
    hands.succeed(quick, Usage(input_tokens=100, output_tokens=1))
    hands.scheduler.tell_others(hands.now, "up", 3)
    slow = hands.arrive("a", size=400)
    hands.wait(9.0)
    hands.succeed(slow, Usage(input_tokens=100, output_tokens=1))
    assert slow.in_flight > ALONE
    assert hands.lane.allowances["m"].pace.whole.estimate(100, 1) == 1.0
    waiting = hands.arrive("a", size=400)
    hands.content(waiting)
    hands.succeed(waiting)
    assert hands.lane.begins_s(hands.arrive("a", size=400)) == pytest.approx(3 * (hands.lane.hold_s or 0))
