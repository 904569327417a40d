"""Who has a place, who waits for one, who is refused, and who had one before the proxy was started."""

from __future__ import annotations

from examples import of_histories
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hivemind.scheduler.places import KEPT_S, LEASE_S, Place, PlaceAnswer, PlaceLimits, Places

GRANTED = PlaceAnswer(True)
NEXT = PlaceAnswer(False, 0)


def places_of(most: int, depth: int = 0, tree: int = 0) -> Places:
    """Places with these limits."""
    return Places(PlaceLimits(most, depth, tree))


def ask(places: Places, now: float, agent: str, *above: str, running: bool = False, group: bool = False) -> PlaceAnswer:
    """With the usual priority."""
    return places.ask(now, agent, above, 2, running=running, group=group)


def test_as_many_as_may() -> None:
    """Beyond the limit the others queue by arrival; a place that is given back is the next one's."""
    places = places_of(2)
    assert [ask(places, 0, name) for name in "abcd"] == [GRANTED, GRANTED, NEXT, PlaceAnswer(False, 1)]
    assert places.leave("a")
    assert ask(places, 1, "d") == PlaceAnswer(False, 1)
    assert ask(places, 1, "c") == GRANTED
    assert not places.leave("d")
    assert places.agents == ("b", "c")


def test_priority() -> None:
    """The more urgent one is first, however late it came."""
    places = places_of(1)
    ask(places, 0, "a")
    ask(places, 0, "b")
    assert places.ask(1, "urgent", (), 0, running=False) == NEXT
    assert ask(places, 2, "b") == PlaceAnswer(False, 1)


def test_parents_lend_theirs() -> None:
    """A place is its agent's child's while it waits for that, one child's at a time and nobody else's: no tree of
    agents keeps itself from going on, and none grows in breadth by it."""
    places = places_of(1)
    assert ask(places, 0, "a") == GRANTED
    assert ask(places, 0, "b", "a") == GRANTED
    assert ask(places, 0, "c", "a") == NEXT
    assert ask(places, 0, "stranger") == PlaceAnswer(False, 1)
    assert ask(places, 0, "d", "b") == GRANTED
    assert ask(places, 1, "c", "a") == NEXT
    places.leave("d")
    assert ask(places, 1, "c", "a") == NEXT
    places.leave("b")
    assert ask(places, 2, "stranger") == PlaceAnswer(False, 1)
    assert ask(places, 2, "c", "a") == GRANTED
    places.leave("c")
    places.leave("a")
    assert ask(places, 3, "stranger") == GRANTED


def test_parents_that_left() -> None:
    """What a child leaves running has the place of whoever waited for the child, as nobody else waits for it."""
    places = places_of(1)
    ask(places, 0, "a")
    ask(places, 0, "b", "a")
    assert ask(places, 0, "c", "b") == GRANTED
    places.leave("b")
    assert places.taken == 1
    assert ask(places, 0, "d", "a") == NEXT
    places.leave("a")
    assert ask(places, 0, "d", "a") == NEXT
    places.leave("c")
    assert ask(places, 0, "d", "a") == GRANTED


def test_depth() -> None:
    """A tree may be so deep, whether those above still run or not; a batch among them doesn't count."""
    places = places_of(0, depth=3)
    for agent, *above in ("a",), ("b", "a"), ("c", "b", "a"):
        assert ask(places, 0, agent, *above) == GRANTED
        assert places.leave(agent)
    refused = ask(places, 0, "d", "c")
    assert refused == PlaceAnswer(False, refused=refused.refused)
    assert refused.refused == "the tree of a may be 3 deep (agents.max_depth), and this is a > b > c > d"
    assert ask(places, 0, "night", "b", running=True, group=True) == GRANTED
    assert ask(places, 0, "night.lint", "night") == GRANTED
    assert ask(places, 0, "deeper", "night.lint").refused


def test_size() -> None:
    """A tree may have so many processes, queued ones included, and other trees as many; a batch of the operator's isn't
    a tree, and its tasks aren't one together."""
    places = places_of(2, tree=3)
    assert ask(places, 0, "a") == GRANTED
    assert [ask(places, 0, name, "a") for name in "bc"] == [GRANTED, GRANTED]
    refused = "the tree of a has 3 processes, and may have no more (agents.max_tree)"
    assert ask(places, 0, "d", "a").refused == ask(places, 0, "e", "b").refused == refused
    assert ask(places, 0, "night", running=True, group=True) == GRANTED
    assert [ask(places, 0, f"night.{name}", "night").refused for name in "abcdef"] == [""] * 6
    places.leave("c")
    assert not ask(places, 0, "d", "a").refused


def test_no_limit() -> None:
    """Without one everybody may."""
    places = places_of(0)
    assert all(ask(places, 0, str(number)) == GRANTED for number in range(100))


def test_silence() -> None:
    """Whoever doesn't ask any more has left, from its place or from the queue."""
    places = places_of(1)
    ask(places, 0, "a")
    ask(places, 0, "b")
    ask(places, LEASE_S, "b")
    assert places.lapse(LEASE_S + 1) == ["a"]
    assert places.lapse(3 * LEASE_S) == []
    assert places.agents == ()


def test_from_before_the_proxy() -> None:
    """Those that ran when an earlier proxy ended keep their places for a while, until somebody asks for them."""
    places = places_of(2)
    places.keep(0, "a")
    places.keep(0, "b")
    assert places.agents == ()
    assert ask(places, 1, "c") == NEXT
    places.leave("a")
    assert ask(places, 2, "a", running=True) == GRANTED
    assert ask(places, 3, "c") == NEXT
    assert places.lapse(KEPT_S + 1) == ["b"]
    assert ask(places, KEPT_S + 2, "c") == GRANTED


class Trees(RuleBasedStateMachine):
    """Agents that start agents, wait for them or don't, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = PlaceLimits(2, 3, 5)
        self.places = Places(self.limits)
        self.queue: dict[str, tuple[str, ...]] = {}
        self.running: dict[str, tuple[str, ...]] = {}
        self.known: list[str] = []
        self.number = 0

    def ask(self, agent: str, above: tuple[str, ...]) -> None:
        answer = self.places.ask(0.0, agent, above, 2, running=False)
        self.queue.pop(agent, None)
        if answer.granted:
            self.running[agent] = above
        elif not answer.refused:
            self.queue[agent] = above

    @rule(data=st.data(), again=st.booleans())
    def start(self, data: st.DataObject, again: bool) -> None:
        """Start one below any that ever was there, under a new name or that of one that has ended."""
        parent = data.draw(st.sampled_from([None, *self.known]))
        ended = [name for name in self.known if name not in self.running and name not in self.queue and name != parent]
        if again and ended:
            name = data.draw(st.sampled_from(ended))
        else:
            self.number += 1
            name = str(self.number)
            self.known.append(name)
        self.ask(name, () if parent is None else (parent,))

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """Have one that queues ask again."""
        name = data.draw(st.sampled_from(sorted(self.queue)))
        self.ask(name, self.queue[name])

    @precondition(lambda self: self.running or self.queue)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """End any, whether it has children or not."""
        name = data.draw(st.sampled_from(sorted({**self.running, **self.queue})))
        assert self.places.leave(name) is (name in self.running)
        self.running.pop(name, None)
        self.queue.pop(name, None)

    @invariant()
    def bounded(self) -> None:
        """No more places are taken than there are, no tree is larger or deeper than it may be, and what runs in all is
        bounded by both."""
        found = [place for name in self.known if (place := self.places.find(name)) is not None]
        trees: dict[str, list[Place]] = {}
        for place in found:
            trees.setdefault(place.tree, []).append(place)
        assert self.places.taken <= self.limits.most
        assert len(self.running) <= self.limits.most * self.limits.depth
        assert all(len(tree) <= self.limits.tree for tree in trees.values())
        assert all(len(place.above) < self.limits.depth for place in found)

    def teardown(self) -> None:
        """Let each end as soon as those that it started have: all that queue get their turn."""
        while self.running or self.queue:
            before = set(self.running), set(self.queue)
            for name in list(self.queue):
                self.ask(name, self.queue[name])
            found = [place for name in self.known if (place := self.places.find(name)) is not None]
            waiting = {above for place in found for above in place.above}
            for place in found:
                if place.running and (place.agent, place.number) not in waiting:
                    self.places.leave(place.agent)
                    del self.running[place.agent]
            assert (set(self.running), set(self.queue)) != before, "nobody gets on any more"


TestTrees = Trees.TestCase
TestTrees.settings = of_histories(100)
