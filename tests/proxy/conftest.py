"""The loop that the program runs on, and asyncio's own too where sockets are at stake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from hivemind.proxy import data_plane
from hivemind.upstream import native as native_client

_ON_BOTH = (
    "test_unseen_retry.py",
    "test_streaming.py",
    "test_http_forms.py",
    "test_disconnects.py",
    "test_request_head.py",
)


_BOTH_WAYS = (
    "test_disconnects.py",
    "test_passthrough.py",
    "test_unseen_retry.py",
    "test_unexpected_replies.py",
    "test_streaming.py",
)
"""Modules whose tests are also run by the ASGI application alone, as another server would run it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test of some modules once more without what our own protocol serves directly."""
    if metafunc.definition.path.name in _BOTH_WAYS:
        metafunc.fixturenames.append("only_asgi")
        metafunc.parametrize(
            "only_asgi",
            [pytest.param(False, id="direct"), pytest.param(True, id="asgi", marks=pytest.mark.slow)],
            indirect=True,
        )


@pytest.fixture(autouse=True)
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a connection on a busy machine time before it is begun anew, as tests count them."""
    monkeypatch.setattr(native_client, "_AGAIN_S", 0.4)


@pytest.fixture
def only_asgi(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve every request by the ASGI application as under another server, where the parameter says so."""
    if request.param:
        monkeypatch.setattr(data_plane.DataPlane, "serve_whole", lambda self, cycle: False)
        monkeypatch.setattr(data_plane, "EXTENSION", "another server has none")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """By module."""
    if item.path.name in _ON_BOTH:
        return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave asyncio's own loop to `make test-all`: on uvloop the same lines run."""
    for item in items:
        here = item.path.parent.name in ("proxy", "upstream")
        if here and isinstance(item, pytest.Function) and "asyncio" in parameters(item):
            item.add_marker(pytest.mark.slow)


def parameters(item: pytest.Function) -> list[str]:
    """Return a test's parameters, as its id names them."""
    return item.callspec.id.split("-") if hasattr(item, "callspec") else []
