"""Agents under those that started them."""

from __future__ import annotations

import pytest
from tui.graph import processes
from tui.worlds import FakeSource, world

from hivemind.records import replace
from hivemind.world.order import gravest_first
from hivemind.world.snapshot import AgentView
from hivemind_tui.panels import agent_table
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.lists import SortOrder
from hivemind_tui.state.tree import Branch, branched
from hivemind_tui.state.view import View, ViewBuilder

ANY = world().agents[0]


def family(**parents_: str) -> tuple[AgentView, ...]:
    """Agents by name, each with its parent's; empty: none."""
    return tuple(replace(ANY, name=name, parent=parent or None) for name, parent in parents_.items())


def names(agents: tuple[AgentView, ...]) -> str:
    """In a row."""
    return " ".join(agent.name for agent in agents)


@pytest.mark.parametrize(
    ("agents", "shown"),
    [
        (family(a="", b="", c="a", d="c", e="a"), "a c d e b"),
        (family(c="a", a="", b=""), "a c b"),
        (family(a="gone", b="a"), "a b"),
        (family(a="a", b=""), "a b"),
        (family(a="b", b="a", c=""), "c a b"),
        ((), ""),
    ],
    ids=["families", "child first", "parent unknown", "own parent", "circle", "nobody"],
)
def test_children_stand_under_their_parents(agents: tuple[AgentView, ...], shown: str) -> None:
    """Each agent once, whatever they say of each other."""
    assert names(branched(agents, SortOrder())[0]) == shown


def test_those_that_ended_are_last() -> None:
    """Below all others, unless one that they started, however deep, goes on; what needs a look is first."""
    agents = family(a="", b="", c="b", d="c", e="", f="", g="h", h="g")
    ended = {
        name: replace(agent, running=False, state="idle", in_flight=0) for agent in agents for name in [agent.name]
    }
    known = [ended[name] if name in "abcfgh" else agent for name, agent in zip("abcdefgh", agents, strict=True)]
    known[5] = replace(known[5], state="spent")
    quiet = replace(ANY, name="i", running=None, state="idle", in_flight=0, requests=0)
    known = [quiet, replace(quiet, name="j", requests=1), replace(quiet, name="k", requests=1, state="ended"), *known]
    assert names(tuple(gravest_first(known))) == "f j d e b c i k a g h"
    assert gravest_first(agents) is agents


GRAVITY = {
    "fine": {"state": "streaming", "in_flight": 1},
    "gone": {"state": "ended", "in_flight": 0},
    "idle": {"state": "idle", "in_flight": 0, "last_seen_s": 900.0},
    "between": {"state": "idle", "in_flight": 0, "last_seen_s": 3.0},
    "patient": {"state": "queued", "in_flight": 0, "queued": 1, "waiting_s": 14.0},
    "late": {"state": "queued", "in_flight": 0, "queued": 1, "waiting_s": 44.0},
    "later": {"state": "retry", "in_flight": 0, "queued": 1, "waiting_s": 130.0},
    "half": {"state": "streaming", "in_flight": 1, "queued": 1, "waiting_s": 59.0},
    "refused": {"state": "refused", "in_flight": 0},
    "spent": {"state": "spent", "in_flight": 0},
    "dead": {"state": "died", "in_flight": 0, "exit_code": 3},
}
CREW = tuple(replace(ANY, **{"name": name, "queued": 0, **changes}) for name, changes in GRAVITY.items())  # type: ignore[arg-type]


def test_what_needs_a_look_is_first() -> None:
    """Died, refused or without budget, those that wait for long by how long, the rest, and at last what ended."""
    assert names(tuple(gravest_first(CREW))) == "dead refused spent later late half fine between patient idle gone"


def test_rows_stay_where_they_are_while_little_changes() -> None:
    """Waits count by coarse steps, and an agent between two of its turns isn't idle yet."""
    before = names(tuple(gravest_first(CREW)))
    for wait in range(31, 59):
        moved = [replace(agent, waiting_s=float(wait)) if agent.name == "late" else agent for agent in CREW]
        assert names(tuple(gravest_first(moved))) == before
    turn = [
        replace(agent, state="idle", in_flight=0, last_seen_s=20.0) if agent.name == "fine" else agent for agent in CREW
    ]
    assert names(tuple(gravest_first(turn))) == before


def test_trees_stay_together_and_stand_where_their_gravest_would() -> None:
    """However deep that is; in a flat list each stands for itself."""
    dead = CREW[-1]
    agents = [*family(quiet="", a="", b="a", c="b", d="a"), replace(dead, name="e", parent="c"), *family(f="")]
    agents = [agent if agent.name == "e" else replace(agent, state="idle", in_flight=0, queued=0) for agent in agents]
    assert names(branched(gravest_first(agents, tree=True), SortOrder())[0]) == "a b c e d quiet f"
    assert names(tuple(gravest_first(agents))).split()[0] == "e"
    ring = [replace(agent, parent={"late": "fine", "fine": "late"}.get(agent.name)) for agent in CREW]
    assert names(tuple(gravest_first(ring, tree=True))[:5]) == "dead refused spent later fine"


def test_what_is_pinned_is_first_in_any_order() -> None:
    """With its tree, and by whatever column the others are sorted."""
    agents = family(m="", z="m", b="m", a="", y="a", k="")
    assert names(branched(agents, SortOrder(sort="name"), pinned=frozenset({"z"}))[0]) == "m z b a y k"
    source = FakeSource(replace(world(), agents=agents))
    for tree, shown in ((False, "y k m z b a"), (None, "a y k m z b")):
        view = View(source.snapshot(), pinned=frozenset({"k", "y"}), tree=tree)
        assert names(ViewBuilder().look(view, source).agents) == shown


def test_siblings_are_sorted_among_themselves() -> None:
    """Families stay together whichever way the list is turned."""
    agents = family(m="", z="m", b="m", a="", y="a")
    up, _ = branched(agents, SortOrder(sort="name"))
    down, _ = branched(agents, SortOrder(sort="name", reverse=True))
    assert (names(up), names(down)) == ("a y m b z", "m z b a y")


def test_a_filter_shows_what_fits_with_its_ancestors() -> None:
    """Also below one that is folded."""
    agents = family(top="", mid="top", leaf="mid", other="top", far="")
    assert names(branched(agents, SortOrder(filter="leaf"), frozenset({"top"}))[0]) == "top mid leaf"
    assert names(branched(agents, SortOrder(filter="nothing"))[0]) == ""


def test_what_is_folded_shows_the_sums_of_all_below() -> None:
    """However deep; who isn't shown is counted."""
    agents = family(top="", mid="top", leaf="mid", far="")
    shown, branches = branched(agents, SortOrder(), frozenset({"top", "mid"}))
    assert names(shown) == "top far"
    assert branches["top"].hidden == 2
    total = branches["top"].total
    assert total is not None
    assert (total.name, total.usage.total, total.requests) == ("top", 3 * ANY.usage.total, 3 * ANY.requests)
    assert branches["far"] == Branch()


def test_a_very_long_line_of_descent_ends() -> None:
    """A thousand generations are walked without running out of stack."""
    agents = tuple(replace(ANY, name=f"a{n}", parent=f"a{n - 1}" if n else None) for n in range(1_000))
    shown, branches = branched(agents, SortOrder())
    assert len(shown) == len(branches) == 1_000
    rows = agent_table.render(View(processes(), agents_shown=shown, branches=branches), 120, 20, Pen(boxed=False))
    assert {row.cell_length for row in rows} == {120}


def test_a_sub_agent_is_called_by_its_own_part_of_the_name() -> None:
    """Its parent's stands above it; where it stands alone it has its full name."""
    agents = family(**{"lead": "", "lead/tests": "lead", "lead.build": "lead", "gone/docs": "gone"})
    shown, branches = branched(agents, SortOrder())
    view = View(replace(processes(), agents=agents), agents_shown=shown, branches=branches)
    rows = agent_table.render(view, 120, 20, Pen(boxed=False))
    text = ["".join(segment.text for segment in row)[3:14].rstrip() for row in rows]
    assert text[2:6] == ["lead", "├ tests", "└ build", "gone/docs"]
