"""An agent as folded from events; what agents use: its cost, priced in batches off the path of requests, and budgets as
of the last sample."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from msgspec import field, structs

from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.warm_first import WORTH
from hivemind.scheduler.admission.warmth import Caching
from hivemind.scheduler.agents import process_of
from hivemind.scheduler.types import Price, Priority, Usage
from hivemind.text.amounts import ceiling
from hivemind.world.gauges import by_owner
from hivemind.world.health import STEP_S
from hivemind.world.snapshot import HUNG, IN_FLIGHT, MODELS_KEPT, AgentFacts, AgentState, AgentView, ModelView
from hivemind.world.state import Counts, WorldState
from hivemind.world.tickets import BY_OPERATOR, TicketFold

ENDS_AFTER_S = 3600.0
"""An agent without a process of its own counts as ended when it, and whoever it started, asked for nothing in this
time."""
UNNAMED_ENDS_AFTER_S = 600.0
"""The same for a sub-agent, and for one whose name was made of its client's session or its key."""

_ORDER = (HUNG, "streaming", "waiting", "background", "retry", "queued")
"""An agent with several tickets is shown in the most active state of them."""
ACTIVITY_STEPS = 24
"""Steps of :attr:`~hivemind.world.snapshot.AgentView.activity`."""
agent_values = attrgetter(*AgentState.__struct_fields__)
"""Returns the values of an agent's :class:`AgentState`."""
_as_shown = attrgetter(*AgentFacts.__struct_fields__)


class AgentFold(AgentState, eq=False):
    """An agent and what became of its requests."""

    tickets: dict[int, TicketFold] = field(default_factory=dict)
    """The open ones."""
    ran: bool = False
    """A process was started for it since this world began."""
    began_at: float = 0.0
    """When the last one was."""
    requests_before: int = 0
    """Its requests by then."""
    kept: AgentView | None = None
    """Its last view; None: more in it may have changed than :meth:`aged` changes."""
    kept_until: float = 0.0
    """The end of the step of its activity."""

    def retention(self) -> tuple[bool, float]:
        """Return the sort key for forgetting agents: first those without an operator's decision, seen longest ago."""
        return bool(self.held or self.stopped or self.budget is not None or self.running), self.last_seen

    def changed(self, event: ev.Event) -> None:
        """Apply one of the rarer events about it or a request of its own, before that request's usage is added."""
        match event:
            case ev.AttemptFailed():
                if event.retry_in_s is None:  # else its agent sees nothing of it
                    self.last_error, self.error_at = event.message or event.kind.value.replace("_", " "), event.at
                    self.failed += 1
                    self.spoiled = True
                else:
                    self.retries += 1
            case ev.Refused():
                self.refused += 1
                self.spoiled = self.spoiled or event.reason not in BY_OPERATOR
                self.refusal = event.reason.replace("_", " ")
                self.last_error, self.error_at, self.refused_at = f"refused: {self.refusal}", event.at, event.at
            case ev.AgentBegan():
                self.running, self.exit_code, self.stopped, self.trouble = True, None, False, ""
                self.refused_at = 0.0
                if self.ran or not event.resumed:  # else it began before this world did
                    self.requests_before = self.requests
                self.ran, self.began_at = True, event.at
                self.parent = event.parent or self.parent
                self.task = event.task
            case ev.AgentEnded():
                self.running, self.exit_code, self.task = False, event.exit_code, None
                excused = event.asked or event.paused or self.stopped
                self.trouble = "died" if event.exit_code and not excused else ""
            case ev.AgentRecalled():
                self.parent = event.parent or self.parent
                self.priority = self.priority if event.priority is None else event.priority
                self.held, self.stopped = event.paused, event.stopped
            case ev.BoostEnded():
                self.boosted_until = 0.0

    def used(self, usage: Usage, tokens: int, step: int) -> None:
        """Add usage of so many tokens that became known in this step."""
        self.usage += usage
        if step > self.step:
            self.earlier_tokens, self.step_tokens, self.step = self._tokens_before(step), 0, step
        self.step_tokens += tokens
        self.kept = None

    def cached(self, caching: Caching, usage: Usage, began_at: float) -> None:
        """Note for how long the provider keeps the prompt of an answer that began then."""
        if caching.tokens(usage) >= WORTH:
            self.cache_kept_s = caching.keeps_s(usage, self.cache_kept_s)
            self.warm_until = began_at + self.cache_kept_s

    def _tokens_before(self, step: int) -> tuple[int, ...]:
        """Return the tokens of the steps before this one, as many as are kept."""
        skipped = step - self.step - 1
        if skipped >= ACTIVITY_STEPS or not (self.step_tokens or self.earlier_tokens):
            return ()
        return (*self.earlier_tokens, self.step_tokens, *(0,) * skipped)[1 - ACTIVITY_STEPS :]

    def activity(self, at: float) -> tuple[int, ...]:
        """Return the tokens used in each of the last steps, the present one included, oldest first."""
        if (step := int(at / STEP_S)) > self.step:
            before = self._tokens_before(step)
            return (*before, 0) if any(before) else ()
        return (*self.earlier_tokens, self.step_tokens) if self.step_tokens or self.earlier_tokens else ()

    def cut_off(self, at: float, *, in_flight: bool) -> None:
        """Count a request that ended because the operator stopped the agent."""
        if at != self.cut_at:
            self.cut_at, self.cut, self.turned_away = at, 0, 0
        if in_flight:
            self.cut += 1
        else:
            self.turned_away += 1

    def commanded(self, event: ev.Commanded) -> str:
        """Carry out an operator's command about it. Return the value before, for the log."""
        about, before = event.arguments, ""
        match event.name:
            case "SetPriority":
                before = self.priority.name.lower()
                self.priority = Priority[about["priority"].upper()]
                for ticket in self.tickets.values():
                    ticket.priority = self.priority
                    ticket.note(event.at, "priority", about["priority"], event.who)
            case "BoostAgent":
                self.boosted_until = event.at + about["for_s"] if about["for_s"] > 0 else 0.0
                for ticket in self.tickets.values():
                    ticket.note(event.at, "boost", about["for_s"], event.who)
            case "PauseAgent":
                self.held = about["paused"]
            case "StopAgent":
                self.stopped = about["stopped"]
                before = self._stopped_by(event) if self.stopped else ""
            case "SetBudget":
                before = ceiling_before(self.budget, about)
        return before

    def _stopped_by(self, event: ev.Commanded) -> str:
        """Return how many requests the stop has ended or will end, in words."""
        states = [ticket.state for ticket in self.tickets.values()]
        in_flight = sum(state in IN_FLIGHT for state in states)
        waiting = len(states) - in_flight
        if event.at == self.cut_at:
            in_flight, waiting = in_flight + self.cut, waiting + self.turned_away
        parts = [f"{in_flight} in flight cut"] if in_flight else []
        parts += [f"{waiting} waiting refused"] if waiting else []
        return ", ".join(parts)

    def view(
        self,
        at: float,
        task: tuple[str | None, bool, float] = (None, False, 0.0),
        *,
        spent: bool = False,
        over: bool = False,
        paced_s: float = 0.0,
    ) -> AgentView:
        """Return its view at this moment, with what :meth:`.TaskBook.of` tells, if a budget is spent, whether it counts
        as ended while it has no request, and for how long it is held by a window's pace."""
        name, pending, paused_until = task
        state, in_flight, queued, waited_s, waiting_s = "ended" if over else "idle", 0, 0, self.waited_s, 0.0
        sent_s = 0.0
        if self.tickets:
            state, in_flight, queued, waits_s, waiting_s, sent_s = self._open(at)
            waited_s += waits_s
        refused = self.refused_at > self.answered_at
        held = self.stopped or self.trouble or self.held or spent or pending or refused
        if held and not in_flight:
            state = self._resting(state, spent=spent, pending=pending)
        return AgentView(
            *_as_shown(self),
            state=state,
            in_flight=in_flight,
            queued=queued,
            waited_s=waited_s,
            last_seen_s=at - self.last_seen,
            unpriced=self.usage.total - self.priced,
            boosted_for_s=self.boosted_until - at if self.boosted_until > at else 0.0,
            task=name or self.task,
            waiting_s=waiting_s,
            sent_s=sent_s,
            activity=self.activity(at),
            error_s=at - self.error_at if self.error_at else None,
            error_over=self.answered_at > self.error_at,
            refused_s=at - self.refused_at if refused else None,
            paced_s=paced_s,
            paused_s=max(0.0, paused_until - at),
            warm_s=(self.warm_until - at if self.warm_until > at else 0.0) if self.warm_until else None,
        )

    def keep(self, view: AgentView, at: float) -> AgentView:
        """Keep a view for :meth:`aged`, unless that doesn't change all that time will. Return it."""
        moves = (
            len(self.tickets) > 1 or view.refused_s is not None or view.boosted_for_s or view.paced_s or view.paused_s
        )
        self.kept, self.kept_until = None if moves else view, (int(at / STEP_S) + 1) * STEP_S
        return view

    def aged(self, view: AgentView, at: float) -> AgentView:
        """Return the view that was kept as it is at this later moment."""
        if view.activity and at >= self.kept_until:
            view = self.keep(structs.replace(view, activity=self.activity(at)), at)
        if not (self.tickets or self.error_at or self.warm_until):  # without a dictionary, in half the time
            return structs.replace(view, last_seen_s=at - self.last_seen)
        now = {"last_seen_s": at - self.last_seen}
        for ticket in self.tickets.values():
            if ticket.in_flight:
                now["sent_s"] = ticket.sent_s(at)
            else:
                now["waiting_s"] = waiting_s = ticket.waiting_s(at)
                now["waited_s"] = self.waited_s + waiting_s
        if self.error_at:
            now["error_s"] = at - self.error_at
        if self.warm_until:
            now["warm_s"] = max(0.0, self.warm_until - at)
        return structs.replace(view, **now)

    def _resting(self, state: str, *, spent: bool, pending: bool) -> str:
        """Return the state to show while nothing of it is in flight, if it is in this one by its requests and time."""
        held = (
            (self.stopped, "stopped"),
            (self.trouble == "died" and not spent, "died"),
            (self.held, "held"),
            (spent, "spent"),
            (pending, "pending"),
            (self.refused_at > self.answered_at and state == "idle", "refused"),
        )
        return next((name for holds, name in held if holds), state)

    def _open(self, at: float) -> tuple[str, int, int, float, float, float]:
        """Return of its open requests the most active state, how many are in flight and wait, the sum of the current
        waits, the longest one, and how long ago the first of those in flight was sent."""
        if len(self.tickets) == 1:  # as most of thousands
            (ticket,) = self.tickets.values()
            if ticket.in_flight:
                return ticket.shown, 1, 0, 0.0, 0.0, ticket.sent_s(at)
            waiting_s = ticket.waiting_s(at)
            return ticket.state, 0, 1, waiting_s, waiting_s, 0.0
        states = set[str]()
        waits_s, longest_s, sent_s, in_flight = 0.0, 0.0, 0.0, 0
        for ticket in self.tickets.values():
            states.add(ticket.shown)
            if ticket.in_flight:
                in_flight += 1
                sent_s = max(sent_s, ticket.sent_s(at))
            else:
                waiting_s = ticket.waiting_s(at)
                waits_s += waiting_s
                longest_s = max(longest_s, waiting_s)
        state = next(each for each in _ORDER if each in states)
        return state, in_flight, len(self.tickets) - in_flight, waits_s, longest_s, sent_s


def over(agents: Mapping[str, AgentFold], at: float) -> set[str]:
    """Return the names of agents that count as ended at this moment unless they have an open request.

    A process's sub-agents end with it. Without a process of its own, an agent ends by its silence, though not while one
    that it started goes on.
    """
    ended, live = set[str](), set[str]()
    for name, agent in agents.items():
        running, process = agent.running, None
        if "/" in name:
            process = process_of(name, agent.parent or "")
            if running is None and process is not None:
                lead = agents.get(process)
                running = None if lead is None or lead.running is not False else False
        if running is None:
            ends_after_s = ENDS_AFTER_S if process is None and not agent.made_up else UNNAMED_ENDS_AFTER_S
            running = at - agent.last_seen < ends_after_s
        elif not running:
            ended.add(name)
        if running or agent.tickets:
            live.add(name)
            while agent.parent and agent.parent not in live and (above := agents.get(agent.parent)) is not None:
                live.add(above.name)
                agent = above
    return ended | (agents.keys() - live)


def ceiling_before(state: ev.BudgetState | None, about: Mapping[str, Any]) -> str:
    """Return the budget before, in the words used for the one after; empty if there was none."""
    if state is None:
        return ""
    per, covers = (getattr(state, name) if about.get(name) is not None else None for name in ("per", "covers"))
    return ceiling(state.tokens, state.dollars, per, covers)


# --- What agents use -------------------------------------------------------------------------------------------------

PENDING_KEPT = 10_000
"""Usages noted and not priced yet; the oldest beyond stay unpriced."""
_DEEPEST = 16
"""Ancestors looked at, as requests name their parents themselves and may name any number."""


_SUMMED_MOST = 1000
"""Usages of a model that are kept apart."""
_counts = attrgetter(*Usage.__struct_fields__[:6])
"""Returns the tokens of each kind."""
_CACHED = {
    "waited": "expired_waiting",
    "thought": "expired_thinking",
    "switched": "switched",
    "order": "order_saved",
}


class Costs:
    """Adds the cost of usage to an agent and to the totals."""

    def __init__(self, counts: Counts, spent: Callable[[float, float], object]) -> None:
        """`spent` is told when something was used, and what it cost."""
        self._counts = counts
        self._spent = spent
        self._pending: deque[tuple[float, AgentFold, str, str, Usage]] = deque(maxlen=PENDING_KEPT)
        self._cached: deque[tuple[AgentFold, str, ev.PromptCached]] = deque(maxlen=PENDING_KEPT)
        self._models: dict[tuple[str, str], _ModelFold] = {}

    @property
    def models(self) -> tuple[ModelView, ...]:
        """What was used of each model, as far as it was priced, by first use."""
        return tuple([each.view() for each in self._models.values()])

    def restore(self, models: Iterable[ModelView]) -> None:
        """Take over what was used of each model."""
        self._models = {(each.provider, each.model): _ModelFold(each) for each in models}

    def note(self, at: float, agent: AgentFold, provider: str, model: str, usage: Usage) -> None:
        """Note the usage of a model by an agent."""
        self._pending.append((at, agent, provider, model, usage))

    def note_cached(self, agent: AgentFold, provider: str, event: ev.PromptCached) -> None:
        """Note what became of a prompt in the provider's cache."""
        self._cached.append((agent, provider, event))

    def settle(self, price: Price | None) -> None:
        """Price all noted usage; without prices, keep it for later."""
        if price is None:
            return
        while self._cached:
            agent, provider, cached = self._cached.popleft()
            more, name = cached.dollars(provider, price), _CACHED[cached.why]
            agent.kept = None
            for sums in (agent, self._counts):
                setattr(sums, name, getattr(sums, name) + more)
        pending, counts, models, spent = self._pending, self._counts, self._models, self._spent
        while pending:
            at, agent, provider, model, usage = pending.popleft()
            dollars = price(provider, model, usage)
            fold = models.get((provider, model)) or self._model(provider, model)
            tokens = fold.use(usage, dollars)
            if dollars is not None:
                spent(at, dollars)
                agent.kept = None
                agent.dollars += dollars
                agent.priced += tokens
                counts.dollars += dollars
                counts.priced += tokens

    def _model(self, provider: str, model: str) -> _ModelFold:
        """Return the fold of a model that isn't known yet; that of all others where there are too many."""
        key = (provider, model) if len(self._models) < MODELS_KEPT else ("", "")
        found = self._models.get(key)
        if found is None:
            found = self._models[key] = _ModelFold(ModelView(*key, Usage()))
        return found


class _ModelFold:
    """What was used of a model, summed up when somebody looks, or it is much."""

    __slots__ = ("_dollars", "_unpriced", "_used", "_view")

    def __init__(self, view: ModelView) -> None:
        self._view = view
        self._used: list[Usage] = []
        """Since that view."""
        self._dollars, self._unpriced = view.dollars, view.unpriced

    def use(self, usage: Usage, dollars: float | None) -> int:
        """Add usage and what it cost, None where that isn't known; return how many tokens it is."""
        self._used.append(usage)
        tokens = usage.total
        if dollars is None:
            self._unpriced += tokens
        else:
            self._dollars += dollars
        if len(self._used) >= _SUMMED_MOST:
            self.view()
        return tokens

    def view(self) -> ModelView:
        """Return it as snapshots show it."""
        if self._used:
            before = self._view
            sums = zip(*map(_counts, (before.usage, *self._used)), strict=True)
            plain, read, write, output, hour, estimated = map(sum, sums)
            usage = Usage(plain, read, write, output, hour, estimated)
            self._view = ModelView(before.provider, before.model, usage, self._dollars, self._unpriced)
            self._used.clear()
        return self._view


def add_model(models: dict[tuple[str, str], ModelView], use: ModelView) -> None:
    """Add a use to that of its model; to that of all others where there are too many models."""
    key = use.provider, use.model
    if key not in models and len(models) >= MODELS_KEPT:
        key = "", ""
    so_far = models.get(key)
    if so_far is None:
        models[key] = ModelView(*key, use.usage, use.dollars, use.unpriced)
    else:
        dollars, unpriced = so_far.dollars + use.dollars, so_far.unpriced + use.unpriced
        models[key] = ModelView(*key, so_far.usage + use.usage, dollars, unpriced)


class Budgets:
    """The budgets of all agents, and the pool's."""

    def __init__(self) -> None:
        self.pool: ev.BudgetState | None = None
        self.limited: list[AgentFold] = []
        """Agents with a budget of their own."""
        self._states: dict[str | None, tuple[ev.BudgetState, ...]] = {}
        self.shares: dict[str | None, float] = {}
        """By owner, what is used of its budget."""
        self.exhausted: dict[str | None, str] = {}
        """Owners of exhausted budgets, and what each budget covers."""

    def sampled(
        self, states: Iterable[ev.BudgetState], agents: Mapping[str, AgentFold], *, partial: bool = False
    ) -> None:
        """Take over the budgets from a sample: all, or those that aren't as before."""
        news = by_owner(states)
        if not partial:
            for agent in self.limited:
                agent.budget = agent.kept = None
            self.pool = None
            self.limited.clear()
            self.exhausted.clear()
            self.shares.clear()
            self._states.clear()
        self._states |= news
        for name, its in news.items():
            self.exhausted.pop(name, None)
            self.shares[name] = its[-1].share
            for state in its:
                if state.share >= 1:
                    self.exhausted[name] = state.covers
            if name is None:
                self.pool = its[-1]
            elif (owner := agents.get(name)) is not None:
                if owner.budget is None:
                    self.limited.append(owner)
                owner.budget, owner.kept = its[-1], None

    def agent_came(self, agent: AgentFold) -> None:
        """Give an agent that wasn't known the budget that it has."""
        if states := self._states.get(agent.name):
            agent.budget = states[-1]
            self.limited.append(agent)

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """Take over the given state; agents already have their budgets."""
        self.pool = state.pool
        self.limited = [agent for agent in agents.values() if agent.budget is not None]
        self.exhausted = dict(state.spent)
        self.shares = {agent.name: agent.budget.share for agent in self.limited if agent.budget is not None}
        known = (agent.budget for agent in self.limited if agent.budget is not None)
        self._states = by_owner(known if self.pool is None else (self.pool, *known))

    def all_spent(self, agents: Mapping[str, AgentFold]) -> set[str]:
        """Return the names of the agents of which :meth:`spent` is true."""
        return {name for name, agent in agents.items() if self.spent(agent, agents)} if self.exhausted else set()

    def spent(self, agent: AgentFold, agents: Mapping[str, AgentFold]) -> bool:
        """Return whether a budget that covers the agent is exhausted: its own, an ancestor's, or the pool."""
        if not self.exhausted:
            return False
        if agent.name in self.exhausted or None in self.exhausted:
            return True
        above = agents.get(agent.parent or "")
        for _ in range(_DEEPEST):
            if above is None:
                return False
            if self.exhausted.get(above.name) == "subtree":
                return True
            above = agents.get(above.parent or "")
        return False
