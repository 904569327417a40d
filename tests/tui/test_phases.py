"""A request's course in phases and in words, whatever became of it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tui.courses import AT, attempt, cases, lost, request

from hivemind.records import replace
from hivemind.world.snapshot import RequestView
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
