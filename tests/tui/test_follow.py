"""The requests of a proxy elsewhere."""

from __future__ import annotations

from control.kit import FakeProxy
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from world.kit import arrived, finished, granted

from hivemind import __version__
from hivemind.api_types import RequestsPart
from hivemind.world.snapshot import REQUESTS_KEPT, RequestView
from hivemind_tui.sources.remote import RequestFeed


def hear(followed: RequestFeed, proxy: FakeProxy) -> None:
    """All there is to hear."""
    assert proxy.control_key is not None
    more = True
    while more:
        run = proxy.control_key.run
        found = proxy.requests(followed.revision if followed.run == run else 0)
        more = followed.receive(RequestsPart(run, __version__, found.revision, found.oldest, found.changed))


class Asker:
    """Collects what it is told, as the contract says."""

    def __init__(self) -> None:
        self.revision = 0
        self.known: dict[int, RequestView] = {}

    def ask(self, followed: RequestFeed) -> int:
        """Until nothing is left; how often it took."""
        times = 0
        while True:
            times += 1
            news = followed.since(self.revision)
            done = news.revision == self.revision
            self.revision = news.revision
            if self.revision < 0:
                self.revision, self.known = 0, {}
                continue
            self.known.update((view.ticket, view) for view in news.changed)
            self.known = {number: view for number, view in self.known.items() if number >= news.oldest}
            if done:
                return times


STEPS = st.sampled_from(["arrive", "arrive", "finish", "hear and ask", "hear", "ask", "restart"])


@given(st.lists(STEPS, min_size=20, max_size=60))
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_the_asker_knows_all(steps: list[str]) -> None:
    """Whoever asks now and then knows just what the proxy does, however often it starts anew."""
    proxy, followed, asker = FakeProxy(), RequestFeed(), Asker()
    number, opened, runs = 0, list[int](), 1
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
        elif step == "hear and ask":
            hear(followed, proxy)
            asker.ask(followed)
        elif step == "ask":
            asker.ask(followed)
        elif step == "restart":
            runs, number, opened = runs + 1, 0, []
            proxy = FakeProxy(run=f"run-{runs}")
    hear(followed, proxy)
    asker.ask(followed)
    assert tuple(asker.known[number] for number in sorted(asker.known)) == proxy.requests(0).changed


def test_started_anew() -> None:
    """Whoever knew requests of an earlier run is told that all are forgotten, and begins again."""
    proxy, followed, asker = FakeProxy(arrived(1), arrived(2)), RequestFeed(), Asker()
    hear(followed, proxy)
    asker.ask(followed)
    hear(followed, FakeProxy(arrived(1, "bob"), run="run-2"))
    asker.ask(followed)
    assert [(view.ticket, view.agent) for view in asker.known.values()] == [(1, "bob")]


def test_forgotten_over_there() -> None:
    """What the proxy has forgotten is forgotten here, and told so."""
    followed = RequestFeed()
    views = FakeProxy(arrived(1), arrived(2), arrived(3)).requests(0).changed
    followed.receive(RequestsPart("run", __version__, 3, 1, views))
    followed.receive(RequestsPart("run", __version__, 3, 3, ()))
    told = followed.since(0)
    assert (told.oldest, [view.ticket for view in told.changed]) == (3, [3])


def test_nothing_heard_yet() -> None:
    """Whoever asks before anything was heard begins at 0 the next time too."""
    assert (RequestFeed().since(0).revision, RequestFeed().since(0).changed) == (0, ())


def test_bounded() -> None:
    """An old request that is still open keeps its place, and what ended longest ago is forgotten all the same."""
    proxy, followed = FakeProxy(arrived(1)), RequestFeed()
    for number in range(2, 3 * REQUESTS_KEPT):
        proxy.happens(arrived(number, at=float(number)), finished(number, at=float(number)))
        if number % 100 == 0:
            hear(followed, proxy)
    hear(followed, proxy)
    asker = Asker()
    asker.ask(followed)
    assert min(asker.known) == 1
    assert max(asker.known) == 3 * REQUESTS_KEPT - 1
    assert REQUESTS_KEPT < len(asker.known) < REQUESTS_KEPT + 300
    assert sorted(asker.known)[1] > 2 * REQUESTS_KEPT - 300
