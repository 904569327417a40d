"""The process that reads the last hours: `python -m hivemind_tui.past.worker` answers what its input asks.

A process of its own, because it reads for seconds. It keeps what it read of the last journal, so that asked again it
reads only what is new, and ends with its input, or after some minutes without a question.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hivemind.errors import HiveMindError
from hivemind.journal.past import PastReader
from hivemind.prices import prices_at
from hivemind.scheduler.types import Price
from hivemind_tui.loop.child import messages, send
from hivemind_tui.past.protocol import QUESTIONS, Message, PastFailed, PastProgress, ReadPast

_IDLE_S = 300.0


class Worker:
    """Answers questions one after the other; `send` receives the progress and the answer."""

    def __init__(self, send: Callable[[Message], None], price: Callable[[float], Price] = prices_at) -> None:
        self._send = send
        self._price = price
        self._of: tuple[str, bool] | None = None
        self._reader: PastReader | None = None

    def answer(self, question: ReadPast) -> None:
        """Send the answer to a question; an error is an answer too."""
        try:
            of = question.path, question.earlier
            if self._reader is None or self._of != of:
                self._reader, self._of = PastReader(Path(of[0]), self._price, earlier=of[1]), of
            done = lambda share: self._send(PastProgress(share))  # noqa: E731
            self._send(self._reader.read(question.span, question.until, done))
        except (HiveMindError, OSError) as error:
            self._reader = None
            self._send(PastFailed(str(error)))
        except MemoryError:
            self._reader = None
            self._send(PastFailed("this span of the journal doesn't fit into memory"))


def main() -> None:
    """Answer until the input ends."""
    worker = Worker(send)
    for question in messages(QUESTIONS, nice=5, idle_s=_IDLE_S):
        worker.answer(question)


if __name__ == "__main__":
    main()
