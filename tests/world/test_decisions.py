"""The story of one request."""

from __future__ import annotations

import pytest
from world.kit import (
    LANE,
    abandoned,
    arrived,
    commanded,
    failed,
    finished,
    first_content,
    granted,
    hold,
    refused,
    sampled,
    state,
    told,
)

from hivemind.scheduler import events as ev
from hivemind.scheduler.events import GATES
from hivemind.scheduler.types import FailureKind, Usage
from hivemind.world import gates
from hivemind.world.snapshot import DECISIONS_KEPT
from hivemind.world.world import World

ARRIVAL = "arrived with priority normal, about 100 tokens in, 256 out"


def story(world: World, ticket: int = 1) -> list[tuple[float, str, str]]:
    """When, what and how bad."""
    detail = world.detail(ticket, 99.0)
    assert detail is not None
    return [(decision.at, decision.text, decision.level) for decision in detail.decisions]


def test_the_story_of_a_request_that_was_rescued() -> None:
    """Why it waited, who let it go, what failed, why it was tried again, how it ended."""
    world = told(
        arrived(),
        sampled(0.5, state(8.0, upcoming=(hold(7), hold(8), hold(9), hold(1)))),
        sampled(0.8, state(8.0, upcoming=(hold(9), hold(1)))),
        sampled(0.85, state(8.0, upcoming=(hold(1, "tokens", 0.1),))),
        sampled(0.9, state(8.0, upcoming=(hold(1, "next"),))),
        granted(at=1.0),
        failed(1.5, at=2.0, message="slow down"),
        sampled(4.0, state(8.0, upcoming=(hold(1, "rate_limited", 12.0),))),
        ev.Granted(16.0, 1, "ann", LANE, 2, 12.5),
        first_content(at=16.25),
        finished(at=20.0, attempts=2),
    )
    assert story(world) == [
        (0.0, ARRIVAL, "info"),
        (0.5, "waits for a slot: 3 ahead, level 8", "info"),
        (0.85, "waits for room in the window of tokens: next in line, about 100 ms to go", "info"),
        (1.0, "granted after 1 s, attempt 1", "info"),
        (2.0, "attempt 1 failed after 1 s: 429 rate limited (slow down); again in 1.5 s, unseen by the agent", "warn"),
        (4.0, "waits: rate-limited: the provider asked to wait, about 12 s to go", "info"),
        (16.0, "granted after 12.5 s, attempt 2", "info"),
        (16.25, "first content after 250 ms", "info"),
        (20.0, "answered with 200 after 20 s: 150 tokens in (20 from cache), 40 out", "good"),
    ]


@pytest.mark.parametrize(
    ("end", "text", "level"),
    [
        (finished(usage=None), "answered with 200 after 5 s, tokens unknown", "info"),
        (finished(usage=Usage(7, 0, 0, 9)), "answered with 200 after 5 s: 7 tokens in, 9 out", "info"),
        (failed(None), "attempt 1 failed after 1 s: 429 rate limited; passed on to the agent", "bad"),
        (
            ev.AttemptFailed(2.0, 1, "ann", LANE, 1, FailureKind.CONNECT, None, "", None),
            "attempt 1 failed after 1 s: no connection; passed on to the agent",
            "bad",
        ),
        (abandoned(), "the client left while its answer came", "warn"),
        (abandoned(in_flight=False), "the client left in the queue", "warn"),
        (refused(), "refused with 503: queue full", "bad"),
        (refused(reason="agent_stopped"), "ended: the operator stopped its agent", "bad"),
    ],
)
def test_how_it_ended(end: ev.Event, text: str, level: str) -> None:
    """The last word."""
    assert story(told(arrived(), granted(), end))[-1] == (end.at, text, level)


def test_a_try_that_comes_at_once() -> None:
    """Without a wait before it, and without a pause after it."""
    at_once = ev.Granted(0.0, 1, "ann", LANE, 1, 0.0)
    assert [text for _, text, _ in story(told(arrived(), at_once, failed(0.0, at=0.5)))[1:]] == [
        "granted at once, attempt 1",
        "attempt 1 failed after 500 ms: 429 rate limited; again as soon as its turn comes, unseen by the agent",
    ]


def held_by(gate: str, opens_in_s: float | None = None) -> str:
    """What is said of a request that this gate holds."""
    return story(told(arrived(), sampled(0.5, state(upcoming=(hold(1, gate, opens_in_s),)))))[-1][1]


def test_every_gate_has_its_words() -> None:
    """Each its own, with and without a time."""
    assert gates.GATES.keys() == {*GATES, "next"}, "a gate's words stand in hivemind/world/gates.py"
    assert len({held_by(gate) for gate in GATES}) == len(GATES)
    assert not [gate for gate in GATES if gate in ("rate_limited", "held", "backoff") and gate in held_by(gate)]
    assert all(held_by(gate, 12.0).endswith("12 s to go") for gate in GATES)


def test_a_gate_of_later_days_is_told_by_its_name() -> None:
    """A recording may come from a newer proxy."""
    world = told(arrived(), sampled(0.5, state(upcoming=(hold(1, "full_moon"),))))
    assert story(world)[-1] == (0.5, "waits: full moon", "info")


def test_what_the_operator_did_to_its_agent() -> None:
    """Is a part of its story while it is open."""
    world = told(
        arrived(),
        commanded("SetPriority", at=1.0, agent="ann", priority="high"),
        commanded("BoostAgent", at=2.0, who="api", agent="ann", for_s=60.0),
        commanded("BoostAgent", at=3.0, who="api", agent="ann", for_s=0.0),
    )
    assert story(world) == [
        (0.0, ARRIVAL, "info"),
        (1.0, "priority is high now, by you", "info"),
        (2.0, "its agent counts as critical for 60 s, by api", "info"),
        (3.0, "boost ended, by api", "info"),
    ]


def test_a_long_story_keeps_its_beginning_and_its_end() -> None:
    """A ticket that waits for hours in front of gates that open and shut doesn't fill the memory."""
    world = told(arrived())
    for n in range(1, 501):
        world.apply(sampled(float(n), state(upcoming=(hold(1, "slot" if n % 2 else "tokens"),))))
    world.apply(granted(at=501.0))
    world.apply(finished(at=502.0))
    told_of = [at for at, _, _ in story(world)]
    assert len(told_of) == DECISIONS_KEPT
    assert told_of[:3] == [0.0, 1.0, 2.0]
    assert told_of[-4:] == [499.0, 500.0, 501.0, 502.0]
    assert told_of == sorted(told_of)


def test_the_detail_has_what_the_events_say() -> None:
    """What only the proxy knows is left empty."""
    detail = told(arrived(client="codex", parent="lead"), granted()).detail(1, 2.0)
    assert detail is not None
    assert (detail.client, detail.parent, detail.family) == ("codex", "lead", "family")
    assert (detail.estimated_input, detail.estimated_output, detail.view.state) == (100, 256, "waiting")
    assert (detail.method, detail.path, detail.request_headers, detail.response_headers) == ("", "", (), ())
