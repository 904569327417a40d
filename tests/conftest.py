"""What all tests share: the programs that they start keep no state in the user's own folders."""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import os
import re
import resource
import signal
import ssl
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import certifi
import forked
import goldens
import pytest
from detached import detached_with, end_all
from examples import register_profiles
from forked import pytest_runtestloop as pytest_runtestloop
from goldens import golden as golden
from rows import pytest_pycollect_makeitem as pytest_pycollect_makeitem

register_profiles()
_STATE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Of these modules."""
    goldens.pytest_addoption(parser)
    forked.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, because some remember the environment for their subprocesses.

    Collecting makes hundreds of thousands of objects that stay: looking for garbage among them takes seconds.
    """
    gc.disable()
    for name in ("anthropic", "openai"):
        sys.modules[name] = _Later(name)
    config.stash[_STATE] = tempfile.TemporaryDirectory(prefix="hivemind-tests-")
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = config.stash[_STATE].name
    # pytest-xdist's workers say that a terminal of 80 columns is there, which the programs would believe.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    # A shell starts what goes on in the background with SIGINT ignored, which the programs under test would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Later(ModuleType):
    """Stands for a library until it is used: each worker collects all tests, and importing an SDK takes seconds."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # `inspect` and pytest look at whatever there is
        if sys.modules[self.__name__] is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@pytest.fixture(autouse=True, scope="session")
def _no_proxy_left() -> Iterator[None]:
    """Fail if programs of the tests left a detached proxy behind, and end it."""
    yield
    left = detached_with(f"XDG_STATE_HOME={os.environ['XDG_STATE_HOME']}")
    end_all(left)
    assert not left, "tests left proxies running that their runs had started"


_create_context = ssl.create_default_context


@functools.cache
def _shared_context() -> ssl.SSLContext:
    return _create_context(cafile=certifi.where())


def _context(*args: Any, **named: Any) -> ssl.SSLContext:
    return _create_context(*args, **named) if args or named != {"cafile": certifi.where()} else _shared_context()


@pytest.fixture(autouse=True, scope="session")
def _certificates_are_loaded_once() -> Iterator[None]:
    """HTTP clients that a test makes share the usual certificates, which take 30 ms to load."""
    with mock.patch.object(ssl, "create_default_context", _context):
        yield


@pytest.fixture
def _limit() -> Iterator[None]:
    """The limit of open files of this process is afterwards what it was."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Put the root logger back as it was: programs that a test runs in its own process choose what is logged."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if root.level != level:
        root.setLevel(level)
    if root.handlers != handlers:
        root.handlers[:] = handlers


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't import for `make test-all`, once in each worker, the many modules of which it runs nothing."""
    if collection_path.suffix != ".py" or config.option.markexpr != "slow or e2e or hypothesis":
        return None
    files = (each for each in (collection_path, collection_path.with_name("conftest.py")) if each.is_file())
    return not any(re.search(r"\b(slow|e2e|hypothesis)\b", each.read_text("utf-8")) for each in files) or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the test that takes minutes first: a worker gets the beginning of the list, and others take what follows."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_collection_finish() -> None:
    """Look for garbage from here on, among what the tests make, and seldom: it was a fifteenth of what they compute."""
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Their notes go with the run."""
    config.stash[_STATE].cleanup()
