"""Several upstreams at once: a row each, one in focus, at every size and by key and mouse."""

from __future__ import annotations

import pytest
from tui.kit import frame, press, screen, seen, settle, whole_screen
from tui.lanes import several, several_source
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.health import Finding, Verdict
from hivemind.world.snapshot import LaneView
from hivemind.world.verdict import judged
from hivemind_tui.panels import lanes, slots
from hivemind_tui.panels.lanes import short_name
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

SIZES = ((80, 24), (160, 45))


def rows_of(count: int, width: int = 158, height: int = 6, index: int = 0) -> list[str]:
    view = View(several(count), lane_index=index)
    return [row.text for row in lanes.render(view, width, height, Pen())]


def test_each_lane_has_a_row_with_what_it_does() -> None:
    """Name and key, state, what is in flight and waits, and of its windows those left, the first to run out first."""
    first, second = rows_of(2)[2:4]
    assert "▌ anthropic:3f9c21aa  ● ok" in first
    assert "2 of 8" in first
    assert "out in 9.0s  in 82k/400k" in first
    assert "openai:77de40b11    ✕ open 3.7s" in second
    assert "4 of 6" in second
    assert "out in" not in second
    assert "▅▅▅" in first


def test_a_lane_that_the_verdict_calls_failing_is_not_ok() -> None:
    """Its circuit still lets requests through."""
    snapshot = several(2)
    name = snapshot.lanes[0].state.lane
    told = Finding("degraded", "errors", "40 % of attempts fail", name)
    for finding, word in ((told, "▲ failing"), (replace(told, severity="note"), "● ok")):
        view = View(replace(snapshot, verdict=Verdict("degraded", (finding,))))
        rows = lanes.render(view, 158, 6, Pen())
        assert f"{name}  {word}" in rows[2].text


@pytest.mark.parametrize("lanes", [1, 2])
async def test_the_smallest_screen_has_room_for_five_agents(lanes: int) -> None:
    """Also below two lanes, whose windows then share a row of words."""
    async with screen(several_source(lanes), size=(80, 24)) as pilot:
        agents = seen(pilot, "agents").splitlines()
        assert len([row for row in agents[2:] if row.strip()]) >= 5
        assert len(seen(pilot, "events").splitlines()) == 3
        assert ("req 19 of 50 left, runs out in 9.0s" in seen(pilot, "windows")) is (lanes > 1)
        assert " ? help" in whole_screen(pilot).splitlines()[-1]


def test_a_long_name_keeps_the_tail_of_its_key() -> None:
    """It is what tells two keys of one upstream apart."""
    assert short_name("anthropic-production:3f9c21aa", 18) == "anthropic-pr…:21aa"
    assert short_name("a:3f9c21aa", 18) == "a:3f9c21aa"
    assert len(short_name("without-any-key-at-all", 18)) == 18


def named(panel: str, size: tuple[int, int]) -> str:
    """The upstream whose slots a panel shows, which a small one tells with what each other has in flight."""
    head = panel.splitlines()[0]
    if size == (80, 24):
        return head.partition("Requests ")[2].strip("─ ").split()[0].partition(":")[0]
    return next(name for name in ("anthropic", "openai") if f"{name}:" in head)


async def test_all_lanes_are_on_the_first_screen() -> None:
    """At each size, with the details of one below, which tab changes; titles say which. One lane needs no list."""
    source = several_source()
    async with screen(source, SIZES[0]) as pilot:
        for size in SIZES:
            await pilot.resize_terminal(*size)
            for count, name in ((2, "anthropic"), (12, "openai")):
                source.become(several(count))
                await frame(pilot)
                await frame(pilot)
                assert "anthropic:3f9c21aa" in whole_screen(pilot)
                assert f"{count} lanes" in seen(pilot, "lanes")
                assert named(seen(pilot, "slots"), size) == name
                assert any("▌" in row and f"{name}:" in row for row in seen(pilot, "lanes").splitlines())
                await press(pilot, "tab" if count == 2 else "@lane_back")
            for panel in ("slots", "agents", "events"):
                assert pilot.app.query_one(f"#{panel}").size.height > 1
            source.become(world())
            await frame(pilot)
            assert not pilot.app.query_one("#lanes").is_on_screen


@pytest.mark.parametrize("count", [2, 4])
def test_a_small_screen_tells_what_each_lane_has_in_flight(count: int) -> None:
    """Its panel lists the slots of one; by upstream where that tells lanes apart, else with the key's last letters."""
    view = View(several(count))
    head = slots.render(view, 160, 8, Pen(boxed=False))[0].text
    for lane in view.snapshot.lanes:
        in_flight = f"{lane.state.active} of {int(lane.state.level)}"
        key = "" if count == 2 else f":{lane.state.lane[-4:]}"
        assert f"{lane.state.upstream}{key} {in_flight}" in head
    assert "queued" in head


async def test_the_key_that_gives_a_circuit_back_is_that_of_its_lane() -> None:
    """`c` is about the lane in focus, so before it stands the key that leads to another one."""
    full = several(2)
    one, two = full.lanes
    forced = replace(two.state, circuit="open", circuit_forced=True, active=0)
    source = FakeSource(judged(replace(full, lanes=(one, LaneView(forced, ())))))
    async with screen(source, size=(160, 45)) as pilot:
        text = "openai:77de40b11: circuit forced open, until you set it to automatic"
        assert f"{text} (tab c)" in seen(pilot, "header")
        await press(pilot, "tab")
        assert f"{text} (c)" in seen(pilot, "header")


async def test_a_click_focuses_a_lane() -> None:
    """On its row; the header is about the whole proxy, with the slots of all and how many lanes are held up."""
    async with screen(several_source(), size=(160, 45)) as pilot:
        await pilot.click("#lanes", offset=(10, 3))
        await settle(pilot)
        assert "openai:77de40b11" in seen(pilot, "slots").splitlines()[0]
        assert "in flight 6/14" in seen(pilot, "header")
        assert "1 of 2 lanes held up" in seen(pilot, "header")
