"""The table of what was tried with real clients: printed at the end, and written as JSON with `--clients-json FILE`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clients.kit import Cells, why_not
from clients.known import FRAMEWORKS, PROGRAMS, SDKS, Tried
from clients.table import text_of

_NAME = "clients"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the table goes."""
    parser.addoption("--clients-json", type=Path, metavar="FILE", help="write what was tried with real clients there")


@pytest.fixture
def cells_of(record_property: Callable[[str, object], None]) -> Callable[[Tried, str], Cells]:
    """Makes the cells of a client that is started in some way; they come into the table."""

    def make(client: Tried, way: str) -> Cells:
        if why := why_not(client, way):
            pytest.skip(why)
        cells = Cells(client, way)
        record_property(_NAME, cells)
        return cells

    return make


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    """Make plain values of cells, which pytest-xdist passes on."""
    item.user_properties[:] = [
        (name, value.record if isinstance(value, Cells) else value) for name, value in item.user_properties
    ]
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it down."""
    reports = [each for outcome in ("passed", "failed") for each in terminalreporter.stats.get(outcome, [])]
    found = [value for each in reports if each.when == "call" for name, value in each.user_properties if name == _NAME]
    if not found:
        return
    order = [client.name for client in (*PROGRAMS, *SDKS, *FRAMEWORKS)]
    found.sort(key=lambda each: order.index(each["client"]))
    terminalreporter.section("real clients")
    terminalreporter.write(text_of(found))
    if (path := config.getoption("--clients-json", None)) is not None:
        at = time.strftime("%Y-%m-%d", time.gmtime())
        path.write_text(json.dumps({"at": at, "tried": found}, indent=1) + "\n")
