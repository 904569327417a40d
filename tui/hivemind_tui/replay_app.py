"""The control room on a recording: a timeline below the panels, keys that move in time, and pictures of the screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hivemind.errors import UsageError
from hivemind.journal.index.activity import Mark
from hivemind.records import replace
from hivemind.text.humanise import short_plural
from hivemind_tui.app import ControlRoom
from hivemind_tui.commands.queue import Intent
from hivemind_tui.keys import keymap
from hivemind_tui.panels.timeline_strip import Scrubber
from hivemind_tui.render.format import clock, percent
from hivemind_tui.sources.playback import ALSO, FAST, GOALS, HOW, READ_ONLY, Playback, moment_of
from hivemind_tui.sources.replay import ReplaySource, text_of_mark
from hivemind_tui.state.view import View
from hivemind_tui.widgets.overlay import Choice

_NO_REQUESTS = "a recording accepts no requests, so there is nothing to connect to"
_FROZEN = "space stops a recording"


class ReplayRoom(ControlRoom):
    """A screen on a recording."""

    def __init__(self, source: ReplaySource, **more: Any) -> None:
        super().__init__(source, **more)
        self.recording = source
        self._greeting = False
        self.view = replace(self.view, trail=("overview",), playback=source.playback())

    def on_mount(self) -> None:
        # Textual calls the base class's handler too, after this one.
        self._board.show_timeline()
        self.recording.moved = self._moved
        self.run_worker(self.monitor.timed(self.recording.run(), "replay"), name="replay")

    def _look(self) -> None:
        super()._look()
        before, now = self.view.playback, self.recording.playback()
        self.view = replace(self.view, playback=now)
        if before is not None and before.known_to != now.known_to:
            self.palette.look()  # its marks are of what was read

    def _moved(self) -> None:
        self._detail_due_s = 0.0
        self._look()
        self._draw_all()

    def go(self, view: View) -> None:
        super().go(replace(view, playback=self.recording.playback()))

    # --- What a recording can't do -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow keys that steer, which are answered with the reason why they can't."""
        if keymap.steers(action, parameters):
            return not self.modal_open
        return super().check_action(action, parameters)

    async def _dispatch_action(self, namespace: Any, action_name: str, params: Any) -> bool:
        if namespace is self and keymap.steers(action_name, params):
            reasons = {"freeze": _FROZEN, "page": _NO_REQUESTS, "demo": _NO_REQUESTS}
            self.complain(reasons.get(action_name, READ_ONLY))
            return True
        return bool(await super()._dispatch_action(namespace, action_name, params))

    def action_open(self) -> None:
        if self.view.page == "tuning":
            self.complain(READ_ONLY)
        else:
            super().action_open()

    def action_pick_knob(self, name: str) -> None:
        self.go(replace(self.view, knob=name))

    def steer(self, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        self.complain(READ_ONLY)

    # --- Moving in time --------------------------------------------------------------------------------------------

    def action_play(self) -> None:
        self.recording.play()
        self._moved()

    def action_turn(self, steps: int) -> None:
        if self.view.page == "whatif":
            self.vary(steps)
        else:
            self._go_to(self.recording.transport.at + steps)

    def action_speed(self, step: int) -> None:
        self.recording.transport.change_speed(step)
        self._moved()

    def choices(self) -> list[Choice]:
        """Return what can be run, the next mark of each kind first: by that an incident is found."""
        return [*self._marks(), *super().choices()]

    def _marks(self) -> list[Choice]:
        """Return for each kind of marks that there is the way to the next, and to play there."""
        found: list[Choice] = []
        wall_s = self.recording.playback().wall_offset_s
        for kind, of in GOALS.items():
            marks, following = self.recording.of_kind(kind), self._next_of(kind)
            if following is None:
                continue
            where, also = f"next {clock(following.at + wall_s)}; {of.meaning}", ALSO.get(kind, "")
            count = short_plural(len(marks), "mark")
            found.append(Choice(of.word, where, count, partial(self._go_to_kind, kind), also))
            play = partial(self._play_to_kind, kind)
            found.append(Choice(f"play to {of.word}", "to the next at x8, and stop there", "", play, also))
        return found

    def action_find(self, step: int) -> None:
        if self.view.page == "log" and self.view.log_search:
            super().action_find(step)
            return
        self._go_to_mark(step)

    def _go_to_mark(self, step: int) -> None:
        found = self.recording.mark(step)
        if found is None:
            self.complain(_none_further(self.recording.playback(), step))
        else:
            self._show_mark(found)

    def _go_to_kind(self, kind: str) -> None:
        """Go to the next mark of a kind; after the last to the first."""
        if found := self._next_of(kind):
            self._show_mark(found)

    def _next_of(self, kind: str) -> Mark | None:
        return self.recording.mark(1, kind) or next(iter(self.recording.of_kind(kind)), None)

    def _show_mark(self, found: Mark) -> None:
        self.recording.go(found.at, text_of_mark(found), found.kind)
        self._moved()

    def _play_to_kind(self, kind: str) -> None:
        """Play at x8 to the next mark of a kind, from the beginning where none comes any more, and stop there."""
        recording = self.recording
        if recording.mark(1, kind) is None:
            recording.go(recording.transport.begins_at)
        recording.transport.speed = FAST
        recording.play_to_mark(kind)
        self._moved()

    def action_edge(self, index: int) -> None:
        if self.view.page == "whatif":
            self.action_row(index)
        elif index:
            self.recording.follow()
            self._moved()
        else:
            self._go_to(self.recording.transport.begins_at)

    def action_go_to(self) -> None:
        """Open a list of the kinds of marks, which narrows with what is typed; a time leads there too."""
        title = "Go to: a kind of marks, or a time"
        self.palette.open(self._marks, self._moments, self._board.pen, title, f"no such mark yet; times: {HOW}")

    def offers(self, text: str) -> list[Choice]:
        if self.view.page == "whatif" or text.lower().startswith("filter"):
            return super().offers(text)
        return self._moments(text)

    def _moments(self, text: str) -> list[Choice]:
        """Return the choice that leads to the moment that was typed, if it is one."""
        try:
            at = moment_of(text, self.recording.playback())
        except UsageError:
            return []
        when = clock(at + self.recording.playback().wall_offset_s)
        return [Choice(f"go to {when}", "show that moment of the recording", "g", partial(self._go_to, at))]

    def action_loop(self, edge: int) -> None:
        self.recording.transport.set_loop(edge)
        self._moved()

    def action_unloop(self) -> None:
        self.recording.transport.unloop()
        self._moved()

    def on_scrubber_scrubbed(self, event: Scrubber.Scrubbed) -> None:
        if not self.modal_open:
            now = self.recording.playback()
            self._go_to(now.begins_at + event.share * (now.ends_at - now.begins_at))

    def _go_to(self, at: float) -> None:
        self.recording.go(at)
        self._moved()


def _none_further(now: Playback, step: int) -> str:
    if step > 0 and now.known_to < 1:
        return f"no mark after this in the {percent(now.known_to, 1)} read so far"
    return "no mark after this" if step > 0 else "no mark before this"
