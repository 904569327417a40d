"""The actions that steer the proxy: each sends the commands of an intent, some after a line or an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hivemind.scheduler.commands import Command, CutRequest, Drain, PauseAdmissions, Rejected, SetCircuit
from hivemind.scheduler.events import BudgetState
from hivemind.settings.write import Draft
from hivemind.text.humanise import short_count, short_dollars
from hivemind.world.alerts import unacknowledged
from hivemind.world.snapshot import AgentView
from hivemind_tui.commands import dialogs, intents
from hivemind_tui.commands.room import Room
from hivemind_tui.render.budgets import ceilings, period
from hivemind_tui.render.dials import reach, shown_value, tuned
from hivemind_tui.render.format import clean
from hivemind_tui.state.view import View, keep_order

_OF_AGENTS = frozenset({"priority", "hold", "boost"})
"""Intents about the selected agent."""


_OLD_S = 60.0
"""From this age on a change isn't undone without a question."""


class SteeringActions(Room):
    """Budgets, priorities, stops, knobs, the circuit, draining, and leaving."""

    def action_send(self, intent: str, *arguments: int) -> None:
        view, commands = self.view, intents.INTENTS[intent]
        if intent not in _OF_AGENTS or view.page == "tasks":
            self.steer(lambda view: commands(view, *arguments))
        elif view.following and view.agent is not None:
            self.go(keep_order(view))
            self.inform(f"the cursor stays on {view.agent.name} now: the same key again changes it")
        elif targets := self._targets():
            # Those that the operator sees selected, whatever is once the commands before this one are carried out.
            meant = frozenset(agent.name for agent in targets)
            self.steer(lambda view: commands(view, *arguments, meant=meant))

    def action_alerts(self) -> None:
        """List the alerts; a key acknowledges those that nobody has."""
        alerts = self.view.snapshot.alerts
        if not alerts:
            self.complain("there is no alert")
            return
        open_ = self.view.live and bool(unacknowledged(alerts))
        choices = {"A": partial(self.action_send, "acknowledge")} if open_ else {}
        self.ask("Alerts", partial(dialogs.alert_rows, pen=self._board.pen, acknowledges=open_), choices)

    def action_note(self) -> None:
        """Ask for a note, and write it."""
        hint = "stands on the curve, in log, journal and report"
        self.ask_value("note", lambda _, text: intents.note(text), hint=hint)

    def action_undo(self) -> None:
        """Undo the last change; ask before that where it stops traffic, or is older than a minute."""
        change = self.queue.last
        if change is None or not (change.stops_traffic or change.age_s > _OLD_S):
            self.queue.undo(self.source)
            return
        undo = partial(self.queue.undo, self.source, change)
        self.ask("Undo?", lambda _: dialogs.undo_question(change), {"y": undo, "u": undo})

    def action_budget(self) -> None:
        """Ask for a budget, for the agents selected now or for all together."""
        view = self.view
        if not view.snapshot.agents:
            self._ask_budget("all agents together", view.snapshot.pool, frozenset(), "pool ")
            return
        if not (targets := self._targets()):
            return
        names = frozenset(agent.name for agent in targets)
        if len(targets) > 1:
            self._ask_budget(named(targets), None, names)
            return
        agent = targets[0]
        used = f"{short_count(agent.usage.total)}, {short_dollars(agent.dollars)} used; "
        self._ask_budget(named(targets), agent.budget, names, used=used)

    def _ask_budget(
        self, whose: str, state: BudgetState | None, names: frozenset[str], prefix: str = "", used: str = ""
    ) -> None:
        if state is not None:
            now = " and ".join(f"{each.used} of {each.of}" for each in ceilings(state))
            used = f"now {now} {period(state)}; "
        more, pool = "" if state is None else "+50k, ", "" if prefix else "; pool 2M for all"

        def meant(view: View, text: str) -> list[Command]:
            return intents.budget(view, prefix + text, names)

        self.ask_value(f"budget of {whose}", meant, hint=f"{used}200k, $5/day, {more}none{pool}")

    def ask_knob(self, knob: str, text: str = "", trouble: str = "") -> None:
        """Ask for a knob's value; `text` was typed before, and refused because of `trouble`."""
        lane = self.view.lane
        now = lane.state.knobs.get(knob) if lane is not None else None

        def meant(view: View, text: str) -> list[Command]:
            return intents.set_knob(view, knob, text)

        hint = f"now {shown_value(knob, now)}, {reach(knob)}" if now is not None else reach(knob)
        self.ask_value(knob, meant, hint=hint, text=text, trouble=trouble)

    def action_stop(self) -> None:
        """Allow stopped agents again; else ask which way spending is to end."""
        targets: Sequence[AgentView] = ()
        if intents.steerable(self.view):
            targets = self._targets()
        if targets and all(agent.stopped for agent in targets):
            self.steer(intents.stop)
        else:
            self.stop_spending(frozenset(agent.name for agent in targets if not agent.stopped))

    def stop_spending(self, names: frozenset[str]) -> None:
        """Show what each way to stop these agents, or all traffic, costs and keeps."""
        choices: dict[str, Callable[[], object]] = {}
        if names:
            choices["y"] = partial(self.steer, partial(intents.stop, meant=names))
            choices["h"] = partial(self.steer, partial(intents.hold, meant=names))
        if self.view.snapshot.mode == "serving":
            choices["p"] = partial(self._send, PauseAdmissions(True))
            choices["D"] = partial(self._send, Drain(True))
        if (lane := self.view.lane) is not None and not (lane.state.circuit_forced and lane.state.circuit == "open"):
            choices["o"] = partial(self._send, SetCircuit("open", None))
        who = f"{len(names)} agents" if len(names) > 1 else "".join(map(clean, names))
        title = f"Stop {who}, or all spending?" if names else "Stop all spending?"
        self.ask(title, partial(dialogs.stop_question, names=names, offered=choices), choices)

    def action_cut(self) -> None:
        """Ask what becomes of a request of which nothing comes; on the page of tasks whether one is cancelled."""
        self.go(keep_order(self.view))
        self.attempt(self._ask_cancel if self.view.page == "tasks" else self._ask_cut)

    def _ask_cut(self) -> None:
        ticket = intents.to_cut(self.view)
        choices = {"c": partial(self._send, CutRequest(ticket.agent, ticket.ticket, retry=False))}
        if not ticket.begun:
            choices["r"] = partial(self._send, CutRequest(ticket.agent, ticket.ticket))
        title = f"Request {ticket.ticket} of {clean(ticket.agent)}"
        self.ask(title, partial(dialogs.cut_question, number=ticket.ticket), choices)

    def _ask_cancel(self) -> None:
        intents.cancel(self.view)
        task = intents.task_of(self.view)
        cancel = partial(self.steer, partial(intents.cancel, meant=task.id))
        self.ask(f"Cancel {clean(task.id)}?", partial(dialogs.cancel_question, task=task), {"y": cancel})

    def action_drain(self) -> None:
        if self.view.snapshot.mode == "draining":
            self._send(Drain(False))
        else:
            self.ask("Drain?", dialogs.drain_question, {"y": partial(self._send, Drain(True))})

    def action_circuit(self) -> None:
        lane = self.view.lane.state.lane if self.view.lane else None
        title, modes = f"Circuit of {clean(lane) if lane else 'every lane'}", dialogs.CIRCUIT_MODES.items()
        self.ask(title, dialogs.circuit_menu, {key: partial(self._send, SetCircuit(mode, lane)) for key, mode in modes})

    def action_leave(self) -> None:
        """Leave, after a question where the screen's own proxy has requests under way; another one goes on."""
        now = self.source.snapshot()
        if self.source.link.kind != "live" or not (now.slots or now.queued):
            self.exit("quit")
            return
        keys = "y", "q", "ctrl+c", "ctrl+q"
        self.ask("Quit?", dialogs.quit_question, dict.fromkeys(keys, partial(self.exit, "quit")))

    def action_write(self) -> None:
        self.queue.then(self._write_tuned)

    async def _write_tuned(self) -> None:
        lane = self.view.lane
        if self.view.page == "whatif":
            await self.offer_to_write(self.view.what_if.knobs)
        elif lane is None:
            self.complain("no lane yet: nothing was tuned")
        else:
            upstream = lane.state.upstream
            await self.offer_to_write(tuned(self.view.untuned.get(upstream, {}), lane.state.knobs), upstream)

    async def offer_to_write(self, values: Mapping[str, float], upstream: str = "") -> None:
        """Show what writing these values changes in the settings file, and write it if the operator agrees.

        `upstream`: whose knobs they are; empty: every upstream's.
        """
        if not values:
            self.complain("nothing was tuned here, so there is nothing to write")
            return
        try:
            draft = await self.source.draft(values)
        except Rejected as rejected:
            self.complain(f"nothing to write to: {rejected}")
            return
        if not draft.diff:
            self.complain(f"{draft.path} has these values already")
            return
        write = partial(self._write, draft, frozenset(values), upstream)
        rows = dialogs.write_question(draft)
        self.ask("Write the settings?", rows, {"y": lambda: self.run_task(write(), "write")})

    async def _write(self, draft: Draft, knobs: frozenset[str], upstream: str) -> None:
        try:
            await self.source.write(draft)
        except Rejected as rejected:
            self.complain(f"not written: {rejected}")
            return
        changed = self.view.untuned
        for each in [upstream] if upstream else [name for name in changed if changed[name].keys() <= knobs]:
            self.queue.untuned.pop(each, None)
        self.inform(f"wrote {draft.path}")

    def _send(self, command: Command) -> None:
        def just(_view: View) -> list[Command]:
            return [command]

        self.steer(just)

    def _targets(self) -> Sequence[AgentView]:
        self.go(keep_order(self.view))
        try:
            return intents.agents_of(self.view)
        except Rejected as rejected:
            self.complain(str(rejected))
            return ()


def named(agents: Sequence[AgentView]) -> str:
    """Return the agent's name, or how many there are."""
    return clean(agents[0].name) if len(agents) == 1 else f"{len(agents)} agents"
