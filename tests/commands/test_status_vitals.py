"""What `hivemind status` says of the last minute."""

from __future__ import annotations

from world.kit import arrived as came
from world.kit import finished, first_content, granted, refused, task_added, task_changed, told

from hivemind.api_types import SnapshotPart
from hivemind.cli.operator.status import as_facts, shown
from hivemind.world.world import World


def status(world: World, at: float) -> list[str]:
    """Its lines."""
    return shown(SnapshotPart("run", "1.0", True, (), 0, world.snapshot(at)), None)


def test_the_last_minute_and_what_is_foreseen() -> None:
    """Rate, errors, waits and times to first token, dollars, and the ETA of the tasks."""
    world = told(came(), granted(), first_content(), finished(), refused(None, at=6.0), price=lambda *_: 0.5)
    for event in (task_added("a"), task_added("b"), task_changed("running", task="a", at=0.0)):
        world.apply(event)
    for event in (task_changed("done", task="a", at=6.0), task_changed("running", task="b", at=6.0)):
        world.apply(event)
    text = [" ".join(line.split()) for line in status(world, 10.0)]
    assert any(" 190 tokens a minute, $30.00 an hour" in line for line in text if line.startswith("rate "))
    assert "errors 0 % of attempts in the last minute, 50 % of requests" in text
    assert any("p50, p95 1 s; first token 2 s, p95 2 s" in line for line in text if line.startswith("wait "))
    assert "tasks 2 1 running, 1 done; ETA 2 s" in text


def test_nothing_is_said_of_a_minute_without_requests() -> None:
    """No line, rather than zeros."""
    text = status(told(came(), granted(), finished()), 500.0)
    assert not [line for line in text if line.split(" ")[0] in ("rate", "errors", "wait")]


def test_the_figures_for_programs() -> None:
    """All vitals but the fine histograms, and the forecast."""
    world = told(came(), granted(), finished())
    facts = as_facts(SnapshotPart("run", "1.0", True, (), 0, world.snapshot(10.0)))
    vitals = facts["vitals"]
    assert isinstance(vitals, dict)
    assert vitals["requests_per_s"] == 0.1
    assert "recent_waits" not in vitals
    assert facts["forecast"] == world.snapshot(10.0).forecast
