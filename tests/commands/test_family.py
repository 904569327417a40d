"""The tree of agents: each once, whatever clients say of who started whom."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from world.kit import arrived, told

from hivemind.cli.operator.agents import family
from hivemind.world.snapshot import AgentView

NAMES = [f"a{n}" for n in range(8)]


def agents(parents: Iterable[tuple[str, str | None]]) -> list[AgentView]:
    """Of these names, each with who started it."""
    asked = (replace(arrived(n, agent=name), parent=parent) for n, (name, parent) in enumerate(parents, start=1))
    fold = told(*asked)
    return list(fold.snapshot(100.0).agents)


def test_the_lines_of_the_tree() -> None:
    """Children stand under who started them; one whose parent nobody knows stands by itself."""
    found = agents([("boss", None), ("x", "boss"), ("y", "boss"), ("x1", "x"), ("y1", "y"), ("alone", "gone")])
    assert [before + agent.name for agent, before in family(found)] == [
        *("boss", "├ x", "│ └ x1", "└ y", "  └ y1", "alone"),
    ]


def test_a_long_chain() -> None:
    """It may be longer than Python's stack is deep."""
    found = agents((f"a{n}", f"a{n - 1}" if n else None) for n in range(1500))
    assert len(list(family(found))) == 1500


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*NAMES, None])))
def test_each_once(parents: dict[str, str | None]) -> None:
    """Rings and agents that claim to have started themselves included."""
    found = agents(parents.items())
    assert sorted(agent.name for agent, _ in family(found)) == sorted(agent.name for agent in found)
