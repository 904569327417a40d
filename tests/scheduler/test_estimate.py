"""Guesses at what a request will use."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.estimate import FIRST_OUTPUT, Estimator
from hivemind.scheduler.types import Usage


@pytest.mark.parametrize(("chars", "tokens"), [(0, 1), (1, 1), (4, 1), (400, 100), (40_000, 10_000)])
def test_starts_at_four_characters_a_token(chars: int, tokens: int) -> None:
    """And a request costs at least one."""
    assert Estimator().input_tokens(chars) == tokens


@pytest.mark.parametrize(
    ("most", "tokens"), [(None, FIRST_OUTPUT), (100, 100), (100_000, FIRST_OUTPUT), (1, 1), (0, 1)]
)
def test_an_answer_is_estimated_no_longer_than_requested(most: int | None, tokens: int) -> None:
    """The usual length, or max_tokens where that is less."""
    assert Estimator().answer_tokens(most) == tokens


def test_calibrates_to_what_replies_used() -> None:
    """After thirty replies at 2.5 characters a token and 900 tokens an answer it guesses both within 1 %."""
    estimator = Estimator()
    for _ in range(30):
        estimator.learn(2500, 1000, 900)
    assert estimator.input_tokens(2500) == pytest.approx(1000, rel=0.01)
    assert estimator.answer_tokens(None) == pytest.approx(900, rel=0.01)


@pytest.mark.parametrize(("chars", "tokens"), [(10, 1000), (100_000, 10), (0, 50), (50, 0)])
def test_learns_nothing_from_a_prompt_that_is_not_in_the_body(chars: int, tokens: int) -> None:
    """Threads and files by id have no text to measure; their ratio would spoil the others' guesses."""
    estimator = Estimator()
    estimator.learn(chars, tokens, 0)
    assert estimator.input_tokens(400) == 100
    assert estimator.answer_tokens(None) == FIRST_OUTPUT


def test_each_agents_answers_are_guessed_by_its_own() -> None:
    """One that gets long answers of a model and one that gets short ones; a newcomer by what is known of both, and by
    that again once the agent is forgotten."""
    hands = Hands(lane_config(slots=0))
    for _ in range(20):
        for name, output in (("long", 4000), ("short", 20)):
            hands.succeed(hands.arrive(name), Usage(100, 0, 0, output))
    guesses = [hands.arrive(name).estimated_output for name in ("long", "short", "new")]
    assert guesses[0] > 3900
    assert guesses[1] < 40
    assert guesses[1] < guesses[2] < guesses[0]
    hands.lane.forget("short")
    assert hands.arrive("short").estimated_output == guesses[2]
