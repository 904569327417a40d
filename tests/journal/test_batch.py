"""Events and what is made between them, as lines."""

from __future__ import annotations

import pytest
from journal.disks import granted, numbers

from hivemind.journal.codec import encoded, event_of, line_of
from hivemind.journal.write import writer
from hivemind.journal.write.writer import DeferredLines, LineBatch, joined


def later(number: int) -> DeferredLines:
    return DeferredLines(lambda: line_of(granted(number)), 100)


def test_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line stands where it was put: before all, between, after all, and next to another."""
    monkeypatch.setattr(writer, "WORK_S", -1.0)
    monkeypatch.setattr(writer, "REST_S", 0.0)
    batches = [
        LineBatch(encoded([granted(2), granted(5)]), [(0, later(1)), (1, later(3)), (1, later(4)), (2, later(6))]),
        LineBatch(encoded([granted(7), granted(8)])),
        LineBatch(encoded([]), [(0, later(9))]),
    ]
    lines = joined(batches).splitlines(keepends=True)
    assert numbers([event_of(line) for line in lines]) == list(range(1, 10))
    assert sum(each.count for each in batches) == 9
    assert batches[2].weight == 100
