"""Things below others, and the lines of the tree before each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

_T = TypeVar("_T")


def in_tree(
    items: Collection[_T], name: Callable[[_T], str], above: Mapping[str, str]
) -> Iterator[tuple[_T, tuple[bool, ...]]]:
    """Give each once, below the one that `above` names, siblings in their order; with each whether it and those above
    it, from the top down, are the last of their siblings: nothing at the top. A ring begins with its first."""
    children: dict[str | None, list[_T]] = {}
    for item in items:
        children.setdefault(above.get(name(item)), []).append(item)
    seen: set[str] = set()
    for root in (*children.get(None, ()), *items):
        stack: list[tuple[_T, tuple[bool, ...]]] = [(root, ())]  # a chain may be longer than Python's stack
        while stack:
            item, lasts = stack.pop()
            if name(item) not in seen:
                seen.add(name(item))
                yield item, lasts
                below = [child for child in children.get(name(item), ()) if name(child) not in seen]
                stack += [(child, (*lasts, child is below[-1])) for child in reversed(below)]


def tree_lines(lasts: tuple[bool, ...], glyphs: str = "│├└", deepest: int | None = None) -> str:
    """Return the lines before one; those on so many levels and deeper are indented as much."""
    further = "".join("  " if last else f"{glyphs[0]} " for last in lasts[:-1][:deepest])
    return f"{further}{glyphs[1 + lasts[-1]]} " if lasts else ""
