"""What `pytest --forked` makes one test of is tried row by row."""

from __future__ import annotations

from types import FunctionType

import pytest
from rows import as_one, table

TRIED: list[int] = []


@pytest.mark.parametrize("number", [1, 2, pytest.param(3, id="three"), 4])
def odd(number: int) -> None:
    TRIED.append(number)
    if number == 4:
        pytest.skip("too large")
    assert number % 2 == 0


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    """Also after one that failed; what is skipped doesn't hide it."""
    assert isinstance(odd, FunctionType)
    (mark,) = odd.pytestmark  # type: ignore[attr-defined]
    rows = list(table(mark))
    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows") as failed:
        as_one(odd, rows)()
    assert TRIED == [1, 2, 3, 4]
    assert [error.__notes__ for error in failed.value.exceptions] == [["row: (1,)"], ["row: three"]]
    with pytest.raises(AssertionError):
        as_one(odd, rows[:2])()
    with pytest.raises(pytest.skip.Exception, match="too large"):
        as_one(odd, rows[3:])()
