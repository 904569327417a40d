"""Tests in processes that are forked once all are collected: `pytest --forked 3`.

Workers of pytest-xdist each import and collect everything, and pass on every report of every phase. That was a fifth
of the time that the quick tests computed.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
import tempfile
import threading
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from multiprocessing.queues import SimpleQueue

import pytest
from _pytest.capture import CaptureManager

from hivemind.agent_names import load_tables

_FORK = get_context("fork")
_SLOW_TO_IMPORT = ("anthropic", "openai", "plotly.graph_objects")
"""What tests of several files import only when they run, which takes seconds of each process. Until then another module
stands for the SDKs, which only some of the tests use."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """For the conftest of all tests."""
    parser.addoption("--forked", type=int, default=0, metavar="N", help="run tests in N processes, file by file")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Let processes take a file's tests at a time, and report what they report. Raises: Failed: enough have failed."""
    number: int = session.config.getoption("--forked")
    if not number or session.testsfailed or session.config.option.collectonly:
        return None
    modules = {id(item.module): item.module for item in session.items if isinstance(item, pytest.Function)}.values()
    for name in _SLOW_TO_IMPORT:
        stands = sys.modules.get(name)
        if stands is None or any(vars(module).get(name) is stands for module in modules):
            sys.modules.pop(name, None)
            importlib.import_module(name)
    load_tables()
    gc.freeze()
    files = [list(items) for _, items in itertools.groupby(session.items, key=lambda item: item.path)]
    queue: SimpleQueue[int | None] = _FORK.SimpleQueue()
    for index in [*range(len(files)), *[None] * number]:
        queue.put(index)
    processes: list[ForkProcess] = []
    connections: list[Connection[object, object]] = []
    for _ in range(number):
        reader, writer = _FORK.Pipe(duplex=False)
        processes.append(_FORK.Process(target=_run, args=(session, files, queue, writer)))
        processes[-1].start()
        writer.close()
        connections.append(reader)
    try:
        _report(session, connections)
    except BaseException:  # also if the user interrupts it
        for process in processes:
            process.kill()  # a test may have changed what ends it
        raise
    finally:
        for process in processes:
            process.join()
    if ended := [process.exitcode for process in processes if process.exitcode]:
        session.shouldfail = f"a process ended in the midst of its tests, with {ended[0]}"
        raise session.Failed(session.shouldfail)
    return True


def _report(session: pytest.Session, connections: list[Connection[object, object]]) -> None:
    hook = session.config.hook
    while connections:
        for ready in wait(connections):
            assert isinstance(ready, Connection)
            try:
                data = ready.recv()
            except EOFError:
                connections.remove(ready)
                continue
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=data))
            if session.shouldfail:
                raise session.Failed(session.shouldfail)


class _Reports:
    def __init__(self, config: pytest.Config, writer: Connection[object, object]) -> None:
        self._config = config
        self._writer = writer

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass on what is counted or shown."""
        if report.when == "call" or not report.passed:
            self._writer.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def _run(
    session: pytest.Session,
    files: list[list[pytest.Item]],
    queue: SimpleQueue[int | None],
    writer: Connection[object, object],
) -> None:
    manager = session.config.pluginmanager
    manager.unregister(name="terminalreporter")
    manager.register(_Reports(session.config, writer))
    capture = manager.getplugin("capturemanager")
    assert isinstance(capture, CaptureManager)
    capture.stop_global_capturing()  # its files are the parent's and the other processes' too
    capture.start_global_capturing()
    with tempfile.TemporaryDirectory(prefix="hivemind-tests-") as folder:
        _use_state(folder)
        taken = (item for index in iter(queue.get, None) for item in files[index])
        item = next(taken, None)
        unfreeze, unfrozen = gc.unfreeze, threading.Event()

        def noted() -> None:
            unfrozen.set()
            unfreeze()

        gc.unfreeze = noted
        while item:
            following = next(taken, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
            if unfrozen.is_set():  # else each collection from here on goes over all that was imported
                unfrozen.clear()
                gc.freeze()


def _use_state(folder: str) -> None:
    """Keep state in that folder, also where a module remembers the environment for its subprocesses."""
    before = os.environ["XDG_STATE_HOME"]
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
    for module in list(sys.modules.values()):
        for value in list(vars(module).values()):
            if type(value) is dict and value.get("XDG_STATE_HOME") == before:
                value["XDG_STATE_HOME"] = value["XDG_CONFIG_HOME"] = folder
