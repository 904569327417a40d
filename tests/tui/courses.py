"""Made-up requests in every state that one can be in, and worlds in whose queue those stand that wait."""

from __future__ import annotations

from typing import Any

from tui.requests import detail_of, requests_of
from tui.worlds import world

from hivemind.records import replace
from hivemind.scheduler.types import Priority, Usage
from hivemind.world.snapshot import AttemptView, Decision, RequestDetail, RequestView, Snapshot, TicketView
from hivemind_tui.state.view import View

AT = 5000.0
"""The moment of :func:`tui.worlds.world`."""
EVIL = "a\x1b[2J\x07\u202e\n宽い"


def attempt(number: int, queued: float, granted: float, **more: Any) -> AttemptView:
    """One that flies; times are seconds before :data:`AT`."""
    given: dict[str, Any] = {
        "first_content_at": None,
        "ended_at": None,
        "outcome": "in_flight",
        "status": None,
        "message": "",
        "retry_in_s": None,
    }
    for name in ("first_content_at", "ended_at"):
        if name in more:
            more[name] = AT - more[name]
    return AttemptView(number=number, queued_at=AT - queued, granted_at=AT - granted, **{**given, **more})


def lost(
    number: int, queued: float, granted: float, ended: float, pause: float | None = 1.0, **more: Any
) -> AttemptView:
    """One that failed as overloaded."""
    told: dict[str, Any] = {"outcome": "overloaded", "status": 529, "message": "529 overloaded_error"}
    return attempt(number, queued, granted, ended_at=ended, retry_in_s=pause, **{**told, **more})


def request(number: int, state: str, arrived: float, *attempts: AttemptView, **more: Any) -> RequestView:
    """Of alice; `arrived` and `ended_at` are seconds before :data:`AT`."""
    given: dict[str, Any] = {
        "agent": "alice",
        "lane": "anthropic",
        "model": "claude-opus-5-5",
        "priority": Priority.HIGH,
        "stream": True,
        "ended_at": None,
        "waited_s": sum(each.granted_at - each.queued_at for each in attempts),
        "status": None,
        "usage": None,
        "output_tokens": 0,
        "estimated_tokens": 12_000,
        "dollars": None,
        "last_error": attempts[-1].message if attempts else "",
    }
    if "ended_at" in more:
        more["ended_at"] = AT - more["ended_at"]
    return RequestView(ticket=number, state=state, arrived_at=AT - arrived, attempts=attempts, **{**given, **more})


USED = Usage(input_tokens=1200, cache_read_tokens=8600, cache_write_tokens=400, output_tokens=3400)
OFTEN = tuple(lost(n, 120 - 5 * n + 1.2, 120 - 5 * n, 120 - 5 * n - 2, 1.8) for n in range(1, 20))


def cases() -> dict[str, RequestView]:
    """One for each way a request can go, by what is special about it."""
    answered = attempt(2, 30.2, 29, first_content_at=28.1, ended_at=15.7, outcome="answered", status=200)
    done: dict[str, Any] = {"status": 200, "usage": USED, "output_tokens": 3400, "dollars": 0.0731}
    again = lost(1, 34, 32, 30.2, 0.0)
    return {
        "new": request(201, "queued", 0.0),
        "queued": request(202, "queued", 41),
        "sent": request(203, "waiting", 6, attempt(1, 6, 4)),
        "streaming": request(204, "streaming", 20, attempt(1, 20, 18, first_content_at=16.5), output_tokens=1510),
        "pausing": request(205, "retry", 9, lost(1, 9, 8, 2, 3.1)),
        "queued again": request(206, "queued", 19, lost(1, 19, 18, 12, 4.0)),
        "answered": request(207, "answered", 34, again, answered, ended_at=15.7, **done),
        "at once": request(
            208,
            "answered",
            8,
            attempt(1, 8, 8, ended_at=3, outcome="answered", status=200),
            **done,
            ended_at=3,
            stream=False,
        ),
        "failed": request(209, "failed", 40, lost(1, 40, 39, 36), lost(2, 35, 34, 30, None), ended_at=30, status=529),
        "refused": request(210, "refused", 3, ended_at=3, status=503, last_error="draining"),
        "refused late": request(211, "refused", 30, lost(1, 30, 29, 26), ended_at=5, status=503, last_error="deadline"),
        "left": request(
            212, "left", 25, attempt(1, 25, 22, first_content_at=20, ended_at=11, outcome="left"), ended_at=11
        ),
        "left waiting": request(213, "left", 25, ended_at=9),
        "cut": request(
            214,
            "failed",
            25,
            lost(1, 25, 24, 11, None, first_content_at=20, outcome="truncated", status=None),
            ended_at=11,
            status=200,
        ),
        "stopped": request(215, "stopped", 25, attempt(1, 25, 24, ended_at=11, outcome="left"), ended_at=11),
        "often": request(
            216,
            "answered",
            122,
            *OFTEN,
            replace(answered, number=20, queued_at=AT - 21, granted_at=AT - 20.1, first_content_at=AT - 19),
            ended_at=15.7,
            **done,
        ),
        "forgot some": request(
            217, "retry", 300, *OFTEN[:10], *(replace(each, number=each.number + 14) for each in OFTEN[10:])
        ),
        "odd": request(
            218,
            "answered",
            10,
            attempt(1, 11, 9.9, first_content_at=10.2, ended_at=9.95, outcome="answered"),
            ended_at=10.1,
        ),
        "from tomorrow": request(219, "streaming", -5, attempt(1, -6, -7, first_content_at=-8), output_tokens=4),
        "hostile": request(
            220,
            "failed",
            8,
            lost(1, 8, 7, 3, None, message=EVIL * 40, outcome=EVIL),
            agent=EVIL,
            model=EVIL * 9,
            ended_at=3,
            last_error=EVIL,
        ),
        "unknown state": request(221, "pondering", 8, attempt(1, 8, 7, outcome="pondering")),
        "old": request(222, "streaming", 400_000, attempt(1, 400_000, 399_000, first_content_at=3), output_tokens=4),
    }


def story(view: RequestView) -> RequestDetail:
    """All about one of the :func:`cases`, decisions and headers included."""
    told = [Decision(view.arrived_at, "arrived with priority high, about 9,000 tokens in, 3,000 out")]
    told.append(Decision(view.arrived_at + 0.01, "waits for a slot: 3 ahead, limit 8"))
    for each in view.attempts:
        told.append(
            Decision(each.granted_at, f"granted after {each.granted_at - each.queued_at:.1f}s, attempt {each.number}")
        )
        if each.first_content_at is not None:
            told.append(
                Decision(each.first_content_at, f"first content after {each.first_content_at - each.granted_at:.2f} s")
            )
        if each.status == 529 and each.ended_at is not None:
            text = f"attempt {each.number} failed after 2.0s: 529 overloaded ({each.message}); again in 1.2s, unseen"
            told.append(Decision(each.ended_at, text, "warn"))
    if view.ended_at is not None:
        level = "good" if view.state == "answered" else "bad"
        told.append(Decision(view.ended_at, f"{view.state} after {view.ended_at - view.arrived_at:.1f}s", level))
    return replace(detail_of(view), decisions=tuple(told), client="claude-code 3.1.0", parent="planner")


def of_agent(*, extra: tuple[RequestView, ...] = (), **more: Any) -> View:
    """Alice's page: all the :func:`cases` but those whose clocks are mad, newest first."""
    shown = [
        each
        for name, each in cases().items()
        if name not in ("from tomorrow", "hostile", "old", "odd", "unknown state", "forgot some")
    ]
    listed = tuple(sorted((*shown, *extra), key=lambda each: -each.ticket))
    return View(
        waiting_world(), trail=("overview", "agent"), selected="alice", requests=listed, requests_shown=listed, **more
    )


def waiting_world() -> Snapshot:
    """In its queue stand those of the :func:`cases` that wait."""
    full = world()
    made = cases()
    tickets = [
        _waiting(made["queued"], full.queue[0], "tokens", 4.0, 3),
        _waiting(made["new"], full.queue[0], "slot", None, 7),
    ]
    tickets += [
        _waiting(made["pausing"], full.queue[0], "backoff", 1.1, None),
        _waiting(made["queued again"], full.queue[0], "slot", None, 1),
    ]
    return replace(
        full,
        queue=(*full.queue, *tickets),
        agents=(replace(full.agents[0], failed=2, state="queued"), *full.agents[1:]),
    )


def _waiting(view: RequestView, like: TicketView, gate: str, opens: float | None, position: int | None) -> TicketView:
    return replace(
        like,
        ticket=view.ticket,
        agent=view.agent,
        model=view.model,
        state=view.state,
        attempt=len(view.attempts),
        last_error=view.last_error,
        gate=gate,
        gate_opens_in_s=opens,
        position=position,
        estimate_s=None if gate == "backoff" else 12.0,
        retry_in_s=opens if gate == "backoff" else None,
    )


def of_all(count: int = 60, **more: Any) -> View:
    """Page 3: made-up requests of everybody, with the :func:`cases` that wait at the top."""
    full = waiting_world()
    made = cases()
    waiting = [made[name] for name in ("queued again", "pausing", "queued", "new")]
    listed = (*waiting, *sorted(requests_of(full, count), key=lambda each: -each.ticket))
    return View(full, trail=("requests",), requests=listed, requests_shown=listed, **more)


def of_request(name: str, **more: Any) -> View:
    """The page of one of the :func:`cases`, its detail there."""
    view = cases()[name]
    around = of_all(20, **more)
    listed = (view, *(each for each in around.requests if each.ticket != view.ticket))
    return replace(
        around,
        trail=("requests", "request"),
        requests=listed,
        requests_shown=listed,
        ticket=view.ticket,
        detail=story(view),
    )
