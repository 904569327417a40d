"""Every action that a key, a click or the palette can name, but for those about the screen itself; and the palette."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from hivemind.journal.past import csv_of
from hivemind.lab.simulate.overrides import value_text
from hivemind.lab.simulate.questions import meaning_of
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.commands import Command, Rejected
from hivemind.setup.clients import Target, exports, quick_lines
from hivemind.text.shells import word
from hivemind_tui.commands import intents, navigation
from hivemind_tui.commands.files import FileActions
from hivemind_tui.commands.navigation import into
from hivemind_tui.commands.past import PastActions
from hivemind_tui.commands.steering import named
from hivemind_tui.commands.whatif import WhatIfActions, what_if_line
from hivemind_tui.commands.words import LABELS, PRIORITIES, Meant, agents_meant, knobs_meant, past_meant, words_of
from hivemind_tui.keys.keymap import Key, applies, here, parsed, steers
from hivemind_tui.render.dials import DIALS, NAMES, reach, shown_value
from hivemind_tui.render.format import clean
from hivemind_tui.state.log_rows import rows_of
from hivemind_tui.state.view import View
from hivemind_tui.whatif.state import QUESTIONS
from hivemind_tui.widgets.overlay import Choice

_NAMES: Mapping[str, tuple[str, str]] = {
    "start": ("connect", "url setup export"),
    "dearest": ("most expensive", "dearest"),
    "cost": ("", "spend spent money dollars last hour day history"),
    "span": ("", "last hour day 8 h 24 h history curves"),
    "raise": ("priority up", "nice urgent"),
    "lower": ("priority down", "nice"),
    "hold": ("", "pause resume release agent let go"),
    "stop": ("", "kill allow agent spending spend money cancel abort"),
    "less": ("max concurrency down", "ceiling"),
    "more": ("max concurrency up", "ceiling"),
    "pin": ("fix level", "pin level limit auto aimd unpin free"),
    "pin_agent": ("keep on top", "pin"),
    "journals": ("journals", "replay recordings runs yesterday earlier"),
    "report": ("report", "html page export"),
    "acknowledge": ("alerts", "ack acknowledge warnings"),
    "picture": ("picture", "screenshot save image export svg png"),
    "failing": ("trouble", "failing failed stuck hung died next"),
    "release": ("end wait", "release pause rate limit retry-after"),
    "lane": ("next lane", ""),
    "lane_back": ("lane before", ""),
    "turn_up": ("turn up", "knob step later forward"),
    "turn_down": ("turn down", "knob step earlier back"),
    "turn_far_up": ("turn far up", "knob step later forward"),
    "turn_far_down": ("turn far down", "knob step earlier back"),
    "pause": ("pause all", "freeze all resume admissions"),
    "drain": ("", "accept take requests"),
    "quit": ("", "exit leave"),
    "freeze": ("freeze view", "still unfreeze"),
    "inside": ("diagnostics", "inside the screen"),
}
"""By id of a key, its name here where the id doesn't say it, and further words to find it by."""


class Actions(PastActions, WhatIfActions, FileActions):
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

    def action_turn(self, steps: int) -> None:
        if self.view.page == "whatif":
            self.vary(steps)
        else:
            self.action_send("turn", steps)

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
        self._use_theme(self.themes[(self.themes.index(self.theme) + 1) % len(self.themes)])

    def action_freeze(self) -> None:
        self.go(replace(self.view, frozen=not self.view.frozen))

    # --- The palette -------------------------------------------------------------------------------------------------

    def choices(self) -> list[Choice]:
        """Return what can be run from where the operator is."""
        choices = [self._key(key) for key in here(self.view) if key.listed]
        what_if = self.view.page == "whatif"
        choices += [self._knob(knob) for knob in NAMES if self.view.live or what_if]
        choices += [self._question(name) for name in QUESTIONS if what_if]
        choices += [
            Choice(f"sort by {column}", "", "", partial(self.action_sort_by, column))
            for column in navigation.columns(self.view)
        ]
        choices += [
            Choice(
                f"theme {name.removeprefix('hivemind-')}",
                "use these colours",
                "",
                partial(self._use_theme, name),
            )
            for name in self.themes
        ]
        choices += [
            Choice(f"agent {agent.name}", "look closer", "", partial(self._open_agent, agent.name), "open")
            for agent in self.view.snapshot.agents
        ]
        choices += [
            Choice(label, what.meaning, "", partial(self.run_key_action, what.action))
            for label, what in LABELS.items()
            if self._leads(what.action)
        ]
        return choices

    def _leads(self, action: str) -> bool:
        """Return whether an action does anything here, or on the page that it shows first."""
        name, arguments = parsed(action)
        page = str(arguments[0]) if name in ("page", "sorted_page") else self.view.page
        if not self.view.live and steers(name, arguments):
            return False
        return applies(name, arguments, page, self.view.live)

    def offers(self, text: str) -> list[Choice]:
        """Return what a sentence means: a knob at a number (`max concurrency 4`), what becomes of an agent (`alice
        high`), a budget, a level to pin, a filter."""
        knobs, number = knobs_meant(text)
        offers = self._looked_back(text)
        offers += [
            Choice(
                f"{DIALS[knob].label} {number}",
                f"set it to {number} ({knob})",
                reach(knob),
                partial(self._set_knob, knob, number),
            )
            for knob in knobs
            if self.view.live or self.view.page == "whatif"
        ]
        if self.view.live:
            names = [agent.name for agent in self.view.snapshot.agents]
            offers += [self._said(meant) for meant in agents_meant(text, names)]
        name, _, value = text.replace("=", " ", 1).strip().partition(" ")
        name, value = name.lower(), value.strip()
        if not value:
            return offers
        if self.view.page == "whatif":
            offers += [
                Choice(f"{asked} {value}", meaning_of(asked).means, "", partial(self._set_knob, asked, value))
                for asked in QUESTIONS
                if name in (asked, asked.rpartition(".")[2])
            ]
        if name == "budget" and not any(choice.name.startswith("budget of") for choice in offers):
            offers.append(self._budget(value))
        elif name == "filter" and self.view.page in navigation.FILTERED:
            words = "show only what fits"
            offers.append(Choice(f"filter {value}", words, "/", lambda: self.go(navigation.filtered(self.view, value))))
        elif name == "pin" and self.view.lane is not None:
            pin = partial(self.steer, partial(intents.pin_at, text=value))
            offers.append(Choice(f"pin {value}", "pin the concurrency level there", "", pin))
        return offers

    def _looked_back(self, text: str) -> list[Choice]:
        """Return the choice that shows a span, or what was spent in it."""
        looked = past_meant(text)
        if looked is None or self.view.page == "whatif":
            return []
        if looked.costs or self.view.page == "cost" or looked.span in ("today", "since start"):
            by, span = looked.by or self.view.back.by, looked.span or self.view.back.costs
            show = partial(self.go, navigation.costs(self.view, by, span))
            return [Choice(f"cost by {by}, {span}", "what was used in that time, sorted", "8", show)]
        return [Choice(f"last {looked.span}", "curves of that time", "H", partial(self.look_back, looked.span))]

    def _said(self, meant: Meant) -> Choice:
        """Return the choice that does what a sentence says of an agent."""
        name, verb = meant.agent, meant.verb
        commands: Mapping[str, Command] = {
            "allow": cmd.StopAgent(name, False),
            "hold": cmd.PauseAgent(name, True),
            "release": cmd.PauseAgent(name, False),
            "boost": cmd.BoostAgent(name, intents.BOOST_S),
        }
        if verb == "open":
            return Choice(f"open {name}", "its requests, tokens and cost", "", partial(self._open_agent, name))
        if verb in ("more", "less"):
            step = -1 if verb == "more" else 1
            moved = partial(intents.priority, step=step, meant=frozenset({name}))
            words = f"{'raise' if step < 0 else 'lower'} its priority by one class"
            return Choice(f"{name} {verb}", words, "+" if step < 0 else "-", partial(self.steer, moved))
        if verb == "stop":
            return Choice(
                f"stop {name}", "says first what is lost", "x", partial(self.stop_spending, frozenset({name}))
            )
        if verb == "budget":
            budget = partial(intents.budget, text=meant.value, meant=frozenset({name}))
            return Choice(f"budget of {name}", f"set it to {meant.value}", "B", partial(self.steer, budget))
        if verb == "priority":
            priority = PRIORITIES[meant.value]
            command: Command = cmd.SetPriority(name, priority)
            words = f"set its priority to {priority.name.lower()}"
            return Choice(f"{name} {meant.value}", words, "+ -", partial(self._send, command))
        return Choice(f"{verb} {name}", "now", "", partial(self._send, commands[verb]))

    def _key(self, key: Key) -> Choice:
        name, words = _NAMES.get(key.id, ("", ""))
        run = partial(self.run_key_action, key.action)
        words = f"{key.label} {key.group} {words}"
        return Choice(name or key.id.replace("_", " "), key.help, key.shown, run, words)

    def _knob(self, knob: str) -> Choice:
        lane, dial, simulated = self.view.lane, DIALS[knob], self.view.page == "whatif"
        now = self.view.what_if.value(knob) if simulated else lane.state.knobs.get(knob) if lane is not None else None
        value = "" if now is None else shown_value(knob, now)
        ask = partial(self.action_other if simulated else self.ask_knob, knob)
        return Choice(knob, f"{dial.label}: {dial.meaning}", value, ask, f"knob {' '.join(sorted(words_of(knob)))}")

    def _question(self, name: str) -> Choice:
        value = next((value_text(each.value) for each in self.view.what_if.asked if each.name == name), "")
        return Choice(name, meaning_of(name).means, value, partial(self.action_other, name), "provider")

    def _budget(self, value: str) -> Choice:
        targets = self.view.targets
        names = frozenset(agent.name for agent in targets)
        pooled = value.startswith("pool") or not targets
        who = "all agents together" if pooled else named(targets)
        value = f"pool {value}" if pooled and not value.startswith("pool") else value
        set_budget = partial(intents.budget, text=value, meant=names)
        return Choice(f"budget {value}", f"of {who}", "B", partial(self.steer, set_budget))

    def _use_theme(self, name: str) -> None:
        self.theme = name

    def _open_agent(self, name: str) -> None:
        self.go(navigation.open_agent(self.view, name))

    def _set_knob(self, knob: str, value: str) -> None:
        try:
            if self.view.page == "whatif":
                self.set_setting(f"{knob}={value}")
            else:
                intents.set_knob(self.view, knob, value)
                self.steer(partial(intents.set_knob, knob=knob, text=value))
        except Rejected as rejected:
            ask = self.action_other if self.view.page == "whatif" else self.ask_knob
            ask(knob, value, str(rejected))


def text_to_copy(view: View) -> str:
    """Return what copying yields on a page: the line that sets an agent's base URL, a request's number, a line of the
    log. What a shell may be given is quoted for it; the rest is text on one line."""
    if view.page == "start":
        lines = quick_lines(view.address, token=view.token, shell=view.shell)
        return lines[min(view.scroll, len(lines) - 1)][1]
    if view.page == "cost" and view.costs:
        return csv_of(view.costs, view.back.by)
    if view.page == "whatif":
        return what_if_line(view.what_if)
    if view.page == "tasks" and view.task is not None:
        return word(view.shell, view.task.id)
    if view.page in ("requests", "agent", "request") and view.request is not None:
        return clean(f"#{view.request.ticket} {view.request.agent} {view.request.model}".rstrip())
    if view.page == "log" and view.snapshot.lines:
        shown = view.log_rows or rows_of(view.snapshot.lines)
        row = shown[max(0, len(shown) - 1 - view.log_back)]
        return clean(f"{row.line.tag} {row.name} {row.text}")
    if view.page == "fleet" and view.proxy is not None:
        return word(view.shell, clean(view.proxy.address))
    name = view.agent.name if view.agent is not None else "alice"
    if not view.live:
        return word(view.shell, name)
    return exports(Target(view.address_of(view.agent), name, view.token, view.shell), "ANTHROPIC_BASE_URL")
