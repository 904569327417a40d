"""What the panels of agents and the header say: the table, the card, who we are and what was kept from agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tui.kit import text
from tui.trouble import with_lane
from tui.worlds import budget, calm_world, world

from hivemind.records import replace
from hivemind.scheduler.types import Priority
from hivemind.world.snapshot import Snapshot
from hivemind_tui.panels import agent_page, agent_table, cost_table, header
from hivemind_tui.render.pen import Pen
from hivemind_tui.sources.base import Link
from hivemind_tui.state.lists import SortOrder
from hivemind_tui.state.view import View

PLAIN = Pen()

ALICE = world().agents[0]


def table(view: View, width: int = 160, height: int = 16, **pen: Any) -> str:
    return text(agent_table.render(view, width, height, replace(PLAIN, **pen)))


def card(view: View, width: int = 50, height: int = 42, **pen: Any) -> str:
    return text(agent_page.render_card(view, width, height, replace(PLAIN, **pen)))


def head(view: View, width: int = 160, height: int = 2) -> str:
    return text(header.render(view, width, height, PLAIN))


def first_changed(**changes: Any) -> Snapshot:
    """The world with its first agent changed."""
    full = world()
    return replace(full, agents=(replace(full.agents[0], **changes), *full.agents[1:]))


# --- The table ---------------------------------------------------------------------------------------------------


def test_the_trend_of_an_agent_ends_now() -> None:
    """As high as its own peak, blank where it used nothing; a dot where it used nothing at all."""
    own = replace(ALICE, activity=(100, 0, 1, 50, 100))
    assert agent_table.activity(own, PLAIN, 6) == (" ▇ ▁▄▇", "info")
    assert agent_table.activity(own, PLAIN, 3) == ("▁▄▇", "info")
    assert agent_table.activity(replace(ALICE, activity=(0, 0)), PLAIN, 3) == ("  .", "rule")
    assert agent_table.activity(replace(ALICE, activity=()), PLAIN, 3) == ("  .", "rule")


def test_selected_agent_is_always_in_sight() -> None:
    """However far down it is, the selected agent is among the rows, and marked by more than a colour."""
    snapshot = world(agents=60)
    for agent in snapshot.agents[::9]:
        rows = table(View(snapshot, selected=agent.name), 120, 8)
        assert f"▌ {agent.name[:8]}" in rows


def test_who_waits_is_told_why_and_who_does_not_its_last_error() -> None:
    """In the same column, whichever matters."""
    rows = table(View(world()), width=250)
    assert "tok limit, 2nd, ≈9s" in next(row for row in rows.splitlines() if " bob " in row)
    assert "try 3 in 3.1s: 529 overloaded_error" in next(row for row in rows.splitlines() if " erin " in row)
    assert "429 rate_limit_error" in next(row for row in rows.splitlines() if " alice " in row)


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (80, "IN FLIGHT FAIL COST"),
        (100, "IN FLIGHT FAIL OUT COST BUDGET"),
        (110, "IN FLIGHT FAIL COST BUDGET TOKENS 1 min"),
        (160, "IN FLIGHT FAIL RETRIED OK IN OUT COST BUDGET TOKENS 1 min"),
        (250, "IN FLIGHT QUEUE REQS OK FAIL RETRIED OK IN OUT COST BUDGET OF TOKENS 2 min 1ST TOKEN SEEN CLIENT"),
    ],
)
def test_the_columns_that_matter_most_stay(width: int, heads: str) -> None:
    """Narrower, and the less needed columns go; why somebody waits always stays."""
    rows = table(View(world(agents=11)), width, 16, boxed=width >= 140)
    assert " ".join(rows.splitlines()[1].strip("│ ").split()) == f"AGENT PRIO STATE WAITS {heads} WAIT / ERROR"


def test_refusals_have_a_column_while_there_are_any() -> None:
    """Beside the upstream's errors, and on a narrow screen not in place of what agents cost."""
    heads = table(View(first_changed(refused=3)), 80, 16, boxed=False).splitlines()[1]
    assert heads.split()[1:] == ["PRIO", "STATE", "WAITS", "FAIL", "REFUSED", "COST", "WAIT", "/", "ERROR"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"boosted_for_s": 42.0}, "»42s"),
        ({"stopped": True, "state": "stopped"}, "■ stopped"),
        ({"failed": 2, "running": False, "exit_code": 1, "last_error": "boom"}, "exit code 1: boom"),
        ({"last_error": "boom", "error_s": 200.0}, "boom, 3m ago"),
        ({"last_error": "boom" * 99, "error_s": 90_000.0}, "… 1d"),
        ({"running": False, "exit_code": 1, "last_error": "boom", "error_s": 9.0}, "exit code 1: boom, 9s ago"),
        ({"failed": 3, "refused": 12}, "3       12"),
        ({"running": False, "exit_code": -9, "last_error": ""}, "SIGKILL"),
        ({"running": False, "exit_code": -99, "last_error": ""}, "signal 99"),
        ({"running": False, "exit_code": None, "last_error": ""}, "lost with its runner"),
        ({"running": False, "exit_code": 0, "last_error": "boom"}, "boom"),
        ({"state": "ended", "running": False, "exit_code": 0}, "✓ ended"),
        ({"state": "ended", "running": None}, "✓ ended"),
        ({"state": "ended", "running": False, "exit_code": -15}, "✓ ended"),
        ({"state": "died", "running": False, "exit_code": 2}, "✕ died"),
        ({"state": "refused"}, "▲ refused"),
        ({"state": "idle", "running": False, "exit_code": None}, "✕ lost"),
        ({"state": "idle", "running": True}, "· idle"),
        ({"budget": budget(ALICE, 10**6)}, "━━━──  63%"),
        ({"budget": budget(ALICE, 1_000)}, "━━━━━ ×631"),
        ({"budget": budget(ALICE, dollars=0.001, per="day")}, "━━━━━"),
        ({"dollars": 0.0042, "unpriced": 9}, "$0.004+"),
        ({"dollars": 0.0, "unpriced": 0}, " . "),
    ],
)
def test_a_state_of_affairs_in_the_table(changes: dict[str, Any], words: str) -> None:
    """Boosted, stopped, beyond the budget, of unknown price: each is told in its cell."""
    assert words in table(View(first_changed(**changes))).splitlines()[2]


def test_marked_rows_bear_a_sign() -> None:
    """And the title counts them."""
    rows = table(View(world(), marked=frozenset({"alice", "carol"})))
    assert "◆alice" in rows
    assert "◆bob" not in rows
    assert "2 marked · 11 agents, 6 in flight, 3 queued" in rows


# --- The card ----------------------------------------------------------------------------------------------------


def test_a_budget_of_both_kinds_for_a_subtree() -> None:
    """The nearer ceiling first, what is left of each, whom it is for, and what it can't see."""
    agent = replace(ALICE, budget=budget(ALICE, 2_000_000, 3.0, per="day", covers="subtree", unpriced=900))
    rows = card(View(replace(world(), agents=(agent,))))
    for words in (
        "budget    ━━━━━━━━━━━━━━━━━───  86% of $3",
        "$0.42 left  ━━━━━━──────────────",
        "32% of 2.0M  1.4M left  today",
        "with its agents",
        "900 tokens without a price",
    ):
        assert words in rows, words


def test_many_requests_of_one_agent_are_counted() -> None:
    """The card keeps room for all else."""
    full = world()
    slots = tuple(replace(full.slots[0], ticket=n) for n in range(40))
    tall = card(View(replace(full, slots=slots), selected="alice"))
    assert "… 35 more" in tall
    assert "stops it" in tall
    short = card(View(replace(full, slots=slots), selected="alice"), 80, 8, boxed=False)
    assert "… 39 more" in short


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"priority": Priority.HIGH}, "raise", "to CRIT"),
        ({"priority": Priority.CRITICAL}, "raise", "no further"),
        ({"priority": Priority.HIGH}, "lower", "to norm"),
        ({"boosted_for_s": 3.0}, "boost", "ends the boost"),
        ({"boosted_for_s": 0.0}, "boost", "boosts it"),
        ({"held": True}, "hold", "releases it"),
        ({"held": False}, "hold", "holds it"),
        ({"budget": None}, "budget", "gives a budget"),
        ({"budget": budget(ALICE, 9)}, "budget", "changes the budget"),
        ({"stopped": True}, "stop", "allows it again"),
        ({"stopped": False}, "stop", "stops it"),
    ],
)
def test_the_keys_tell_what_they_would_do_now(changes: dict[str, Any], key: str, words: str) -> None:
    """By the agent's own state."""
    assert dict(agent_page.effects(View(first_changed(**changes), selected="alice")))[key] == words


def test_keys_for_several_speak_of_them() -> None:
    """With agents marked the keys are for all of these, and the card's title says so."""
    view = View(world(), marked=frozenset({"alice", "bob"}))
    assert dict(agent_page.effects(view)) == {
        "raise": "more urgent",
        "lower": "less urgent",
        "boost": "boosts them",
        "hold": "holds them",
        "budget": "changes the budget",
        "stop": "stops them",
    }
    assert "keys go to 2 marked agents" in card(view)


# --- The header --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 139, 199])
@pytest.mark.parametrize("page", ["overview", "log"])
def test_what_was_kept_from_agents_always_stays(width: int, page: str) -> None:
    """Failures, requests retried and agents recovered, whatever else must go, and however many there are; and the name
    of the page."""
    full = world()
    many = replace(full, totals=replace(full.totals, failed=12_300, retried_ok=45_600, agents_recovered=1_200))
    rows = head(View(many, trail=(page,)), width)
    assert "12k failed · 46k retried OK · 1.2k " in rows
    assert "recovered" in rows
    assert f"[{1 if page == 'overview' else 5} {page.capitalize()}]" in rows


def test_a_lost_connection_takes_the_first_row() -> None:
    """For how long, to where and why; nothing old stands beside it."""
    link = Link("attached", "http://10.0.0.5:8765", 12.0, "connection refused; is the proxy running?")
    row = head(View(world(), link=link), 160).splitlines()[0]
    assert "✕ NOT CONNECTED for 12s  to http://10.0.0.5:8765  connection refused" in row
    assert "slots" not in row


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (View(calm_world(), link=Link("attached", "http://10.0.0.5:8765")), "HEALTHY"),
        (View(calm_world(), link=Link("attached", "http://10.0.0.5:8765")), "attached"),
        (View(calm_world(), frozen=True), "VIEW FROZEN"),
        (View(calm_world(), agents_order=SortOrder(filter="state:retry")), "filter state:retry"),
        (View(calm_world(), trail=("log",), log_filter="429"), "filter 429"),
        (View(with_lane(calm_world(), circuit_forced=True, rate_limited_for_s=0.0)), "circuit forced closed"),
        (View(calm_world()), "rate-limited (Retry-After), resumes in 4 s"),
    ],
)
@pytest.mark.parametrize("width", [100, 160])
def test_what_the_operator_must_know_is_in_the_first_row(view: View, words: str, width: int) -> None:
    """How we are, in words."""
    assert words in head(view, width).splitlines()[0]


# --- Events ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 160])
def test_the_header_counts_who_got_an_error(width: int) -> None:
    """Agents that died and requests that were refused, at every width; nothing is said where there are none."""
    assert " died" not in head(View(world()), width).splitlines()[1]
    one = first_changed(state="died", exit_code=3)
    assert "1 agent died" in head(View(one), width).splitlines()[1]
    two = replace(one, agents=(*one.agents, replace(one.agents[0], name="zoe")))
    assert "2 agents died" in head(View(two), width).splitlines()[1]
    refused = replace(world(), totals=replace(world().totals, refused=16))
    assert "16 refused · " in head(View(refused), width).splitlines()[1]


# --- Cost by model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height", [10, 7])
def test_the_cost_by_model(height: int, golden: Callable[[str, str], None]) -> None:
    """The dearest first, with their shares; what has no price says so, and what isn't listed is counted."""
    rows = cost_table.render_models(View(world()), 50, height, PLAIN)
    assert [row.cell_length for row in rows] == [50] * height
    golden(f"models_{height}", text(rows))


def test_the_card_says_what_keeps_an_agent() -> None:
    """Held or stopped while its last request ends, kept at a pace, or paused with its plan."""
    shown = card(View(first_changed(held=True, stopped=True, paced_s=40.0, paused_s=600.0, state="streaming")))
    assert [word for word in ("held", "stopped", "paced for 40s", "paused for 10m") if word not in shown] == []
