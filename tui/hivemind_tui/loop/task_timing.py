"""Time the tasks of Textual's widgets, timers and workers with the app's :class:`~.loop_lag.Monitor`.

It leans on private names of Textual's: :func:`instrument` checks them, and where one differs leaves all as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.worker import Worker

from hivemind_tui.loop.loop_lag import Monitor, callback_name

_Body = Callable[[Any], Coroutine[Any, Any, Any]]
_Of = Callable[[Any], tuple[MessagePump, str]]
"""The pump and the name of what a task runs for."""


def instrument() -> bool:
    """From now on tasks of widgets, timers and workers are timed where their app has a `monitor`; answers whether they
    can be.

    It is done to Textual's classes, so once is enough for a process; more does no harm.
    """
    tasks: tuple[tuple[Any, str, _Of], ...] = (
        (MessagePump, "_process_messages", _of_pump),
        (Timer, "_run_timer", _of_timer),
        (Worker, "run", _of_worker),
    )
    if not all(_is_body(getattr(owner, name, None)) for owner, name, _ in tasks):
        return False
    for owner, name, of in tasks:
        body = getattr(owner, name)
        if not hasattr(body, "__wrapped__"):
            setattr(owner, name, _timed(body, of))
    return True


@contextmanager
def messages_reported(tell: Callable[[object], None]) -> Iterator[None]:
    """Have every message told that this task, or one that it starts, is about to deal with; nothing where Textual has
    no such hook."""
    hook = _message_hook()
    if hook is None:
        yield
        return
    token = hook.set(tell)
    try:
        yield
    finally:
        hook.reset(token)


def _message_hook() -> ContextVar[Any] | None:
    try:
        from textual._context import message_hook
    except ImportError:
        return None
    return message_hook if isinstance(message_hook, ContextVar) else None


def _is_body(function: Any) -> bool:
    if not inspect.iscoroutinefunction(inspect.unwrap(function) if callable(function) else None):
        return False
    return len(inspect.signature(function).parameters) == 1


def _timed(body: _Body, of: _Of) -> _Body:
    @wraps(body)
    def timed(self: Any) -> Coroutine[Any, Any, Any]:
        pump, where = of(self)
        monitor = getattr(pump.app, "monitor", None)
        return monitor.timed(body(self), where) if isinstance(monitor, Monitor) else body(self)

    return timed


def _of_pump(pump: Any) -> tuple[MessagePump, str]:
    named = getattr(pump, "id", None)
    return pump, f"{type(pump).__name__}#{named}" if named else type(pump).__name__


def _of_timer(timer: Any) -> tuple[MessagePump, str]:
    what = callback_name(timer._callback) if getattr(timer, "_callback", None) else timer.name
    return timer.target, f"timer {what}"


def _of_worker(worker: Any) -> tuple[MessagePump, str]:
    return worker.node, f"worker {worker.name}".rstrip()
