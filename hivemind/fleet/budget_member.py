"""One proxy's side of its fleet's budgets: what to report, and what an answer allows.

Pure: the caller passes the time. Times are seconds of the scheduler's clock. A report is made anew for each attempt,
because all its figures are sums; only decisions are kept until they were answered, under their first version, so that
one that comes twice doesn't undo a later one of another proxy.
"""

from __future__ import annotations

import math
from typing import cast, get_args

import msgspec

from hivemind.fleet import budgets
from hivemind.records import replace
from hivemind.scheduler import shared_budgets
from hivemind.scheduler.accounts import POOL, Budget, Covers, Period, Spent
from hivemind.scheduler.config import BudgetConfig

MARGIN_S = 10.0
"""A chunk isn't used any more so long before the store gives it to others."""


class BudgetMember:
    """One proxy, as the fleet's budgets know it."""

    def __init__(self, ledger: str, member: str, machine: str, own: BudgetConfig) -> None:
        """`ledger` is random and kept with the proxy's state, `member` random and of this process; `machine` is its
        name, for people; `own` are its settings."""
        self.ledger = ledger
        self.lost = False
        """The last answer was of a state that knows nothing of before."""
        self._member = member
        self._machine = machine
        self._own = own
        self._seq = 0
        self._epoch = ""
        self._version = 0
        self._rev = 0
        self._known: dict[str, budgets.BudgetDecision] = {}
        self._unsent: dict[str, budgets.BudgetDecision] = {}
        self._sent: dict[str, shared_budgets.AccountReport] = {}
        """What the last report told of each account; by its name there."""
        self._sent_decisions: dict[str, budgets.BudgetDecision] = {}

    def report(self, told: shared_budgets.BudgetsReport, day: str, *, leaving: bool = False) -> budgets.BudgetReport:
        """Return what to send. `day` names the one that counts now."""
        for name, budget in told.decided.items():
            before = self._known.get(name)
            version = 0 if name in told.restored else 1 + (0 if before is None else before.version)
            covers = "all" if name == POOL else budget.covers
            decision = budgets.BudgetDecision(
                version, self.ledger, budget.tokens, budget.dollars, budget.per, covers, self._machine
            )
            self._known[name] = self._unsent[name] = decision
        self._seq += 1
        self._sent = {_name(each, day): each for each in told.accounts}
        self._sent_decisions = dict(self._unsent)
        own = self._own
        defaults: budgets.Defaults | None = budgets.Defaults(
            own.tokens, own.dollars, own.pool_tokens, own.pool_dollars, own.per
        )
        if own.tokens is own.dollars is own.pool_tokens is own.pool_dollars is None:
            defaults = None
        return budgets.BudgetReport(
            budgets.PROTOCOL,
            self.ledger,
            self._member,
            self._seq,
            self._epoch,
            self._version,
            self._rev,
            [_demand(name, each) for name, each in self._sent.items()],
            self._sent_decisions,
            defaults,
            leaving,
        )

    def take(self, reply: budgets.BudgetReply, sent_at: float) -> shared_budgets.BudgetsLease:
        """Return what an answer to the last report allows; `sent_at`: when that was sent."""
        self.lost = self._epoch not in ("", reply.epoch)
        for name, decision in self._sent_decisions.items():
            if self._unsent.get(name) is decision:
                del self._unsent[name]
        if self.lost:
            self._unsent = dict(self._known) | self._unsent
        self._epoch, self._version = reply.epoch, reply.version
        self._rev = 0 if self.lost else reply.rev
        lease = shared_budgets.BudgetsLease(sent_at + budgets.CHUNK_S - MARGIN_S)
        for name, decision in sorted(reply.decided.items()):
            mine = self._unsent.get(name)
            if mine is not None and (mine.version, mine.by) > (decision.version, decision.by):
                continue
            self._unsent.pop(name, None)
            self._known[name] = decision
            if (budget := _budget(decision)) is not None:
                lease.decided[name] = budget, decision.who
        lease.defaults = shared_budgets.smallest(
            (replace(BudgetConfig(), **msgspec.structs.asdict(each)) for each in reply.defaults), self._own
        )
        for part in reply.accounts:
            if part.account in self._sent:
                lease.accounts.append(_share(part, self._sent[part.account]))
        return lease


def _name(account: shared_budgets.AccountReport, day: str) -> str:
    name, covers = account.key
    per = account.budget.per
    when = {"day": f":{day}", "month": f":{day[:7]}"}.get(per, "")
    return f"{covers}|{per}{when}|{name}"


def _demand(name: str, told: shared_budgets.AccountReport) -> budgets.Demand:
    budget, used = told.budget, told.used
    limit = {}
    chunk = budgets.Amount()
    if budget.tokens is not None:
        limit["tokens"] = float(budget.tokens)
        chunk.tokens = max(0.0, told.cap[0] - used.tokens)
    if budget.dollars is not None:
        limit["dollars"] = budget.dollars
        chunk.dollars = max(0.0, told.cap[1] - used.dollars)
    return budgets.Demand(
        name,
        limit,
        told.default,
        budgets.Amount(used.tokens, used.dollars),
        used.unpriced,
        budgets.Amount(told.elsewhere.tokens, told.elsewhere.dollars),
        told.run,
        told.open,
        told.active,
        told.in_flight,
        budgets.Amount(*told.reserved),
        chunk,
        told.alone,
        budgets.Amount(*told.first),
        budgets.Amount(*told.ask),
    )


def _share(part: budgets.BudgetPart, told: shared_budgets.AccountReport) -> shared_budgets.AccountShare:
    budget, used = told.budget, told.used
    elsewhere = Spent(
        max(0, round(part.used.tokens - used.tokens)),
        max(0.0, part.used.dollars - used.dollars),
        max(0, part.unpriced - used.unpriced),
    )
    key: shared_budgets.AccountKey = told.key
    return shared_budgets.AccountShare(
        key,
        told.round,
        elsewhere,
        math.inf if budget.tokens is None else used.tokens + part.chunk.tokens,
        math.inf if budget.dollars is None else used.dollars + part.chunk.dollars,
        part.alone,
    )


def _budget(decision: budgets.BudgetDecision) -> Budget | None:
    """Return what was decided; None: it makes no sense here."""
    covers = "agent" if decision.covers == "all" else decision.covers
    if decision.per not in get_args(Period) or covers not in ("agent", "subtree"):
        return None
    try:
        return Budget(decision.tokens, decision.dollars, cast(Period, decision.per), cast(Covers, covers))
    except ValueError:
        return None
