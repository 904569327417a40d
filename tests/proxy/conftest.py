"""The loop that the program runs on, and asyncio's own too where sockets are at stake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

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
