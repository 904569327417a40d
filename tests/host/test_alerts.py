"""Alerts of a running proxy: raised and over once each, acknowledged through the control API, and in its journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from proxy.kit import between

from hivemind.journal.index.builder import world_of
from hivemind.journal.read.reader import open_journal
from hivemind.scheduler.commands import Acknowledge, AddNote, BeginAgent, Conflict, EndAgent
from hivemind.scheduler.events import AlertOver, AlertRaised, Commanded


async def test_a_death_is_an_alert_until_it_is_seen_and_over(tmp_path: Path) -> None:
    """The verdict is degraded until somebody has seen it."""
    async with between([], record_in=tmp_path) as (running, _):
        proxy = running.proxy
        proxy.apply(BeginAgent("dmitri"))
        proxy.apply(EndAgent("dmitri", 3))
        proxy.watch.check_alerts()
        proxy.watch.check_alerts()
        (alert,) = running.snapshot().alerts
        assert (alert.rule, alert.about, alert.text) == ("died", "dmitri", "dmitri died (exit code 3)")
        assert running.snapshot().verdict.state == "degraded"
        with pytest.raises(Conflict, match="no alert about 'ann' waits"):
            proxy.apply(Acknowledge("ann"))
        proxy.apply(Acknowledge("dmitri"), "ops")
        snapshot = running.snapshot()
        assert (snapshot.alerts[0].acknowledged, snapshot.verdict.state) == ("ops", "healthy")
        proxy.apply(BeginAgent("dmitri"))
        proxy.watch.check_alerts()
        assert running.snapshot().alerts == ()
    (part,) = tmp_path.rglob("*.jsonl*")  # noqa: ASYNC240 - the proxy has ended
    events = list(open_journal(part).events())
    assert [type(event) for event in events if isinstance(event, AlertRaised | AlertOver)] == [AlertRaised, AlertOver]
    (seen,) = [event for event in events if isinstance(event, Commanded) and event.name == "Acknowledge"]
    assert (seen.who, seen.arguments) == ("ops", {"about": "dmitri", "rule": None})


async def test_who_is_quicker_than_the_next_check_acknowledges_too() -> None:
    """What was seen isn't told again a second later."""
    async with between([]) as (running, _):
        running.proxy.apply(BeginAgent("dmitri"))
        running.proxy.apply(EndAgent("dmitri", 3))
        running.proxy.apply(Acknowledge(), "ops")
        running.proxy.watch.check_alerts()
        (alert,) = running.snapshot().alerts
        assert alert.acknowledged == "ops"


async def test_rules_that_are_off_tell_nothing() -> None:
    async with between([], alerts={"died": False}) as (running, _):
        running.proxy.apply(BeginAgent("dmitri"))
        running.proxy.apply(EndAgent("dmitri", 3))
        running.proxy.watch.check_alerts()
        assert running.snapshot().alerts == ()


async def test_the_verdict_goes_by_the_settings_of_alerts_also_in_a_replay(tmp_path: Path) -> None:
    async with between([], alerts={"wait_s": 7, "budget_share": 0.5}, record_in=tmp_path) as (running, _):
        limits = running.snapshot().alert_limits
        assert (limits.wait_s, limits.budget_share) == (7.0, 0.5)
    (part,) = tmp_path.rglob("*.jsonl*")  # noqa: ASYNC240 - the proxy has ended
    began = open_journal(part).began
    assert world_of(began, None).snapshot(began.at).alert_limits == limits


async def test_a_note_is_one_line_without_secrets() -> None:
    """Whatever is pasted into it."""
    async with between([]) as (running, _):
        running.proxy.apply(AddNote("new plan\x1b[31m\nkey sk-ant-api03-" + "a1B2" * 20))
        (line,) = [line for line in running.snapshot().lines if line.tag == "you"]
        assert line.text.startswith("note: new plan?[31m key ")
        assert "a1B2" not in line.text
        for text in ("", " \n", "x" * 201):
            with pytest.raises(Conflict, match="text: must be 1 to 200 characters"):
                running.proxy.apply(AddNote(text))
