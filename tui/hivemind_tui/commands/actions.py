"""Every action that a key, a click or the palette can name, but for those about the screen itself."""

from __future__ import annotations

from dataclasses import replace

from hivemind.setup.clients import agent_line, quick_lines
from hivemind.setup.model import Target
from hivemind.text.shells import word
from hivemind_tui.commands.navigation import NavigationActions, into
from hivemind_tui.commands.whatif import WhatIfActions, what_if_line
from hivemind_tui.keys.keymap import parsed
from hivemind_tui.render.format import clean
from hivemind_tui.state.lists import line_fields, matching
from hivemind_tui.state.view import View


class Actions(NavigationActions, WhatIfActions):
    """Navigation, steering and what-if, and the keys that mean one of these by the page."""

    def run_key_action(self, action: str) -> None:
        """Run an action as the table of keys writes it, at once: the next key may be on its way already."""
        name, arguments = parsed(action)
        getattr(self, f"action_{name}")(*arguments)

    def action_open(self) -> None:
        if self.view.page == "tuning":
            self.ask_knob(self.view.knob)
        elif self.view.page == "whatif":
            self.simulate()
        else:
            self.go(into(self.view))

    def action_out(self) -> None:
        if self.view.page != "whatif" or not self.leave_whatif():
            super().action_out()

    def action_pick_knob(self, name: str) -> None:
        """Select a knob on a click, and ask for its value on a second one."""
        if self.view.knob == name:
            self.ask_knob(name)
        else:
            self.go(replace(self.view, knob=name))

    def action_pick_line(self, index: int) -> None:
        """Select and copy a line of the first screen on a click."""
        self.go(replace(self.view, scroll=index))
        self.action_copy()

    def action_copy(self) -> None:
        self.copy(text_to_copy(self.view))

    def action_theme(self) -> None:
        self.use_theme(self.themes[(self.themes.index(self.theme_name) + 1) % len(self.themes)])

    def action_freeze(self) -> None:
        self.go(replace(self.view, frozen=not self.view.frozen))


def text_to_copy(view: View) -> str:
    """Return what copying yields on a page: the line that sets an agent's base URL, a request's number, a line of the
    log. What a shell may be given is quoted for it; the rest is text on one line."""
    if view.page == "start":
        lines = quick_lines(view.snapshot.address, token=view.token, shell=view.shell)
        return lines[min(view.scroll, len(lines) - 1)][1]
    if view.page == "whatif":
        return what_if_line(view.what_if)
    if view.page == "tasks" and view.task is not None:
        return word(view.shell, view.task.id)
    if view.page in ("requests", "agent", "request") and view.request is not None:
        return clean(f"#{view.request.ticket} {view.request.agent} {view.request.model}".rstrip())
    if view.page == "log" and view.snapshot.lines:
        shown = matching(view.snapshot.lines, view.log_filter, line_fields) or view.snapshot.lines
        line = shown[max(0, len(shown) - 1 - view.log_back)]
        return clean(f"{line.tag} {line.who} {line.text}")
    name = view.agent.name if view.agent is not None else "alice"
    if not view.live:
        return word(view.shell, name)
    return agent_line(Target(view.snapshot.address, name, view.token, view.shell))
