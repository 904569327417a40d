"""Where the product's sources are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("hivemind", "tui/hivemind_tui", "mock/hivemind_mock", "styles/hivemind_styles")


def modules(*folders: str) -> Iterator[Path]:
    """Every file of Python in these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))
