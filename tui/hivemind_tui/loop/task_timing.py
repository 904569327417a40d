"""Time the tasks of Textual's widgets, timers and workers with the app's :class:`~.loop_lag.Monitor`.

It uses private names of Textual's: :func:`instrument` checks them, and changes nothing where one differs.
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
"""Returns the pump of a task's owner, and its name."""


def instrument() -> bool:
    """Patch Textual's classes, once for a process, so that tasks of apps with a `monitor` are timed.

    Return whether they can be.
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
def messages_reported(report: Callable[[object], None]) -> Iterator[None]:
    """Report every message before this task, or one that it starts, handles it, where Textual has a hook for that."""
    hook = _message_hook()
    if hook is None:
        yield
        return
    token = hook.set(report)
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
