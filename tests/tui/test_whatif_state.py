"""Settings chosen for a what-if: turned, typed, taken back, applied as commands or as lines for a shell or a file."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import msgspec
import pytest
from tui.trials import BETA, CEILING, LOOKED, PATIENCE
from tui.worlds import KNOBS, world

from hivemind.lab.simulate.overrides import Change, parse_changes
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected, SetBudget, SetPriority, Tune
from hivemind.scheduler.types import Priority
from hivemind_tui.commands import whatif
from hivemind_tui.commands.dialogs import Rows
from hivemind_tui.render.dials import NAMES
from hivemind_tui.whatif.state import QUESTIONS, WhatIf

FRESH = WhatIf(path="j.jsonl", summary=LOOKED, upstream="anthropic", name="aimd.beta")


def test_what_was_recorded_is_the_base_else_what_is_at_hand() -> None:
    """Until the recording is read, the screen's knobs stand in; of several upstreams the one that is shown."""
    two = msgspec.structs.replace(LOOKED, upstreams={"openai": {"rpm": 1.0}, "anthropic": {"rpm": 60.0}})
    assert replace(FRESH, summary=two).base == {"rpm": 60.0}
    assert replace(FRESH, summary=two, upstream="gone").base == {"rpm": 1.0}
    assert WhatIf(at_hand=KNOBS).base == KNOBS
    with pytest.raises(Rejected, match="isn't read yet"):
        WhatIf().turn(1)


def test_a_change_is_for_every_upstream() -> None:
    """So what one of them has already is a change, as long as another has something else."""
    upstreams = {"openai": {**KNOBS, "rpm": 1.0}, "anthropic": {**KNOBS, "rpm": 60.0}}
    two = msgspec.structs.replace(LOOKED, upstreams=upstreams)
    made = replace(FRESH, summary=two)
    assert list(made.bases) == ["anthropic", "openai"]
    assert made.typed_in("rpm=60").changes == (Change("rpm", 60.0),)
    assert made.typed_in("aimd.beta=0.5").changes == ()


def test_changes_stand_in_the_order_of_the_page() -> None:
    """However they came; one of a kind."""
    made = FRESH
    for change in (PATIENCE, BETA, CEILING, replace(BETA, value=0.8)):
        made = made.with_change(change)
    assert made.changes == (CEILING, replace(BETA, value=0.8), PATIENCE)
    assert made.knobs == {"max_concurrency": 8.0, "aimd.beta": 0.8}
    assert made.others == (PATIENCE,)
    assert made.names == (*NAMES, *QUESTIONS, "queue.max_wait_s")
    assert made.typed_in("agents=x2").asked == (Change("agents", "x2"),)
    assert made.typed_in("agents=x2").others == (PATIENCE,)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("0.7", BETA),
        (" aimd.beta = 0.7 ", BETA),
        ("tpm=400k", None),
        ("tpm=500k", Change("tpm", 500_000.0)),
        ("rpm=none", Change("rpm", 0.0)),
        ("queue.max_wait_s=60", PATIENCE),
        ("features.admission=off", Change("features.admission", False)),
        ("agent.alice.priority=high", Change("agent.alice.priority", "high")),
        ("provider.limits=2x", Change("provider.limits", "x2")),
    ],
)
def test_values_and_names_are_typed(text: str, change: Change | None) -> None:
    """A value for what is under the cursor, or any setting by its name; as recorded is no change."""
    made = FRESH.typed_in(text)
    assert made.changes == (() if change is None else (change,))
    assert change is None or made.name == change.name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fast", "is no number"),
        ("7", "aimd.beta 7: must be a number from 0.05 to 0.99"),
        ("aimd.bta=0.5", "aimd.beta"),
        ("queue.max_wait_s=soon", "queue.max_wait_s"),
        ("port=80", "makes no difference"),
        ("provider.limits=soon", "must be a factor such as x2 or none"),
        ("admission.max_concurrency=unset", "max_concurrency"),
    ],
)
def test_what_is_wrong_is_told(text: str, told: str) -> None:
    """In one line."""
    with pytest.raises(Rejected, match=told) as raised:
        FRESH.typed_in(text)
    assert "\n" not in str(raised.value)


def test_a_scenario_file_with_a_mistake_changes_nothing(tmp_path: Path) -> None:
    """The line names the file and the setting."""
    path = tmp_path / "evening.toml"
    path.write_text("max_concurrency = 8\n[aimd]\nbeta = 7\n")
    with pytest.raises(Rejected, match=r"^evening\.toml: aimd\.beta 7: must be a number from"):
        FRESH.with_scenario(path)


def test_the_cursor_goes_through_all_and_stays_where_something_is() -> None:
    """To the ends and no further; a setting that leaves the list leaves the cursor above it."""
    made = FRESH.typed_in("queue.max_wait_s=60")
    assert made.move(1).name == made.name == "queue.max_wait_s"
    assert made.move(-99).name == NAMES[0]
    gone = made.without("queue.max_wait_s")
    assert (gone.changes, gone.name) == ((), QUESTIONS[-1])
    assert FRESH.turn(1).without("aimd.beta") == replace(FRESH, choosing=True)


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
