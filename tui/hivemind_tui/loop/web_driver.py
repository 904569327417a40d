"""Textual's driver for browsers, which ends with the one who reads it."""

from __future__ import annotations

import os

from textual.drivers.web_driver import WebDriver


class BrowserDriver(WebDriver):
    """Ends its app where the pipe to the web server is broken, as that has ended; else the room would run for ever."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._write = self._write_whole  # type: ignore[assignment]

    def _write_whole(self, data: bytes) -> int:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.fileno, rest) :]
        except OSError:
            self._leave()
        return len(data)

    def run_input_thread(self) -> None:
        """Read keys until there are no more."""
        super().run_input_thread()
        self._leave()

    def _leave(self) -> None:
        if not self.exit_event.is_set():
            self._loop.call_soon_threadsafe(self._app.exit)
