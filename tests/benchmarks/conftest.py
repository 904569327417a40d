"""What measures isn't shipped, so its tests run in `make test-all`, but for those that check the manual."""

from __future__ import annotations

from pathlib import Path

import pytest

_QUICK = frozenset({"test_the_manual_has_the_forms", "test_verdicts", "test_speed_is_shared_over_the_whole_life"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    for item in items:
        if item.path.parent == Path(__file__).parent and getattr(item, "originalname", item.name) not in _QUICK:
            item.add_marker(pytest.mark.slow)
