"""`hivemind proxy --workers N`: starts the workers and their store, and starts again what ends.

The supervisor serves no traffic and has no event loop. It holds the port until the workers listen, notes the control
token that they share, passes on signals, and writes their log lines with their numbers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from pydantic import SecretStr

from hivemind import __version__, logs
from hivemind.console import Console
from hivemind.errors import UsageError
from hivemind.host.listening import bind, print_ready, ready_line, share, url_of
from hivemind.host.worker import READY, Worker
from hivemind.host.workers.embedded_store import EmbeddedStore, find_server
from hivemind.host.workers.folder import private_folder
from hivemind.host.workers.order import Order
from hivemind.store.token_file import ControlKey, announced, state_dir
from hivemind.text.humanise import exit_text, plural
from hivemind.world.fleet import Member

if TYPE_CHECKING:
    from hivemind.settings import Settings

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
"""Before a process is started again: doubled each time it ends soon."""
STEADY_S = 60.0
"""A process that ran for so long hasn't ended soon."""
_LONGEST_LINE = 1 << 16
_READ_AT_ONCE = 1 << 16
_STORE_DELAY_S = 0.1


def supervise(
    settings: Settings,
    settings_file: Path | None = None,
    on_ready: Callable[[str, ControlKey | None], object] | None = None,
) -> int:
    """Serve with `settings.workers` processes until SIGINT or SIGTERM, then have them drain. Returns the exit code.

    `on_ready` is called once all serve, with their URL and control token; without it a line is printed.

    A second signal ends all at once. Raises: HiveMindError: before anything was served.
    """
    check(settings)
    program = find_server() if settings.fleet is None else None
    with contextlib.ExitStack() as stack:
        console = Console(sys.stderr)
        stack.callback(console.close)
        logs.configure(settings.log_level, cast(TextIO, console))
        sockets = bind(settings.host, settings.port)
        for sock in sockets:
            stack.callback(sock.close)
        share(sockets)
        port = sockets[0].getsockname()[1]
        address = url_of(settings.host, port)
        state = _state_dir(settings)
        folder = stack.enter_context(private_folder(state))
        chosen = settings.control_token.get_secret_value() if settings.control_token else None
        key = stack.enter_context(announced(chosen, settings.state_dir, address, port))
        store = None
        if program is not None:
            store = EmbeddedStore(program, folder)
            stack.callback(store.stop)
            store.start()
            store.await_answer()
            settings = settings.model_copy(update={"fleet": SecretStr(store.url)})
        worker = Worker(0, settings.workers, port, key, folder, os.getpid(), -1)
        supervisor = Supervisor(Order(worker, settings, settings_file), console, store, sockets)
        ready = ready_line(address, settings)
        with supervisor.catching_signals():
            code = supervisor.run((lambda: print_ready(ready)) if on_ready is None else lambda: on_ready(address, key))
        print_summary(console, worker, supervisor.restarts)
        return code


def print_summary(console: Console, worker: Worker, restarts: int) -> None:
    """Print one summary of all workers that have ended in good order."""
    from hivemind.host.summary import print_at_end  # on demand: the supervisor reads no journal before
    from hivemind.world.merge import Part, merged

    ends = worker.left()
    if not ends:
        return
    members = {number: Member(str(number), "", 0, __version__, 0, "", 0.0) for number in ends}
    whole = merged([Part(members[number], snapshot, number - 1) for number, snapshot in ends.items()])
    missing = worker.count - len(ends) + restarts
    note = (
        f"missing here: what {plural(missing, 'worker')} served that ended early (see the journals)" if missing else ""
    )
    print_at_end(console, whole, [*ends.values()], note)


def check(settings: Settings) -> None:
    """Raises: UsageError: these settings can't be served by several processes here."""
    settings.origins()
    if settings.idle_exit_s:
        raise UsageError("--idle-exit-s: several workers don't end by themselves; leave out one of both settings")
    if sys.platform != "linux":
        raise UsageError(
            "--workers needs Linux: this system doesn't spread the connections to one port over several processes"
        )
    if find_spec("redis") is None:
        raise UsageError("--workers needs redis-py: pip install 'hivemind-tui[fleet]'")
    if 0 < settings.max_concurrency_per_upstream < settings.workers:
        raise UsageError(
            f"max_concurrency_per_upstream {settings.max_concurrency_per_upstream}: is divided among the workers, so it"
            f" must be at least their number, {settings.workers}"
        )


def of_worker(settings: Settings, number: int) -> Settings:
    """Return the settings of one worker: limits of the whole program that no fleet shares are divided."""
    count = settings.workers

    def part(limit: int) -> int:
        return limit // count + (number <= limit % count)

    divided = {
        "max_concurrency_per_upstream": part(settings.max_concurrency_per_upstream),
        "max_connections": max(1, part(settings.max_connections)) if settings.max_connections else 0,
        "max_unfinished": max(1, part(settings.max_unfinished)) if settings.max_unfinished else 0,
        "max_bodies_mb": max(settings.max_body_mb, part(settings.max_bodies_mb)),
    }
    return settings.model_copy(update=divided)


def _state_dir(settings: Settings) -> Path:
    try:
        return state_dir(settings.state_dir)
    except OSError:
        return Path("/nonexistent")  # a temporary folder is used then


@dataclass(slots=True)
class _Process:
    """A worker's place, and the process that has it."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    ready: bool = False
    line: bytes = b""
    """The beginning of its next log line."""
    delay_s: float = FIRST_DELAY_S
    """Before it is started again."""
    due: float | None = None
    """When that is."""


class Supervisor:
    """The loop over all processes. Times are of the monotonic clock."""

    def __init__(
        self, order: Order, console: Console, store: EmbeddedStore | None, sockets: list[socket.socket]
    ) -> None:
        self._order = order
        self._console = console
        self._store = store
        self._store_due: float | None = None
        self._store_began = time.monotonic()
        self._store_delay_s = _STORE_DELAY_S
        self._guards = sockets
        """Hold the port until all workers listen."""
        self._workers = [_Process(number) for number in range(1, order.worker.count + 1)]
        self._selector = selectors.DefaultSelector()
        self._caught: list[int] = []
        self.restarts = 0
        """Workers that ended early, and were started again."""
        self._stopping = False
        self._served = False
        """All workers were ready once."""
        self._code = 0

    @contextlib.contextmanager
    def catching_signals(self) -> Iterator[None]:
        """Have signals wake :meth:`run`, rather than end the process."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._selector.register(read, selectors.EVENT_READ, lambda: os.read(read, _READ_AT_ONCE))
        before = {number: signal.signal(number, self._catch) for number in (*_SIGNALS, signal.SIGCHLD)}
        wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.kill()
                    worker.process.wait()
            self._selector.close()
            os.close(read)
            os.close(write)

    def _catch(self, number: int, _: object) -> None:
        if number in _SIGNALS:
            self._caught.append(number)

    def run(self, on_ready: Callable[[], object]) -> int:
        """Start the workers, call back once all serve, and return the exit code once all have ended."""
        for worker in self._workers:
            self._start(worker)
        while True:
            for key, _ in self._selector.select(self._timeout_s()):
                key.data()
            while self._caught:
                self._pass_on(self._caught.pop(0))
            self._look_at_store()
            for worker in self._workers:
                self._look_at(worker)
            if self._stopping and all(worker.process is None for worker in self._workers):
                return self._code
            if not self._served and not self._stopping and all(worker.ready for worker in self._workers):
                self._served = True
                for sock in self._guards:
                    sock.close()
                on_ready()

    def _timeout_s(self) -> float | None:
        dues = [worker.due for worker in self._workers if worker.due is not None]
        if self._store_due is not None:
            dues.append(self._store_due)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    # --- Workers --------------------------------------------------------------------------------------------------

    def _start(self, worker: _Process) -> None:
        ready, tells = os.pipe()
        errors, writes = os.pipe()
        for end in (ready, errors):
            os.set_blocking(end, False)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hivemind.host.workers.process"],  # -P: no module of the working directory
                stdin=subprocess.PIPE,
                stdout=writes,
                stderr=writes,
                pass_fds=(tells,),
                start_new_session=True,  # signals of a terminal come through this process, once
            )
        finally:
            os.close(tells)
            os.close(writes)
        worker.process, worker.ready, worker.due, worker.started_at = process, False, None, time.monotonic()
        self._read(ready, lambda data: self._on_ready(worker, process, data))
        self._read(errors, lambda data: self._on_output(worker, data))
        assert process.stdin is not None
        order = replace(
            self._order,
            worker=replace(self._order.worker, number=worker.number, ready=tells),
            settings=of_worker(self._order.settings, worker.number),
        )
        with contextlib.suppress(BrokenPipeError), process.stdin:  # it has ended, which is seen later
            order.write(process.stdin)

    def _read(self, end: int, take: Callable[[bytes], None]) -> None:
        """Give what comes from a pipe to `take`; nothing at its end."""

        def read() -> None:
            try:
                data = os.read(end, _READ_AT_ONCE)
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(end)
                os.close(end)
            take(data)

        self._selector.register(end, selectors.EVENT_READ, read)

    def _on_ready(self, worker: _Process, process: subprocess.Popen[bytes], data: bytes) -> None:
        if data == READY and worker.process is process:
            worker.ready = True
            if self._served:
                _log.info("worker %d serves again", worker.number)

    def _on_output(self, worker: _Process, data: bytes) -> None:
        *lines, rest = (worker.line + data).split(b"\n")
        if rest and (not data or len(rest) > _LONGEST_LINE):
            lines, rest = [*lines, rest], b""
        worker.line = rest
        for line in lines:
            self._console.line(f"[{worker.number}] {line.decode(errors='replace')}")

    def _look_at(self, worker: _Process) -> None:
        now = time.monotonic()
        if worker.due is not None and worker.due <= now:
            self._start(worker)
        code = None if worker.process is None else worker.process.poll()
        if code is None:
            return
        worker.process = None
        if self._stopping:
            ended_early = not worker.ready and -code in _SIGNALS
            if code and not ended_early:
                self._code = self._code or max(1, code)
        elif not self._served:
            # Why is in its own line. Something in the settings or on this machine keeps all of them from serving.
            _log.error("worker %d ended before it served: %s", worker.number, exit_text(code))
            self._code = max(1, code)
            self._stop(signal.SIGTERM)
        else:
            if now - worker.started_at >= STEADY_S:
                worker.delay_s = FIRST_DELAY_S
            self.restarts += 1
            worker.due = now + worker.delay_s
            how = f"is started again in {worker.delay_s:g} s"
            _log.warning("worker %d ended (%s) and %s", worker.number, exit_text(code), how)
            worker.delay_s = min(2 * worker.delay_s, LONGEST_DELAY_S)

    # --- The end --------------------------------------------------------------------------------------------------

    def _pass_on(self, number: int) -> None:
        """The first signal drains all workers; a second one ends them, and this process, as if it weren't caught."""
        if not self._stopping:
            self._stop(number)
            return
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
        if self._store is not None:
            self._store.stop()
        self._console.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _stop(self, number: int) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.due = None
            if worker.process is not None:
                worker.process.send_signal(number)

    # --- The store ------------------------------------------------------------------------------------------------

    def _look_at_store(self) -> None:
        store, now = self._store, time.monotonic()
        if store is None or self._stopping:
            return
        if self._store_due is None:
            code = None if store.process is None else store.process.poll()
            if code is None:
                return
            _log.warning(
                "the workers' store ended (%s) and is started again; each worker keeps to a safe share meanwhile",
                exit_text(code),
            )
            if now - self._store_began >= STEADY_S:
                self._store_delay_s = _STORE_DELAY_S
            self._store_due = now + self._store_delay_s
            self._store_delay_s = min(2 * self._store_delay_s, LONGEST_DELAY_S)
        elif self._store_due <= now:
            self._store_due, self._store_began = None, now
            store.start()
