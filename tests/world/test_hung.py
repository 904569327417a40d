"""Requests of which nothing comes: when they count as hung, and what is shown of them."""

from __future__ import annotations

import pytest
from msgspec import structs
from world.kit import arrived, finished, first_content, granted, only_agent, sampled, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.events import WindowState
from hivemind.scheduler.types import WindowKind
from hivemind.world.order import gravest_first
from hivemind.world.world import World

LIMITED = sampled(
    0.0, state(windows=(WindowState("m", WindowKind.REQUESTS, 60.0, 0.0, 0.0, 60.0, None, "configured"),))
)
UNLIMITED = sampled(0.0, state(windows=()))


def asks(number: int, at: float, tokens: int = 400, agent: str = "ann", *, stream: bool = True) -> list[ev.Event]:
    """A request with a prompt of so many tokens, which is sent at once."""
    come = structs.replace(arrived(number, agent, at), estimated_input=tokens, stream=stream)
    return [come, granted(number, agent, at)]


def is_answered(number: int, at: float, ttft_s: float, agent: str = "ann") -> list[ev.Event]:
    """Its first content, and its end."""
    return [first_content(number, agent, at, ttft_s), finished(number, agent, at + 1.0)]


def hangs_from(world: World, after: float) -> float:
    """The second from which on the only open request is hung."""
    (ticket,) = world.snapshot(after).slots
    assert ticket.state != "hung"
    return next(at for at in range(int(after), 10_000) if world.snapshot(at).slots[0].state == "hung")


USUAL = {
    "nothing is known": ([], 400, True, LIMITED, 31),
    "a server on this machine may load its model": ([], 400, True, UNLIMITED, 121),
    "quick": ([(400, 0.5)], 400, True, UNLIMITED, 31),
    "ten times as long as is usual": ([(400, 8.0)], 400, True, LIMITED, 81),
    "a mean of any prompts": ([(14_000, 13.0)], 400, True, LIMITED, 131),
    "a hundred times as long a prompt": ([(400, 1.0)], 40_000, True, UNLIMITED, 1001),
    "streams tell nothing of whole answers": ([(400, 0.5)], 400, False, LIMITED, 121),
}


@pytest.mark.parametrize(("earlier", "tokens", "stream", "limits", "hung_s"), USUAL.values(), ids=list(USUAL))
def test_a_request_is_hung_after_ten_times_what_is_usual(
    earlier: list[tuple[int, float]], tokens: int, stream: bool, limits: ev.Sampled, hung_s: int
) -> None:
    """At least 30 s; by its model and its prompt's length, and by streams or whole answers."""
    world = told(limits)
    for number, (size, ttft_s) in enumerate(earlier, 10):
        for event in [*asks(number, 0.0, size), *is_answered(number, ttft_s, ttft_s)]:
            world.apply(event)
    for event in asks(1, 100.0, tokens, stream=stream):
        world.apply(event)
    assert hangs_from(world, 100.0) - 100 == hung_s


def test_a_stream_that_stalls_is_hung_unless_its_model_pauses_so_long() -> None:
    """After twice the longest pause; what goes on again is no longer hung."""
    world = told(LIMITED, *asks(1, 0.0), first_content(1, at=1.0, ttft_s=1.0), ev.Progress(2.0, 1, "ann", "up:1", 10))
    assert hangs_from(world, 2.0) == 33
    world.apply(ev.Progress(42.0, 1, "ann", "up:1", 11))
    assert hangs_from(world, 42.0) == 42 + 81


def test_what_a_server_says_of_a_prompt_is_a_sign_of_life() -> None:
    world = told(LIMITED, *asks(1, 0.0), ev.Prefill(25.0, 1, "ann", "up:1", 2048, 7218))
    assert hangs_from(world, 25.0) == 56


def test_work_in_the_background_is_silent_and_not_hung() -> None:
    """A stream of its agent that stalls beside it is hung; the reply that began it is no first content."""
    world = told(LIMITED, *asks(1, 0.0, stream=False), ev.WorkLeft(0.1, 1, "ann", "up:1"))
    agent = only_agent(world.snapshot(600.0))
    assert (agent.state, agent.ttft_s) == ("background", None)
    for event in [*asks(2, 600.0), first_content(2, at=601.0, ttft_s=1.0)]:
        world.apply(event)
    assert [ticket.state for ticket in world.snapshot(640.0).slots] == ["background", "hung"]


def test_a_whole_answer_is_measured_to_its_end() -> None:
    """What begins work in the background is answered at once, which says nothing of whole answers."""
    world = told(LIMITED, *asks(1, 0.0, stream=False), first_content(1, at=0.1, ttft_s=0.1), finished(1, at=9.0))
    for event in asks(2, 100.0, stream=False):
        world.apply(event)
    assert hangs_from(world, 100.0) == 100 + 91


def test_a_hung_request_is_seen_everywhere() -> None:
    """The verdict names it, its agent is listed first, and times to first token know how long it takes at least."""
    events: list[ev.Event] = [LIMITED]
    for number in range(2, 12):
        name = f"agent-{number}"
        events += [
            *asks(number, 0.0, agent=name),
            *is_answered(number, 0.5, 0.5, name),
            *asks(number + 20, 30.0, agent=name),
        ]
    world = told(*events, *asks(1, 2.0), sampled(30.0, *LIMITED.lanes))
    snapshot = world.snapshot(34.0)
    assert (snapshot.verdict.state, snapshot.verdict.counts) == ("degraded", {"hung": 1})
    assert snapshot.verdict.text.startswith("DEGRADED ann is hung: nothing has come for 32 s")
    assert gravest_first(snapshot.agents)[0].name == "ann"
    assert snapshot.agents[-1].state == "hung"
    assert snapshot.vitals.ttft_p95_s is not None
    assert snapshot.vitals.ttft_p95_s > 20
    (request,) = (each for each in world.requests(0, 34.0).changed if each.ticket == 1)
    assert request.state == "hung"
    assert world.keep(34.0).tickets[0].state == "waiting"  # journals keep what came


def test_that_hung_requests_hold_all_slots_is_said() -> None:
    """The longest first: nothing waits for a slot that opens by itself."""
    lane = state(windows=LIMITED.lanes[0].windows, active=2, level=2.0)
    events = [LIMITED, *asks(1, 2.0, agent="bob"), *asks(2, 0.0), arrived(3, "cy", 3.0)]
    world = told(*events, sampled(4.0, lane))
    text = "DEGRADED ann is hung: nothing has come for 40 s; nothing else is in flight, and 1 request can't be sent"
    assert world.snapshot(40.0).verdict.text.startswith(text)
    world = told(*events, *asks(4, 39.0, agent="dan"), sampled(39.0, lane))
    assert "nothing else" not in world.snapshot(40.0).verdict.text


def test_what_was_hung_and_ended_is_that_no_longer() -> None:
    world = told(LIMITED, *asks(1, 0.0))
    assert only_agent(world.snapshot(40.0)).state == "hung"
    world.apply(finished(1, at=41.0))
    assert only_agent(world.snapshot(42.0)).state == "idle"
    assert world.requests(0, 42.0).changed[0].state == "answered"


def test_an_agent_that_has_another_request_under_way_is_hung_all_the_same() -> None:
    world = told(LIMITED, *asks(1, 0.0), *asks(2, 30.0))
    agent = only_agent(world.snapshot(33.0))
    assert (agent.state, agent.in_flight, agent.queued) == ("hung", 2, 0)
