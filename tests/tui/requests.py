"""Made-up requests for the screen: answered, tried again, failed, refused, left, and some that aren't over."""

from __future__ import annotations

import random

from hivemind.scheduler.types import Usage
from hivemind.world.snapshot import AttemptView, Decision, RequestDetail, RequestView, Snapshot

MODELS = ("claude-opus-5-5", "claude-sonnet-5", "claude-haiku-5")
STATES = ("streaming", "answered", "answered", "queued", "answered", "retry", "failed", "answered", "left", "refused")


def requests_of(snapshot: Snapshot, count: int, seed: int = 5) -> tuple[RequestView, ...]:
    """So many requests of the snapshot's agents, by number; the last few aren't over."""
    dice = random.Random(seed)
    return tuple(_request(dice, number, count, snapshot) for number in range(1, count + 1))


def _request(dice: random.Random, number: int, count: int, snapshot: Snapshot) -> RequestView:
    agent = snapshot.agents[dice.randrange(len(snapshot.agents))]
    state = STATES[number % len(STATES)]
    recent = number > count - 8
    if not recent and state in ("streaming", "queued", "retry"):
        state = "answered"
    arrived = snapshot.at - (count - number) * 7.5 - dice.uniform(20, 40)
    attempts = _attempts(dice, arrived, state, dice.choice((1, 1, 1, 2, 3)))
    over = state not in ("streaming", "queued", "retry", "waiting")
    ended = (attempts[-1].ended_at if attempts else arrived + 2.0) if over else None
    usage = Usage(dice.randint(200, 9_000), dice.randint(0, 60_000), 0, dice.randint(20, 4_000))
    return RequestView(
        ticket=number,
        agent=agent.name,
        lane=snapshot.lanes[0].state.lane,
        model=dice.choice(MODELS),
        priority=agent.priority,
        stream=True,
        state=state,
        arrived_at=arrived,
        ended_at=ended,
        waited_s=sum(attempt.granted_at - attempt.queued_at for attempt in attempts),
        attempts=attempts,
        status={"answered": 200, "failed": 529, "refused": 503}.get(state),
        usage=usage if state == "answered" else None,
        output_tokens=usage.output_tokens if state in ("answered", "streaming") else 0,
        estimated_tokens=dice.randint(300, 30_000),
        dollars=round(dice.uniform(0.001, 0.4), 4) if state == "answered" else None,
        last_error="529 overloaded_error" if len(attempts) > 1 or state == "failed" else "",
    )


def _attempts(dice: random.Random, arrived: float, state: str, tries: int) -> tuple[AttemptView, ...]:
    if state in ("queued", "refused"):
        return ()
    made: list[AttemptView] = []
    queued = arrived
    for number in range(1, tries + 1):
        granted = queued + dice.uniform(0.1, 5)
        last = number == tries
        content = granted + dice.uniform(0.4, 3) if last and state in ("answered", "streaming", "left") else None
        ended = (content or granted) + dice.uniform(0.5, 9)
        in_flight = last and state == "streaming"
        failed = not last or state in ("failed", "retry")
        pause = dice.uniform(1, 4) if failed and state != "failed" else None
        made.append(
            AttemptView(
                number=number,
                queued_at=queued,
                granted_at=granted,
                first_content_at=content,
                ended_at=None if in_flight else ended,
                outcome="in_flight"
                if in_flight
                else "overloaded"
                if failed
                else "left"
                if state == "left"
                else "answered",
                status=529 if failed else None if in_flight else 200,
                message="overloaded_error" if failed else "",
                retry_in_s=pause,
            )
        )
        queued = ended + (pause or 0.0)
    return tuple(made)


def detail_of(view: RequestView) -> RequestDetail:
    """All about a made-up request."""
    decisions = [Decision(view.arrived_at, "arrived with priority normal, about 12k tokens")]
    decisions += [Decision(a.granted_at, f"granted as attempt {a.number}", "good") for a in view.attempts]
    return RequestDetail(
        view=view,
        client="claude-code",
        parent=None,
        family="claude-opus",
        estimated_input=9_000,
        estimated_output=3_000,
        decisions=tuple(decisions),
        method="POST",
        path="/v1/messages?beta=true",
        request_headers=(
            ("content-type", "application/json"),
            ("x-api-key", "***"),
            ("anthropic-version", "2023-06-01"),
            (
                "anthropic-beta",
                "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14",
            ),
            ("user-agent", "claude-cli/3.1.0 (external, cli)"),
            ("x-stainless-retry-count", "0"),
        ),
        response_headers=(
            ("content-type", "text/event-stream; charset=utf-8"),
            ("request-id", "req_011CSHoEeqs5C35K2UUqR7Fy"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("set-cookie", "***"),
        ),
    )
