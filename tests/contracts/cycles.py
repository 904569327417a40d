"""Print every import cycle between files, and between packages: `python tests/contracts/cycles.py`.

Type-only imports count. The exit code is 1 if there is a cycle.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping

import grimp

ROOTS = ("hivemind", "hivemind_tui", "hivemind_mock", "hivemind_styles")


def cycles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for target in imports.get(node, ()):
            if target not in order:
                visit(target)
            if target in stack:
                lowest[node] = min(lowest[node], lowest[target])
        if lowest[node] == order[node]:
            start = stack.index(node)
            component = sorted(stack[start:])
            del stack[start:]
            if len(component) > 1:
                found.append(component)

    for node in sorted(imports):
        if node not in order:
            visit(node)
    return found


def _siblings(module: str, target: str) -> tuple[str, str]:
    """Return the two packages or modules, within the innermost package that holds both, which these belong to."""
    one, other = module.split("."), target.split(".")
    depth = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if depth is None:  # a package and something inside it
        return module, module
    return ".".join(one[: depth + 1]), ".".join(other[: depth + 1])


def main() -> int:
    """Check all of `ROOTS`."""
    graph = grimp.build_graph(*ROOTS, cache_dir=None)  # a cache goes by mtimes, which git can set back
    files = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    siblings: dict[str, set[str]] = defaultdict(set)
    for module, targets in files.items():
        for target in targets:
            one, other = _siblings(module, target)
            if one != other:
                siblings[one].add(other)
    found = [*cycles(files), *cycles(siblings)]
    for cycle in found:
        print(f"cycle of {len(cycle)}: {', '.join(cycle)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
