"""The requests of a world, collected page by page."""

from __future__ import annotations

from control.kit import FakeProxy
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from world.kit import arrived, finished, granted

from hivemind.world.snapshot import REQUESTS_KEPT, REQUESTS_PAGE
from hivemind_tui.sources.base import RequestList


def hear(followed: RequestList, proxy: FakeProxy) -> None:
    """All there is to hear."""
    more = True
    while more:
        page = proxy.requests(followed.revision)
        followed.update(page)
        more = len(page.changed) == REQUESTS_PAGE


STEPS = st.sampled_from(["arrive", "arrive", "finish", "hear", "restart"])


@given(st.lists(STEPS, min_size=20, max_size=60))
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_the_list_knows_all(steps: list[str]) -> None:
    """It knows just what the proxy does, however often that starts anew, newest first."""
    proxy, followed = FakeProxy(), RequestList()
    number, opened = 0, list[int]()
    for step in steps:
        proxy.at += 1
        if step == "arrive":
            number += 1
            opened.append(number)
            proxy.happens(arrived(number, at=proxy.at), granted(number, at=proxy.at))
        elif step == "finish" and opened:
            proxy.happens(finished(opened.pop(0), at=proxy.at))
        elif step == "hear":
            hear(followed, proxy)
        elif step == "restart":
            number, opened, proxy = 0, [], FakeProxy()
            followed.clear()
    hear(followed, proxy)
    assert followed.all[::-1] == proxy.requests(0).changed
    before = followed.all
    hear(followed, proxy)
    assert followed.all is before


def test_pages() -> None:
    """Very many come a page at a time, those that changed first before others."""
    proxy, followed = FakeProxy(*(arrived(number) for number in range(1, 2 * REQUESTS_PAGE + 2))), RequestList()
    followed.update(proxy.requests(0))
    assert [view.ticket for view in followed.all[::-1]] == list(range(1, REQUESTS_PAGE + 1))
    hear(followed, proxy)
    assert len(followed.all) == 2 * REQUESTS_PAGE + 1


def test_bounded() -> None:
    """An old request that is still open keeps its place, and what ended longest ago is forgotten all the same."""
    proxy, followed = FakeProxy(arrived(1)), RequestList()
    for number in range(2, 3 * REQUESTS_KEPT):
        proxy.happens(arrived(number, at=float(number)), finished(number, at=float(number)))
        if number % 100 == 0:
            hear(followed, proxy)
    hear(followed, proxy)
    known = [view.ticket for view in followed.all]
    assert (known[-1], known[0]) == (1, 3 * REQUESTS_KEPT - 1)
    assert REQUESTS_KEPT < len(known) < REQUESTS_KEPT + 300
    assert known[-2] > 2 * REQUESTS_KEPT - 300


def test_a_request_that_ended_unseen_is_forgotten() -> None:
    """One that was open when it was last heard of goes once the proxy has forgotten it."""
    proxy, followed = FakeProxy(arrived(1)), RequestList()
    hear(followed, proxy)
    proxy.happens(finished(1, at=1.0))
    for number in range(2, 3 * REQUESTS_KEPT):
        proxy.happens(arrived(number, at=float(number)), finished(number, at=float(number)))
    hear(followed, proxy)
    assert followed.all[-1].ticket > REQUESTS_KEPT - 1
