"""The palette, as people type into it who know none of its commands."""

from __future__ import annotations

import re

import pytest
from tui.kit import press, room, screen, seen, whole_screen
from tui.worlds import LANE, FakeSource, world

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.types import Priority
from hivemind_tui.widgets.overlay import Palette, found

pytestmark = pytest.mark.e2e
UPSTREAM = "anthropic"
_KEYS = {" ": "space", "$": "dollar_sign", "=": "equals_sign", ".": "full_stop"}
_WAYS = {"p": cmd.PauseAdmissions(True), "D": cmd.Drain(True), "o": cmd.SetCircuit("open")}
SENTENCES: dict[str, tuple[str, list[cmd.Command]]] = {
    "alice high": ("", [cmd.SetPriority("alice", Priority.HIGH)]),
    "set alice priority to low": ("", [cmd.SetPriority("alice", Priority.LOW)]),
    "give alice more": ("", [cmd.SetPriority("alice", Priority.HIGH)]),
    "alice more than the rest": ("", [cmd.SetPriority("alice", Priority.HIGH)]),
    "alice lower": ("", [cmd.SetPriority("alice", Priority.LOW)]),
    "kill alice": ("y", [cmd.StopAgent("alice", True)]),
    "hold ALICE": ("", [cmd.PauseAgent("alice", True)]),
    "boost car": ("", [cmd.BoostAgent("carol", 60.0)]),
    "budget alice $5": ("", [cmd.SetBudget("alice", None, 5.0)]),
    "max concurrency 4": ("", [cmd.Tune("max_concurrency", 4, UPSTREAM)]),
    "only 4 in flight": ("", [cmd.Tune("max_concurrency", 4, UPSTREAM)]),
    "latency target 5": ("", [cmd.Tune("aimd.latency_target_s", 5, UPSTREAM)]),
    "beta=0.7": ("", [cmd.Tune("aimd.beta", 0.7, UPSTREAM)]),
    "pin 4": ("", [cmd.PinLevel(4.0, LANE)]),
    "kill": ("y", [cmd.StopAgent("alice", True)]),
    "stop spending": ("p", [cmd.PauseAdmissions(True)]),
}


async def test_sentences_send_their_commands() -> None:
    """The first that the palette offers for a sentence is what it says."""
    source = FakeSource(world())
    async with screen(source, (80, 24)) as pilot:
        for sentence, (answer, commands) in SENTENCES.items():
            await press(pilot, "1 j k")
            keys = " ".join(_KEYS.get(character, character) for character in sentence)
            await press(pilot, f": {keys} enter {answer}".rstrip())
            assert source.applied == commands, sentence
            source.applied.clear()


async def test_one_menu_stops_spending_on_every_page() -> None:
    """It says of each way what becomes of requests in flight and of those that wait, and any other key does nothing."""
    source = FakeSource(world())
    async with screen(source, (160, 45)) as pilot:
        for page in "14":
            await press(pilot, f"{page} x")
            shown = seen(pilot, "overlay")
            for way in ("pause all", "drain", "circuit open"):
                assert re.search(rf"{way} .*(in flight|nothing)", shown), shown
            await press(pilot, "escape")
        assert source.applied == []
        for number, key in enumerate(_WAYS, 1):
            await press(pilot, f"x {key}")
            assert source.applied == [*_WAYS.values()][:number]


@pytest.mark.slow
async def test_every_label_leads_to_what_it_names() -> None:
    """Titles of panels, heads of columns and names of figures are found as they stand, and what is chosen runs."""
    async with screen(FakeSource(world()), (160, 45)) as pilot:
        labels = set[str]()
        for page in "1235":
            await press(pilot, page)
            shown = whole_screen(pilot)
            labels |= {
                title
                for title in re.findall(r"╭─ ([A-Z][a-z ]+?) ─", shown)
                if not re.match("Agent |Requests of|Tuning", title)
            }
            labels |= {head for row in shown.split("\n") if " PRIO " in row for head in re.findall(r"[A-Z]{2,}", row)}
        choices = room(pilot).choices()
        missing = {label for label in labels if not found(choices, label)}
        assert not missing
        for choice in choices:
            if choice.name in ("spend", "cost", "first token", "queue", "circuit", "stuck", "retried OK", "waits for"):
                choice.run()
                await press(pilot, "escape escape")
        await press(pilot, "1 : s p e n d")
        assert "dollars" in seen(pilot, "palette")
        await press(pilot, "enter")
        assert room(pilot).view.page == "cost"
        assert not pilot.app.query_one(Palette).is_open
