"""Looking back: the key for the span, and asking the process that reads the journal while something of it is shown."""

from __future__ import annotations

import time

from hivemind.journal.past import Past
from hivemind.records import replace
from hivemind.scheduler.commands import Rejected
from hivemind_tui.commands.navigation import NavigationActions, cut_down, page
from hivemind_tui.past.process import PastProcess
from hivemind_tui.past.protocol import Message, PastFailed, ReadPast
from hivemind_tui.past.state import LIVE
from hivemind_tui.state.log_rows import PINNED
from hivemind_tui.whatif.process import recording_of

_GROUP = "past"
_AGAIN_S = (1.0, 15.0)
"""Least and most time between two questions for the same span; in between, a fifth of a column."""
_MOVED_S = 0.25
"""Between two questions where the moment shown moves on, as in a replay."""


class PastActions(NavigationActions):
    """What looks back further than memory does."""

    past: PastProcess
    _asked: tuple[str, str] | None = None
    """Path and span of the question that is being answered; None: none is."""
    _asked_at = 0.0
    """When the last answer came."""

    def action_span(self) -> None:
        """Look back further; from the furthest to the shortest again."""
        self.look_back(self.view.back.next_span(self.view.page))

    def action_changes(self) -> None:
        """Show what operators changed, and alerts, in the last 24 h."""
        self.go(cut_down(page(self.view, "log"), PINNED))

    def look_back(self, span: str) -> None:
        """Show this span on the page."""
        view = self.view
        if span != LIVE and view.page != "cost":
            try:
                self._journal()
            except Rejected as rejected:
                self.complain(f"only {LIVE} are in memory: {rejected}")
                return
        self.go(replace(view, back=view.back.with_span(view.page, span)))
        self.ask_past()

    def ask_past(self) -> None:
        """Ask for what the page shows of the journal, where that is due."""
        view = self.view
        back, name = view.back, view.page
        if not back.wanted(name) or view.frozen:
            return
        shown = back.shown(name, view.snapshot.at)
        if shown is not None and self._asked is None and not self._due(shown):
            return
        try:
            path = self._journal()
        except Rejected as rejected:
            self._told(PastFailed(str(rejected)))
            return
        question = path, back.span(name)
        if self._asked is not None and (self._asked == question or back.share is None):
            return  # a short one is waited for, as what was read is forgotten with one that is cancelled
        if back.trouble and time.monotonic() - self._asked_at < _AGAIN_S[1]:
            return
        if self._asked is not None:
            self.workers.cancel_group(self, _GROUP)  # it is about another span, and reads for seconds
        self._asked = question
        self.run_task(self.past.ask(ReadPast(*question, view.snapshot.at, earlier=view.live), self._told), _GROUP)

    def _due(self, shown: Past) -> bool:
        """Return whether there may be something new since this answer."""
        passed_s = time.monotonic() - self._asked_at
        if not self.view.live:
            return shown.until != self.view.snapshot.at and passed_s >= _MOVED_S
        return passed_s >= max(_AGAIN_S[0], min(_AGAIN_S[1], shown.step_s / 5))

    def _journal(self) -> str:
        """Raises: Rejected: there is none that can be read here."""
        return str(recording_of(self.source, self.view.snapshot, "hivemind-tui --replay"))

    def _told(self, message: Message) -> None:
        if isinstance(message, Past | PastFailed):
            self._asked, self._asked_at = None, time.monotonic()
        before = self.view.back
        back = before.with_message(message)
        if back != before:
            self.go(replace(self.view, back=back))

    async def close_past(self) -> None:
        self.workers.cancel_group(self, _GROUP)
        await self.past.aclose()
