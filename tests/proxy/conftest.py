"""The loop that the program runs on, and asyncio's own too where sockets are at stake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop

_HERE = Path(__file__).parent
_ON_BOTH = (
    "test_unseen_retry.py",
    "test_streaming.py",
    "test_http_forms.py",
    "test_disconnects.py",
    "test_request_head.py",
)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """By module."""
    if item.path.name in _ON_BOTH:
        return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave asyncio's own loop to `make test-all`: on uvloop the same lines run."""
    for item in items:
        if item.path.is_relative_to(_HERE) and isinstance(item, pytest.Function) and "asyncio" in _parameters(item):
            item.add_marker(pytest.mark.slow)


def _parameters(item: pytest.Function) -> list[str]:
    return item.callspec.id.split("-") if hasattr(item, "callspec") else []
