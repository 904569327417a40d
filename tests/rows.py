"""The rows of a parametrised test as one test, for `pytest --forked`.

A test takes pytest milliseconds to collect, to set up and to report; most rows take microseconds. Without `--forked`
each row is a test of its own, which can be chosen.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet, get_unpacked_marks

_Row = tuple[str, dict[str, Any]]
_LONGEST = 200


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Function] | None:
    """Make one test of a function whose arguments are all in its rows.

    What has fixtures, or rows with marks, is left alone; coroutines too, since each has a loop of its own.
    """
    if not (isinstance(collector, pytest.Module) and isinstance(obj, FunctionType) and name.startswith("test_")):
        return None
    marks: list[pytest.Mark] = getattr(obj, "pytestmark", [])
    around = get_unpacked_marks(collector.obj, consider_mro=False)
    special = vars(obj).keys() - {"pytestmark"} or "usefixtures" in {mark.name for mark in (*marks, *around)}
    if special or inspect.iscoroutinefunction(obj):
        return None
    if not collector.config.getoption("--forked"):
        return None
    others = [mark for mark in marks if mark.name != "parametrize"]
    tables = [list(table(mark)) for mark in marks if mark.name == "parametrize"]
    rows = [(", ".join(label for label, _ in row), _merged(row)) for row in itertools.product(*tables)]
    if not tables or not rows or rows[0][1].keys() != inspect.signature(obj).parameters.keys():
        return None
    # What pytest does by itself, so that a conftest may multiply the tests of its folder.
    whole = as_one(obj, rows)
    vars(whole)["pytestmark"] = others
    items = list(collector._genfunctions(name, whole))
    for item in items:
        item.obj = whole
    # Its module's own fixtures may be what makes each row begin anew.
    return None if any(hasattr(collector.obj, fixture) for item in items for fixture in item.fixturenames) else items


def table(mark: pytest.Mark) -> Iterator[_Row]:
    """Yield the rows of `parametrize` and what each is called; none if it says more than what they are."""
    if mark.kwargs.keys() - {"ids"} or not isinstance(mark.args[1], Collection):
        return
    names, values = mark.args
    names = [each.strip() for each in names.split(",")] if isinstance(names, str) else names
    sets = [ParameterSet.extract_from(value, force_tuple=len(names) == 1) for value in values]
    if not any(row.marks for row in sets):
        for row in sets:
            label = row.id if isinstance(row.id, str) else repr(row.values)[:_LONGEST]
            yield label, dict(zip(names, row.values, strict=True))


def _merged(row: tuple[_Row, ...]) -> dict[str, Any]:
    return {name: value for _, values in row for name, value in values.items()}


def as_one(test: FunctionType, rows: list[_Row]) -> FunctionType:
    """Return a test that tries each row, and fails with all that failed, or is skipped if any was."""

    def all_rows() -> None:
        failed: list[BaseException] = []
        skipped: list[BaseException] = []
        for label, values in rows:
            try:
                test(**values)
            except pytest.skip.Exception as error:
                skipped.append(error)
            except (Exception, pytest.fail.Exception) as error:
                error.add_note(f"row: {label}")
                failed.append(error)
        if len(failed) > 1:
            raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} rows", failed)
        for one in (*failed, *skipped):
            raise one

    all_rows.__doc__, all_rows.__module__ = test.__doc__, test.__module__
    assert isinstance(all_rows, FunctionType)
    return all_rows
