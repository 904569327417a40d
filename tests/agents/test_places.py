"""Who has a place, who waits for one, and who had one before the proxy was started."""

from __future__ import annotations

from hivemind.scheduler.places import KEPT_S, LEASE_S, Places


def ask(
    places: Places, now: float, agent: str, *, parent: str | None = None, running: bool = False
) -> tuple[bool, int]:
    """With the usual priority."""
    return places.ask(now, agent, parent, 2, running=running)


def test_as_many_as_may() -> None:
    """Beyond the limit the others queue by arrival; a place that is given back is the next one's."""
    places = Places(2)
    assert [ask(places, 0, name) for name in "abcd"] == [(True, 0), (True, 0), (False, 0), (False, 1)]
    assert places.leave("a")
    assert ask(places, 1, "d") == (False, 1)
    assert ask(places, 1, "c") == (True, 0)
    assert not places.leave("d")
    assert places.agents == ("b", "c")


def test_priority() -> None:
    """The more urgent one is first, however late it came."""
    places = Places(1)
    ask(places, 0, "a")
    ask(places, 0, "b")
    assert places.ask(1, "urgent", None, 0, running=False) == (False, 0)
    assert ask(places, 2, "b") == (False, 1)


def test_parents_lend_theirs() -> None:
    """A place is free while its agent waits for a child that runs or queues, for whoever is next: no tree of agents
    keeps itself from going on."""
    places = Places(1)
    assert ask(places, 0, "a") == (True, 0)
    assert ask(places, 0, "b", parent="a") == (True, 0)
    assert ask(places, 0, "c", parent="a") == (False, 0)
    assert ask(places, 0, "d", parent="b") == (False, 1)
    assert ask(places, 1, "c", parent="a") == (True, 0)
    assert ask(places, 1, "d", parent="b") == (False, 0)
    places.leave("c")
    assert ask(places, 2, "d", parent="b") == (True, 0)


def test_no_limit() -> None:
    """Without one everybody may."""
    assert all(ask(Places(0), 0, str(number)) == (True, 0) for number in range(100))


def test_silence() -> None:
    """Whoever doesn't ask any more has left, from its place or from the queue."""
    places = Places(1)
    ask(places, 0, "a")
    ask(places, 0, "b")
    ask(places, LEASE_S, "b")
    assert places.lapse(LEASE_S + 1) == ["a"]
    assert places.lapse(3 * LEASE_S) == []
    assert places.agents == ()


def test_from_before_the_proxy() -> None:
    """Those that ran when an earlier proxy ended keep their places for a while, until somebody asks for them."""
    places = Places(2)
    places.keep(0, "a")
    places.keep(0, "b")
    assert places.agents == ()
    assert ask(places, 1, "c") == (False, 0)
    places.leave("a")
    assert ask(places, 2, "a", running=True) == (True, 0)
    assert ask(places, 3, "c") == (False, 0)
    assert places.lapse(KEPT_S + 1) == ["b"]
    assert ask(places, KEPT_S + 2, "c") == (True, 0)
