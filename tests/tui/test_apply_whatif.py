"""From a what-if to commands, to lines for a shell and to lines for a settings file."""

from __future__ import annotations

import shlex
import tomllib

import pytest
from tui.trials import BETA, CEILING, LOOKED, PATIENCE
from tui.worlds import world

from hivemind.lab.simulate.overrides import Change, parse_changes
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected, SetBudget, SetPriority, Tune
from hivemind.scheduler.types import Priority
from hivemind_tui.commands import whatif
from hivemind_tui.commands.dialogs import Rows
from hivemind_tui.whatif.state import WhatIf

ALICE = Change("agent.alice b.priority", "high")
POOR = Change("agent.bob.budget", "50k")


def made(*changes: Change) -> WhatIf:
    return WhatIf(path="/tmp/my journals/20261121.jsonl", summary=LOOKED, changes=changes)


def test_knobs_and_agents_are_commands() -> None:
    """For every upstream; what no running proxy takes is left out."""
    assert whatif.live_commands(made(BETA, PATIENCE, ALICE, POOR)) == [
        Tune("aimd.beta", 0.7),
        SetPriority("alice b", Priority.HIGH),
        SetBudget("bob", 50_000),
    ]
    with pytest.raises(Rejected, match=r"hivemind\.toml"):
        whatif.live_commands(made(PATIENCE))


def test_what_is_asked_about_the_provider_is_applied_by_nothing() -> None:
    """It is neither a command nor a line of a file, and that is said."""
    asked = Change("provider.limits", "x2")
    with pytest.raises(Rejected, match="changes neither its provider nor its agents"):
        whatif.live_commands(made(asked))
    both = made(BETA, asked)
    assert whatif.live_commands(both) == [Tune("aimd.beta", 0.7)]
    assert whatif.shell_lines(both) == ["hivemind set aimd.beta 0.7"]
    assert said(whatif.left_over(both))[-2:] == ["Not applied, because no setting changes it:", "provider.limits=x2"]
    assert parse_changes(shlex.split(whatif.what_if_line(both))[4::2]) == both.changes


def test_what_is_left_is_toml() -> None:
    """Of every type, in its tables; agents aren't settings."""
    refuse = Change("circuit.when_open", "refuse")
    off = Change("features.admission", False)
    alone = Change("max_agents", 4)
    text = "\n".join(whatif.file_lines([PATIENCE, off, refuse, alone, ALICE, Change("budget.tokens", None)]))
    assert tomllib.loads(text) == {
        "max_agents": 4,
        "budget": {},
        "circuit": {"when_open": "refuse"},
        "features": {"admission": False},
        "queue": {"max_wait_s": 60},
    }


def test_lines_for_a_shell_are_understood_there() -> None:
    """Names with blanks are quoted, numbers have no commas, and no limit is `none`."""
    lines = whatif.shell_lines(made(BETA, Change("tpm", 1_500_000.0), Change("rpm", 0.0), ALICE, POOR))
    assert [shlex.split(line)[1:] for line in lines] == [
        ["set", "aimd.beta", "0.7"],
        ["set", "tpm", "1500000"],
        ["set", "rpm", "none"],
        ["set", "priority", "alice b", "high"],
        ["budget", "bob", "50k"],
    ]


def test_the_same_question_as_a_command() -> None:
    """Its changes are parsed to the same ones."""
    changes = (CEILING, Change("tpm", 1_500_000.0), Change("features.admission", False), ALICE)
    words = shlex.split(whatif.what_if_line(made(*changes)))
    assert words[:3] == ["hivemind", "what-if", "/tmp/my journals/20261121.jsonl"]
    assert words[3::2] == ["--set"] * len(changes)
    assert parse_changes(words[4::2]) == changes


def test_the_difference_is_to_the_proxy_that_runs() -> None:
    """Not to what was recorded."""
    rows = whatif.difference(made(CEILING, ALICE), world())
    assert said(rows) == ["max_concurrency 12 → 8", "agent.alice b.priority high"]


def said(rows: Rows) -> list[str]:
    """The rows as text, with single blanks."""
    return [" ".join("".join(part for part, _ in row).split()) for row in rows]


def test_each_upstream_has_its_own_difference() -> None:
    """What stands there now, and what will: also where nothing changes, or where no request came yet. What all
    upstreams share is one line."""
    (lane,) = world().lanes
    lanes = tuple(
        replace(lane, state=replace(lane.state, upstream=name, knobs={**lane.state.knobs, "max_concurrency": most}))
        for name, most in (("anthropic", 5.0), ("openai", 8.0), ("local", 10.0))
    )
    two = replace(world(), lanes=lanes, upstreams=(("anthropic", ""), ("openai", ""), ("spare", "")))
    rows = whatif.difference(made(CEILING, Change("retry.max_attempts", 9.0)), two)
    assert said(rows) == [
        "max_concurrency anthropic 5 → 8",
        "openai 8, as it is",
        "spare — → 8",
        "local 10 → 8",
        "retry.max_attempts 10 → 9",
    ]
