"""Settings chosen for a what-if: turned, typed, taken back, and what the simulating process says to it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tui.trials import BETA, CEILING, LOOKED, PATIENCE
from tui.worlds import KNOBS

from hivemind.lab.simulate.overrides import Change
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected
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
