"""What the terminal itself is told of alerts: once each, by bell, notification and title, each of them an option."""

from __future__ import annotations

import pytest
from tui.kit import frame, press, room, screen, seen, whole_screen
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.scheduler.commands import Acknowledge
from hivemind.world.health import Alert, Finding, Verdict
from hivemind.world.snapshot import Snapshot
from hivemind_tui.app import ControlRoom
from hivemind_tui.render.notices import KEEP_TITLE, LONGEST, RESTORE_TITLE, Notices, NoticesWanted, title_of

ALONE = {"TERM": "xterm-256color"}
KITTY = {"TERM": "xterm-kitty"}
DEATH = Alert(1, "died", "ann", "ann died (exit code 3)", 1.0)
SPENDING = Alert(2, "spend", "", "$12.00 an hour are spent; more than $10.00", 2.0)


def with_alerts(*alerts: Alert) -> Snapshot:
    return replace(world(), alerts=alerts)


def told(wanted: NoticesWanted, *snapshots: Snapshot, environment: dict[str, str] = ALONE) -> list[str]:
    """What is written after each."""
    notices = Notices(wanted, environment)
    return [notices.look(snapshot) for snapshot in snapshots]


SILENT = NoticesWanted(bell=False, desktop=False, title=False)


def test_only_a_new_alert_rings_and_only_once() -> None:
    """What was there when the screen came, what goes on, what is over and what somebody has seen doesn't."""
    bell = replace(SILENT, bell=True)
    steps = [with_alerts(DEATH), with_alerts(DEATH), with_alerts(SPENDING, DEATH), with_alerts(SPENDING, DEATH)]
    assert told(bell, *steps) == ["", "", "\a", ""]
    seen, over = replace(DEATH, acknowledged="ops"), replace(DEATH, over=True)
    assert told(bell, with_alerts(), with_alerts(seen)) == told(bell, with_alerts(), with_alerts(over)) == ["", ""]
    assert told(bell, with_alerts(DEATH), with_alerts(), with_alerts(replace(DEATH, number=7))) == ["", "", "\a"]


def test_a_terminal_is_notified_in_its_own_way() -> None:
    desktop, steps = replace(SILENT, desktop=True), (with_alerts(), with_alerts(SPENDING))
    text = "$12.00 an hour are spent; more than $10.00"
    assert told(desktop, *steps)[1] == f"\x1b]777;notify;HiveMind;{text.replace(';', ',')}\x1b\\"
    assert told(desktop, *steps, environment=KITTY)[1] == f"\x1b]9;HiveMind: {text}\a"
    wrapped = told(desktop, *steps, environment={"TERM": "tmux-256color", "TMUX": "/tmp/tmux"})[1]
    assert wrapped == f"\x1bPtmux;\x1b\x1b]9;HiveMind: {text}\a\x1b\\"
    several = told(desktop, with_alerts(), with_alerts(SPENDING, DEATH), environment=KITTY)[1]
    assert several.endswith("(and 1 more)\a")


@pytest.mark.parametrize("environment", [ALONE, KITTY])
def test_no_name_ends_or_begins_an_escape_sequence(environment: dict[str, str]) -> None:
    evil = replace(DEATH, text="a\x1b]0;pwned\a b\x9c\x9d c\n" + "x" * 500)
    found = told(replace(SILENT, desktop=True), with_alerts(), with_alerts(evil), environment=environment)[1]
    inside = found.removeprefix("\x1b").removesuffix("\a").removesuffix("\x1b\\")
    assert inside.isprintable()
    assert len(inside) < LONGEST + 40
    cause = Finding("degraded", "agent_died", "a\x1b\\b\a died")
    assert title_of(Verdict("degraded", (cause,))).isprintable()


def test_the_title_is_the_verdict_and_is_given_back() -> None:
    notices = Notices(replace(SILENT, title=True), ALONE)
    assert notices.at_end == ""
    healthy = replace(world(), verdict=Verdict())
    blocked = replace(world(), verdict=Verdict("blocked", (Finding("blocked", "circuit_open", "circuit open"),)))
    assert notices.look(healthy) == f"{KEEP_TITLE}\x1b]2;HEALTHY - HiveMind\x1b\\"
    assert notices.look(healthy) == ""
    assert notices.look(blocked) == "\x1b]2;BLOCKED circuit open - HiveMind\x1b\\"
    assert notices.at_end == RESTORE_TITLE


@pytest.mark.parametrize("term", ["linux", "vt220", "dumb"])
def test_a_console_only_rings(term: str) -> None:
    """It would print the rest."""
    assert told(NoticesWanted(), with_alerts(), with_alerts(DEATH), environment={"TERM": term}) == ["", "\a"]


def test_another_proxys_alerts_are_not_new() -> None:
    notices = Notices(replace(SILENT, bell=True), ALONE)
    notices.look(with_alerts())
    notices.forget()
    assert notices.look(with_alerts(DEATH)) == ""


async def test_a_screen_writes_it_to_its_terminal_and_shows_the_count() -> None:
    """Also while the view is frozen."""
    source = FakeSource(with_alerts())
    async with screen(source, size=(160, 45), notices=NoticesWanted(title=False)) as pilot:
        written: list[str] = []
        driver = pilot.app._driver
        assert driver is not None
        driver.write = written.append  # type: ignore[assignment,method-assign]
        source.become(with_alerts(SPENDING, DEATH))
        await frame(pilot)
        assert "2 alerts" in whole_screen(pilot)
        await pilot.press("v")
        source.become(with_alerts(replace(DEATH, number=3, text="bob died"), SPENDING, DEATH))
        await frame(pilot)
        assert [text for text in written if "\a" in text] == [
            "\a\x1b]777;notify;HiveMind;$12.00 an hour are spent, more than $10.00 (and 1 more)\x1b\\",
            "\a\x1b]777;notify;HiveMind;bob died\x1b\\",
        ]
        assert isinstance(room(pilot), ControlRoom)


async def test_a_key_lists_and_acknowledges_what_is_shown() -> None:
    """One by one, so that none is that came a moment ago; many at once. The list has those that were acknowledged."""
    source = FakeSource(with_alerts(SPENDING, DEATH))
    async with screen(source, (80, 24)) as pilot:
        await press(pilot, "A")
        assert source.applied == []
        assert all(alert.text in seen(pilot, "overlay") for alert in (SPENDING, DEATH))
        await press(pilot, "A")
        assert source.applied == [Acknowledge("", "spend"), Acknowledge("ann", "died")]
        source.become(with_alerts(*(replace(DEATH, number=n, about=f"a{n}") for n in range(9))))
        await press(pilot, "A A")
        assert source.applied[2:] == [Acknowledge()]
        source.become(with_alerts(replace(DEATH, acknowledged="you")))
        await frame(pilot)
        await press(pilot, "A")
        assert "seen by you" in seen(pilot, "overlay")
        await press(pilot, "A")
        assert len(source.applied) == 3
