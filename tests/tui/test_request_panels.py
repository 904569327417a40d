"""The pages of requests, of one agent and of one request: each panel as text, at every size, whatever happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tui.courses import AT, cases, of_agent, of_all, of_request
from tui.kit import text
from tui.worlds import empty_world, world

from hivemind.records import replace
from hivemind.scheduler.types import Usage
from hivemind_tui.commands import navigation
from hivemind_tui.panels import agent_page, request_page, request_table
from hivemind_tui.render.bars import ending
from hivemind_tui.render.glyphs import ASCII
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.lists import SortOrder
from hivemind_tui.state.view import View
from hivemind_tui.widgets.line_table import Render

PLAIN = Pen()
RENDERS: dict[str, tuple[Render, Callable[[], View]]] = {
    "agent_facts": (agent_page.render_card, of_agent),
    "agent_tokens": (agent_page.render_tokens, of_agent),
    "waterfall": (request_table.render_waterfall, of_agent),
    "request_table": (request_table.render, of_all),
    "request_card": (request_page.render_card, of_all),
    "request_timeline": (request_page.render_timeline, lambda: of_request("often")),
    "decisions": (request_page.render_decisions, lambda: of_request("answered")),
    "headers": (request_page.render_headers, lambda: of_request("answered")),
}
SIZES = {
    "agent_facts": {"80x24": (80, 6), "160x45": (80, 12)},
    "agent_tokens": {"160x45": (80, 12)},
    "waterfall": {"80x24": (80, 15), "160x45": (160, 30)},
    "request_table": {"80x24": (80, 16), "160x45": (160, 20)},
    "request_card": {"80x24": (80, 5), "160x45": (160, 7)},
    "request_timeline": {"80x24": (80, 9), "160x45": (160, 17)},
    "decisions": {"80x24": (80, 6), "160x45": (80, 12)},
    "headers": {"80x24": (80, 6), "160x45": (80, 18)},
}
"""By panel and size of the screen, its cells and rows there."""
AGREED = [(name, screen) for name, sizes in SIZES.items() for screen in sizes]


@pytest.mark.parametrize(("name", "screen"), AGREED)
def test_panel_looks_as_agreed(name: str, screen: str, golden: Callable[[str, str], None]) -> None:
    """Each panel at each size is what was looked at and found good."""
    render, view = RENDERS[name]
    width, height = SIZES[name][screen]
    golden(f"{name}_{screen}", text(render(view(), width, height, replace(PLAIN, boxed=screen == "160x45"))))


@pytest.mark.parametrize("name", [name for name in cases() if name not in ("hostile", "from tomorrow", "odd")])
def test_course_looks_as_agreed(name: str, golden: Callable[[str, str], None]) -> None:
    """Under the table and on its own page, for everything that can become of a request."""
    view = of_request(name)
    card = text(request_page.render_card(view, 120, 7, PLAIN))
    page = text(request_page.render_timeline(view, 120, 12, PLAIN))
    golden(f"course_{name.replace(' ', '_')}", f"{card}\n{page}")


@pytest.mark.parametrize("name", RENDERS)
def test_panel_fills_its_place_exactly(name: str) -> None:
    """Whatever the size and the request, a panel answers as many rows as it has, each exactly as wide as it is."""
    render = RENDERS[name][0]
    views = [of_request(case) for case in cases()] + [of_agent(), of_all(), View(empty_world()), View(world())]
    views += [replace(of_request("often"), scroll=n) for n in (-3, 7, 10**6)] + [replace(of_all(), ticket=206)]
    sizes = ((0, 0), (1, 1), (9, 3), (20, 6), (79, 8), (200, 41))
    for number, view in enumerate(views):
        for width, height in sizes[number % 2 :: 2]:
            rows = render(view, width, height, replace(PLAIN, boxed=height % 2 == 1))
            assert [row.cell_length for row in rows] == [width] * height
            assert all(row.text.isprintable() for row in rows)


@pytest.mark.parametrize("name", RENDERS)
def test_panel_in_ascii(name: str) -> None:
    """On a console without the font for it, no character outside ASCII is drawn."""
    render, view = RENDERS[name]
    for case in (view(), of_request("queued"), of_request("pausing"), View(empty_world())):
        assert text(render(case, 120, 14, replace(PLAIN, glyphs=ASCII))).isascii()


@pytest.mark.parametrize("name", RENDERS)
def test_panel_before_the_first_request(name: str) -> None:
    """An empty panel says what will appear there, or why nothing does, rather than nothing."""
    rows = RENDERS[name][0](View(empty_world()), 80, 6, PLAIN)
    assert rows[1].text.strip(" │").endswith(".")


def test_selected_request_is_always_in_sight() -> None:
    """However far down it is, and marked by more than a colour, in the table and in the waterfall."""
    every = of_all(200)
    for request in every.listed[::17]:
        for render in (request_table.render, request_table.render_waterfall):
            rows = text(render(replace(every, ticket=request.ticket), 160, 8, PLAIN)).splitlines()
            assert [f"#{request.ticket} " in row for row in rows if "▌" in row] == [True]


def test_a_click_picks_a_request() -> None:
    """A row is a link to its request, a head to its order."""
    for render, view in ((request_table.render, of_all()), (request_table.render_waterfall, of_agent())):
        rows = render(view, 160, 12, PLAIN)
        actions = [{style.meta.get("@click") for _, style, _ in row if style is not None} - {None} for row in rows]
        assert f"app.pick('ticket', {view.listed[1].ticket})" in actions[3]
        assert "app.sort_by('took')" in actions[1]


def test_what_a_list_is_sorted_by_is_told() -> None:
    """Whether the column is shown or not."""
    view = replace(of_all(), requests_order=SortOrder("opus", "cost", True))
    assert "by cost" in text(request_table.render(view, 80, 9, PLAIN))
    assert "/opus" in text(request_table.render(view, 80, 9, PLAIN))
    assert "sorted by cost" in text(request_table.render(view, 160, 9, PLAIN))
    own = replace(of_agent(), requests_order=SortOrder("opus", "waited", True))
    assert "by waited · /opus" in text(request_table.render_waterfall(own, 160, 9, PLAIN))


def test_nothing_fits_the_filter() -> None:
    """The lists say so, and how to get rid of it."""
    view = replace(of_all(), requests_shown=(), requests_order=SortOrder("nobody"))
    for render in (request_table.render, request_table.render_waterfall):
        assert "esc clears it" in text(render(view, 80, 9, PLAIN))


def test_wait_that_goes_on_counts() -> None:
    """A request that still stands in the queue shows how long, though no grant has ended that wait."""
    row = next(row for row in text(request_table.render(of_all(), 160, 9, PLAIN)).splitlines() if "#202" in row)
    assert row.count("41s") == 2


def test_the_output_of_a_retried_stream_is_that_of_its_present_attempt() -> None:
    """In its row as on its cards: what the failed attempt has stated is no part of the answer."""
    view = of_request("streaming")
    assert view.request is not None
    one = replace(view.request, usage=Usage(9, 1), output_tokens=142, ended_at=None)
    view = replace(view, requests=(one,), requests_shown=(one,))
    for render in (request_table.render, request_page.render_card, request_page.render_timeline):
        assert "≈142" in text(render(view, 160, 12, PLAIN))


def test_forgotten_request() -> None:
    """Neither remembered nor told of: the page says so, and doesn't show another one instead."""
    view = replace(of_all(), trail=("requests", "request"), ticket=7_777)
    assert "#7777 is forgotten" in text(request_page.render_timeline(view, 100, 9, PLAIN))
    for render in (request_page.render_decisions, request_page.render_headers):
        assert "Forgotten." in text(render(view, 100, 9, PLAIN))


def test_details_that_are_not_there_yet() -> None:
    """What the list knows is shown at once, the rest is being asked for; details of another request don't count."""
    for detail in (None, of_request("often").detail):
        view = replace(of_request("answered"), detail=detail)
        assert "Request #207 of alice" in text(request_page.render_timeline(view, 100, 9, PLAIN))
        for render in (request_page.render_decisions, request_page.render_headers):
            assert "Asking…" in text(render(view, 100, 9, PLAIN))


def test_headers_that_nobody_remembers() -> None:
    """Only the newest are kept: an older request says so."""
    view = of_request("answered")
    assert view.detail is not None
    bare = replace(view.detail, method="", path="", request_headers=(), response_headers=())
    assert "newest requests only" in text(request_page.render_headers(replace(view, detail=bare), 100, 9, PLAIN))
    waits = replace(view.detail, response_headers=())
    assert "Response  none yet" in text(request_page.render_headers(replace(view, detail=waits), 100, 19, PLAIN))


def test_scrolling_the_request_page_ends() -> None:
    """It goes no further than the lists do, and back from there; other pages' lists start at the top."""
    view = of_request("often")
    assert view.detail is not None
    end = navigation.edge(view, -1)
    assert end.scroll == len(view.detail.decisions) - 1
    assert navigation.move(end, -1).scroll == end.scroll - 1
    assert navigation.move(replace(view, detail=None), 5).scroll == 0
    last = text(request_page.render_decisions(end, 80, 8, PLAIN)).splitlines()
    assert "answered after" in last[-2]


def test_tokens_are_counted_once() -> None:
    """However an answer's output is spread over the bars, together they are what it used."""
    view = of_agent()
    for width in (20, 80, 190):
        axis = ending(AT - 130, AT, width)
        taken, given = agent_page.spent(view.listed, axis, AT)
        used = [request.usage for request in view.listed if request.usage is not None]
        assert sum(taken) == sum(usage.total_input for usage in used)
        assert sum(given) == pytest.approx(sum(usage.output_tokens for usage in used) + 1510)


def test_bars_show_whatever_there_is() -> None:
    """The highest fills its place, a little is a little, nothing is nothing."""
    assert agent_page.bars([0, 1, 500, 1000], 1000, 2, " ▁▂▃▄▅▆▇█") == ["   █", " ▁██"]
    assert agent_page.bars([0, 0], 0, 1, " .#") == ["  "]


def test_agent_without_budget_or_errors() -> None:
    """What there isn't is said, and how to have it."""
    full = world()
    agent = replace(full.agents[0], budget=None, dollars=0.0, finished=0, last_error="")
    rows = text(agent_page.render_card(View(replace(full, agents=(agent,))), 100, 12, PLAIN))
    assert "no budget, B gives it one" in rows
    assert "none among the remembered requests" in rows
    assert "— a request" in rows
