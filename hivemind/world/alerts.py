"""What the operator is told of by itself: rules from a snapshot to alerts, when one begins and when it is over.

Pure. Whoever runs the proxy calls :meth:`AlertBook.check` about once a second and publishes the events that it returns;
the world folds them into :attr:`.Snapshot.alerts`. What still holds isn't told again, and what comes and goes around
its mark is one alert: it is raised at the mark, and over only once it stayed well below for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from msgspec import Struct

from hivemind.records import replace
from hivemind.scheduler.commands import Acknowledge, AlertRule, NotKnown
from hivemind.scheduler.events import AlertOver, AlertRaised, BudgetState
from hivemind.text.amounts import how_used, owner
from hivemind.text.humanise import dollars, duration, exit_text, plural
from hivemind.world.gates import OPERATORS
from hivemind.world.health import Alert, AlertLimits
from hivemind.world.snapshot import HUNG, Snapshot

RULES: tuple[AlertRule, ...] = get_args(AlertRule)
"""An agent died; a request in flight is hung; one waited for long; a budget is nearly used up; a circuit is open for
long; dollars are spent faster than wanted."""
ALERTS_KEPT = 200
"""Of more the oldest are forgotten."""
QUIET_S = 10.0
"""What doesn't hold for so long is over, of rules that may come and go."""
LOWER = 0.8
"""An alert goes on until its figure is below this share of its mark."""
_ONE = frozenset({"wait"})
"""Rules of which there is one alert at a time, whoever it names."""


class Condition(Struct, frozen=True):
    """Something that an alert is about, at one moment."""

    rule: str
    about: str
    text: str
    begins: bool = True
    """It is beyond its mark; else only so near to it that an alert goes on."""
    after_s: float = 0.0
    """How long it has to last before it is an alert."""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others."""
        return _key(self.rule, self.about)


def _key(rule: str, about: str) -> tuple[str, str]:
    return rule, "" if rule in _ONE else about


def conditions(snapshot: Snapshot, limits: AlertLimits) -> Iterator[Condition]:
    """Yield what is beyond its mark, or near to it."""
    if limits.died:
        yield from _died(snapshot)
    if limits.wait_s:
        yield from _hung(snapshot)
        if snapshot.mode == "serving":
            yield from _wait(snapshot, limits.wait_s)
    if limits.budget_share:
        yield from _budgets(snapshot, limits.budget_share)
    if limits.circuit_s:
        yield from _circuits(snapshot, limits.circuit_s)
    spent = snapshot.vitals.dollars_per_hour
    if limits.dollars_per_hour and spent > LOWER * limits.dollars_per_hour:
        text = f"{dollars(spent)} an hour are spent, more than {dollars(limits.dollars_per_hour)}"
        yield Condition("spend", "", text, spent > limits.dollars_per_hour)


def _died(snapshot: Snapshot) -> Iterator[Condition]:
    for agent in snapshot.agents:
        if agent.state == "died":
            how = "" if agent.exit_code is None else f" ({exit_text(agent.exit_code)})"
            yield Condition("died", agent.name, f"{agent.name} died{how}")


def _hung(snapshot: Snapshot) -> Iterator[Condition]:
    """Yield the agents with a request of which nothing comes."""
    for ticket in snapshot.slots:
        if ticket.state == HUNG:
            silent = duration(round(ticket.silent_s))
            yield Condition("hung", ticket.agent, f"nothing of {ticket.agent}'s answer has come for {silent}")


def _wait(snapshot: Snapshot, limit_s: float) -> Iterator[Condition]:
    """Yield the longest current wait, so that a hundred agents that wait are one alert."""
    gated = {ticket.agent for ticket in snapshot.queue if ticket.gate in OPERATORS}
    gated -= {ticket.agent for ticket in snapshot.queue if ticket.gate not in OPERATORS}
    free = [agent for agent in snapshot.agents if agent.waiting_s and not agent.held and agent.name not in gated]
    longest = max(free, key=lambda agent: agent.waiting_s, default=None)
    if longest is None or longest.waiting_s < LOWER * limit_s:
        return
    others = sum(agent.waiting_s >= limit_s for agent in free) - 1
    more = f", and {plural(others, 'other agent')} for more than {duration(limit_s)}" if others > 0 else ""
    text = f"{longest.name} waits for {duration(round(longest.waiting_s))}{more}"
    yield Condition("wait", longest.name, text, longest.waiting_s >= limit_s)


def _budgets(snapshot: Snapshot, share: float) -> Iterator[Condition]:
    own = ((agent.budget, agent) for agent in snapshot.agents)
    states: list[BudgetState] = [] if snapshot.pool is None else [snapshot.pool]
    states += [state for state, agent in own if state is not None and state.owner == agent.name]
    for state in states:
        if state.share >= LOWER * share:
            whole = "used up" if state.share >= 1 else f"used to {state.share:.0%}".replace("%", " %")
            text = f"{owner(state)} is {whole}: {how_used(state)}"
            yield Condition("budget", state.owner or "", text, state.share >= share)


def _circuits(snapshot: Snapshot, limit_s: float) -> Iterator[Condition]:
    for view in snapshot.lanes:
        lane = view.state
        if lane.circuit != "closed":
            forced = ", as the operator set it" if lane.circuit_forced else ""
            text = f"the circuit of {lane.lane} is open for more than {duration(limit_s)}{forced}"
            # While its probe is under way it is half-open, which begins no alert and ends none.
            yield Condition("circuit", lane.lane, text, lane.circuit == "open", limit_s)


class AlertBook:
    """Which alerts hold: from snapshots to their beginnings and ends."""

    def __init__(self, limits: AlertLimits) -> None:
        self.limits = limits
        self._raised = 0
        """Alerts so far."""
        self._held: dict[tuple[str, str], tuple[AlertRaised, float]] = {}
        """Those that hold, and when that was seen last."""
        self._since: dict[tuple[str, str], float] = {}
        """When what may become one began."""

    def check(self, snapshot: Snapshot) -> list[AlertRaised | AlertOver]:
        """Return what begins and what is over at this snapshot."""
        now, changes = snapshot.at, list[AlertRaised | AlertOver]()
        found = {condition.key: condition for condition in conditions(snapshot, self.limits)}
        self._since = {key: since for key, since in self._since.items() if key in found}
        for key, condition in found.items():
            if key in self._held:
                self._held[key] = self._held[key][0], now
                continue
            if condition.begins:
                self._since.setdefault(key, now)
            since = self._since.get(key)
            if since is not None and condition.begins and now - since >= condition.after_s:
                self._raised += 1
                raised = AlertRaised(now, self._raised, condition.rule, condition.about, condition.text)
                self._held[key] = raised, now
                changes.append(raised)
        for key, (raised, seen) in list(self._held.items()):
            quiet_s = 0.0 if raised.rule in ("died", "budget") else QUIET_S
            if key not in found and now - seen >= quiet_s:
                del self._held[key]
                changes.append(AlertOver(now, raised.number, raised.rule, raised.about, raised.text))
        return changes


class AlertFold:
    """The alerts of a world: those that hold, and those that nobody has acknowledged."""

    def __init__(self, alerts: tuple[Alert, ...] = ()) -> None:
        self._alerts = {alert.number: alert for alert in reversed(alerts)}

    def raised(self, event: AlertRaised) -> None:
        """Add one; it takes the place of an earlier one about the same that is over."""
        for alert in list(self._alerts.values()):
            if alert.over and _key(alert.rule, alert.about) == _key(event.rule, event.about):
                del self._alerts[alert.number]
        if len(self._alerts) >= ALERTS_KEPT:
            del self._alerts[next(iter(self._alerts))]
        self._alerts[event.number] = Alert(event.number, event.rule, event.about, event.text, event.at)

    def over(self, event: AlertOver) -> None:
        """End one; it stays until somebody acknowledges it."""
        alert = self._alerts.get(event.number)
        if alert is not None and alert.acknowledged:
            del self._alerts[event.number]
        elif alert is not None:
            self._alerts[event.number] = replace(alert, over=True)

    def acknowledged(self, who: str, about: str | None, rule: str | None) -> None:
        """Note that these were seen."""
        for alert in list(self._alerts.values()):
            if not _concerns(alert, about, rule):
                continue
            if alert.over:
                del self._alerts[alert.number]
            else:
                self._alerts[alert.number] = replace(alert, acknowledged=alert.acknowledged or who)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Return them, that raised last first."""
        return tuple(reversed(self._alerts.values()))


def check_acknowledge(command: Acknowledge, alerts: tuple[Alert, ...]) -> None:
    """Check that there is what a command acknowledges, unless it is all. Raises: NotKnown."""
    wanted = command.about, command.rule
    if wanted == (None, None) or unacknowledged(alerts, *wanted):
        return
    which = " ".join(each for each in (command.rule, command.about and f"about {command.about!r}") if each)
    known = sorted({alert.about or alert.rule for alert in unacknowledged(alerts)})
    raise NotKnown(f"no alert {which} waits to be acknowledged", known)


def unacknowledged(alerts: tuple[Alert, ...], about: str | None = None, rule: str | None = None) -> list[Alert]:
    """Return the alerts that nobody has acknowledged: about an agent or lane, of a rule, or all."""
    return [alert for alert in alerts if not alert.acknowledged and _concerns(alert, about, rule)]


def _concerns(alert: Alert, about: str | None, rule: str | None) -> bool:
    return about in (None, alert.about) and rule in (None, alert.rule)
