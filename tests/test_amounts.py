"""Budgets as people type and read them."""

from __future__ import annotations

import re

import pytest

from hivemind.text.amounts import WantedBudget, ceiling, parse_budget, shell_hint


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("200k", WantedBudget(200_000, None, None)),
        ("1_000_000", WantedBudget(1_000_000, None, None)),
        ("1.5 m tokens", WantedBudget(1_500_000, None, None)),
        ("1.5M tokens", WantedBudget(1_500_000, None, None)),
        ("$5", WantedBudget(None, 5.0, None)),
        ("$0.50/day", WantedBudget(None, 0.5, "day")),
        ("200k/run", WantedBudget(200_000, None, "run")),
        ("200k,$5", WantedBudget(200_000, 5.0, None)),
        ("$5 and 200k / ever", WantedBudget(200_000, 5.0, "ever")),
        ("+50k", WantedBudget(50_000, None, None, more=True)),
        ("+$2,+10k", WantedBudget(10_000, 2.0, None, more=True)),
        (" None ", WantedBudget(None, None, None)),
        ("1", WantedBudget(1, None, None)),
        ("5$/day", WantedBudget(None, 5.0, "day")),
        ("$20/month", WantedBudget(None, 20.0, "month")),
        ("0.5usd,20k", WantedBudget(20_000, 0.5, None)),
        ("20 dollars", WantedBudget(None, 20.0, None)),
    ],
)
def test_what_people_type(text: str, wanted: WantedBudget) -> None:
    """Tokens, dollars, both, a period, more of it, or none."""
    assert parse_budget(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lots", "'lots' is no budget; it is 200k, $5, $5/day, 200k,$5 or none, per run, day, month or ever"),
        ("", "is no budget"),
        ("5/week", "is no budget"),
        ("5k,6k", "a budget has one limit in tokens, in one period"),
        ("-5k", "is no budget"),
        ("0", "a budget is from 1 to"),
        ("$0", "a budget is above $0"),
        ("9999999999999g", "a budget is from 1 to"),
        ("$9999g", "at most $1,000,000,000"),
        ("$5 tokens", "is no budget"),
        ("$5$", "is no budget"),
        ("5k/day,$3/run", "one budget counts in one period, not day and run"),
    ],
)
def test_what_is_no_budget(text: str, why: str) -> None:
    """It is said what would be right."""
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_budget(text)


@pytest.mark.parametrize(
    ("typed", "comes"), [("$5", ""), ("$5/day", "/day"), ("$20", "0"), ("$10/day", "0/day"), ("200k,$5", "200k,")]
)
def test_what_a_shell_leaves_of_dollars(typed: str, comes: str) -> None:
    """It is told how to write it; what no shell has touched isn't."""
    assert shell_hint(comes) == "; in a shell write 5usd, or quote '$5'"
    assert shell_hint(typed) == ""


def test_a_ceiling_in_words() -> None:
    """Both kinds, the period, and whom it covers, as far as they are given."""
    assert ceiling(200_000, 5.0, "day") == "200,000 tokens and $5.00 a day"
    assert ceiling(None, 0.25, "run", "subtree") == "$0.25 a run with all that it starts"
    assert ceiling(1, None) == "1 token"
    assert ceiling(None, None, "day") == "none"
