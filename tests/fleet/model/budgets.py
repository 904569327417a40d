"""`budgets.lua` in Python: what all members together have used of each budget, and how much each may still use.

:func:`sync` takes the state and one member's report, and returns the answer; it has no clock and no randomness of its
own. Tests of the rule run it, and tests of the script compare both; the product runs the script alone.

Figures are kept by ledger rather than by process, so that a proxy that is started again on its own state goes on where
it was. A chunk is a part of what is left, which gets smaller with it, and at least as large as the next request. It is
kept for a member that falls silent until :data:`CHUNK_S`; some time before, the member ceases to use it. So nothing is
guessed while the store is away: what could be used then was set aside before. A request larger than all that is left is
let through at one member, when nothing else is in flight under the budget.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from hivemind.fleet.budgets import CHUNK_S, PROTOCOL, Amount, Decision, Defaults, Demand, Part, Reply, Report

LIVE_S = 3.0
"""A member that was silent for so long isn't waited for."""
LEARN_S = 3.0
"""How long a state that was lost gives nothing: all members sync meanwhile."""
FRESH_S = 1.25
"""Likewise where a proxy that has just started finds no state: the fleet may be as new, but others may be idle."""
GONE_S = 86400.0
"""A run of a proxy that was silent for so long has ended."""
KEPT_S = 8 * 86400.0
"""How long a day's or a run's account is kept that no member reports."""
EVER_KEPT_S = 90 * 86400.0
"""And one that counts for ever: as long as a proxy remembers an agent that isn't seen."""
PRUNE_EVERY_S = 1.0
"""What isn't kept is as if it weren't there; it is removed little by little: this often a few fields are looked at."""
MOST_CHANGES = 500
"""Revisions that are looked through for one answer."""


class OtherProtocol(Exception):
    """The state is of another protocol than the report."""


class Member(Struct, omit_defaults=True):
    """What is known of one ledger's proxy."""

    member: str
    seq: int
    rev: int = 0
    at: float = 0.0
    left: bool = False
    defaults: Defaults | None = None


class Entry(Struct, omit_defaults=True):
    """One ledger's part of an account."""

    raw: Amount = field(default_factory=Amount)
    """Used, as reported."""
    base: Amount = field(default_factory=Amount)
    """By how much it was more before: a kill loses the last moment's use."""
    unpriced: int = 0
    run: str = ""
    open: bool = False
    limit: dict[str, float] = field(default_factory=dict)
    flying: int = 0
    chunk: Amount = field(default_factory=Amount)
    """Set aside for it."""
    alone: bool = False
    short: bool = False
    """It waits for more than it was given."""
    until: float = 0.0
    """The chunk is kept so long."""
    member: str = ""
    """The process that reported it. Another one of the ledger has no chunk; what it doesn't report doesn't go on."""


class Account(Struct, omit_defaults=True):
    """One budget and period."""

    entries: dict[str, Entry] = field(default_factory=dict)
    lost: Amount = field(default_factory=Amount)
    """Used by ledgers that a lost state had known and that haven't been back since."""
    known: Amount | UnsetType = UNSET
    """While the state learns: the highest sum that a member remembers."""
    at: float = 0.0


class State(Struct):
    """All of it."""

    protocol: int = PROTOCOL
    epoch: str = ""
    version: int = 0
    rev: int = 0
    defaults_rev: int = 0
    learn_until: float = 0.0
    prune_at: float = 0.0
    members: dict[str, Member] = field(default_factory=dict)
    decided: dict[str, Decision] = field(default_factory=dict)
    order: dict[int, str] = field(default_factory=dict)
    """Names by the revision of their decision."""
    accounts: dict[str, Account] = field(default_factory=dict)


KINDS = ("tokens", "dollars")
EPS = 1e-9


def sync(state: State, report: Report, now: float, seed: str) -> Reply:
    """Take a report into the state, and return the answer. `now`: seconds since the epoch, by the store's clock; `seed`
    is random. Raises: OtherProtocol."""
    if state.protocol != report.protocol:
        raise OtherProtocol
    if not state.epoch:
        state.epoch = seed
        state.learn_until = now + (LEARN_S if report.epoch else FRESH_S)
    elif report.epoch == state.epoch and report.version > state.version:  # writes were lost
        state.version = report.version
        state.learn_until = now + LEARN_S
    reply = Reply(state.epoch, state.version, report.rev)
    before = state.members.get(report.ledger)
    if before is not None and now - before.at > GONE_S:
        before = None
    if before is not None and before.member == report.member and report.seq < before.seq:
        return reply
    state.version += 1
    reply.version = state.version
    reply.learning = now < state.learn_until
    _prune(state, now)
    _take_defaults(state, report, before)
    state.members[report.ledger] = Member(report.member, report.seq, report.rev, now, report.leaving, report.defaults)
    reply.kick = _take_decisions(state, report)
    for demand in report.accounts:
        _take_account(state, report, demand, now, reply)
    _tell_changes(state, report, reply)
    for member in state.members.values():
        if not member.left and now - member.at < CHUNK_S and member.defaults is not None:
            reply.defaults.append(member.defaults)
    return reply


def _is_live(member: Member | None, now: float) -> bool:
    return member is not None and not member.left and now - member.at < LIVE_S


def _take_defaults(state: State, report: Report, before: Member | None) -> None:
    if report.defaults != (None if before is None else before.defaults):
        state.rev += 1
        state.defaults_rev = state.rev


def _take_decisions(state: State, report: Report) -> bool:
    """Take what was decided. Return whether something was."""
    taken = False
    for name in sorted(report.decided):
        decision, held = report.decided[name], state.decided.get(name)
        if held is not None:
            if decision.version == 0 or (decision.version, decision.by) <= (held.version, held.by):
                continue
            state.order.pop(held.rev, None)
        state.rev += 1
        decision.rev = state.rev
        state.decided[name] = decision
        state.order[state.rev] = name
        taken = True
    return taken


def _tell_changes(state: State, report: Report, reply: Reply) -> None:
    last = min(state.rev, report.rev + MOST_CHANGES)
    for rev in range(report.rev + 1, last + 1):
        name = state.order.get(rev)
        if name is not None:
            reply.decided[name] = state.decided[name]
    reply.rev = last
    if last != report.rev:
        reply.again = True


def _prune(state: State, now: float) -> None:
    if now < state.prune_at:
        return
    state.prune_at = now + PRUNE_EVERY_S
    for name, member in list(state.members.items()):
        if now - member.at > GONE_S:
            del state.members[name]
    for name, account in list(state.accounts.items()):
        if _is_over(name, account, now):
            del state.accounts[name]


def _is_over(name: str, account: Account, now: float) -> bool:
    return now - account.at > (EVER_KEPT_S if name.split("|", 2)[1] == "ever" else KEPT_S)


# --- One account ------------------------------------------------------------------------------------------------------


def _take_account(state: State, report: Report, demand: Demand, now: float, reply: Reply) -> None:
    account = state.accounts.get(demand.account)
    if account is None or _is_over(demand.account, account, now):
        account = state.accounts[demand.account] = Account()
    entry = _entry(state, report, demand, account, now, reply.learning)
    _learn(account, demand, reply.learning)
    others = [
        each for name, each in account.entries.items() if name != report.ledger and _has_chunk(state, name, each, now)
    ]
    entry.limit, entry.flying, entry.unpriced = demand.limit, demand.flying, demand.unpriced
    kept = Amount(
        max(demand.chunk.tokens, demand.reserved.tokens, 0.0), max(demand.chunk.dollars, demand.reserved.dollars, 0.0)
    )
    wants = demand.active and not report.leaving
    holds = wants or (not report.leaving and (kept.tokens > EPS or kept.dollars > EPS))
    entry.until = now + CHUNK_S if holds else 0.0
    account.at = now
    used = _used(account)
    part = Part(demand.account, used, sum(each.unpriced for each in account.entries.values()))
    part.members = len(others) + (1 if wants else 0)
    entry.short = entry.alone = False
    limits = _limits([entry, *others])
    tight = any(each.short for each in others)
    if not wants:
        part.chunk = demand.reserved
    elif reply.learning or not _in_force(state, demand, now):
        part.chunk, part.alone = kept, demand.alone
        entry.short = demand.first.tokens > 0
    else:
        _give(demand, entry, others, limits, used, tight, part)
    entry.alone, held = part.alone, entry.chunk
    entry.chunk = Amount(max(kept.tokens, part.chunk.tokens), max(kept.dollars, part.chunk.dollars))
    shrinks = part.chunk.tokens < kept.tokens - EPS or part.chunk.dollars < kept.dollars - EPS
    if tight and shrinks:
        reply.again = True
    frees = entry.chunk.tokens < held.tokens - EPS or entry.chunk.dollars < held.dollars - EPS
    if (tight and frees) or (entry.short and any(_spare(each, limits) for each in others)):
        reply.kick = True
    reply.accounts.append(part)


def _entry(state: State, report: Report, demand: Demand, account: Account, now: float, learning: bool) -> Entry:
    """Count what the ledger has used."""
    ledger = report.ledger
    entry = account.entries.get(ledger)
    begins = demand.run and demand.open and (entry is None or entry.run != demand.run or not entry.open)
    others = [(name, each) for name, each in account.entries.items() if name != ledger]
    if begins and not learning and not any(_is_open(state, name, each, now) for name, each in others):
        # A run begins here, and none goes on elsewhere: counting begins anew.
        account.entries.clear()
        account.lost = Amount()
        if entry is not None and entry.run == demand.run:
            account.entries[ledger] = entry
    if entry is None and demand.run and not demand.open and not learning:
        return Entry(run=demand.run)  # of a run that had ended when counting began anew
    if entry is None:
        account.lost = _at_least(_minus(account.lost, demand.used))
        entry = account.entries[ledger] = Entry(run=demand.run)
    elif entry.run != demand.run:
        entry = account.entries[ledger] = Entry(run=demand.run)
    entry.base = _plus(entry.base, _at_least(_minus(entry.raw, demand.used)))
    entry.raw, entry.open, entry.member = demand.used, demand.open, report.member
    return entry


def _learn(account: Account, demand: Demand, learning: bool) -> None:
    """Remember use that only a lost state knew of."""
    if learning:
        known = _plus(demand.used, demand.elsewhere)
        if account.known is not UNSET:
            known = Amount(max(known.tokens, account.known.tokens), max(known.dollars, account.known.dollars))
        account.known = known
    elif account.known is not UNSET:
        lost = _minus(account.known, _minus(_used(account), account.lost))
        account.lost, account.known = _at_least(lost), UNSET


def _give(
    demand: Demand,
    entry: Entry,
    others: list[Entry],
    limits: dict[str, float],
    used: Amount,
    tight: bool,
    part: Part,
) -> None:
    """Decide the member's chunk, of both kinds."""
    fits, larger, open_, idle = True, False, True, not demand.flying
    for kind in KINDS:
        if kind not in limits:
            continue
        left = limits[kind] - getattr(used, kind)
        held = sum(getattr(each.chunk, kind) for each in others)
        reserved, first = getattr(demand.reserved, kind), getattr(demand.first, kind)
        room = max(0.0, left - held - reserved)
        if first > room + EPS:
            fits = False
            larger = larger or first > left + EPS
            more = 0.0
        else:
            spare = 0.0 if tight else max(0.0, left) / (2 * part.members)
            more = min(room, max(spare, first, min(getattr(demand.ask, kind), room / 2)))
        open_ = open_ and left > EPS
        idle = idle and held <= EPS
        setattr(part.chunk, kind, reserved + more)
    idle = idle and not any(each.flying or each.alone for each in others)
    if not fits and larger and open_ and idle:
        part.alone = True
        for kind in KINDS:
            if kind in limits:
                setattr(part.chunk, kind, limits[kind] - getattr(used, kind))
    entry.short = not fits and not part.alone


def _limits(entries: list[Entry]) -> dict[str, float]:
    """Return the smallest ceilings: until all members know of a higher one, the lower one holds."""
    found: dict[str, float] = {}
    for entry in entries:
        for kind, limit in entry.limit.items():
            found[kind] = min(found.get(kind, limit), limit)
    return found


def _in_force(state: State, demand: Demand, now: float) -> bool:
    """Whether all members know of the budget: one that doesn't may not have told yet what it used."""
    rev = state.defaults_rev if demand.default else 0
    decision = state.decided.get(demand.account.split("|", 2)[2])
    if decision is not None:
        rev = max(rev, decision.rev)
    return not any(member.rev < rev for member in state.members.values() if _is_live(member, now))


def _has_chunk(state: State, ledger: str, entry: Entry, now: float) -> bool:
    member = state.members.get(ledger)
    return entry.until > now and member is not None and not member.left and member.member == entry.member


def _is_open(state: State, ledger: str, entry: Entry, now: float) -> bool:
    member = state.members.get(ledger)
    if member is None or member.left or now - member.at >= GONE_S:
        return False
    return entry.open and member.member == entry.member


def _spare(entry: Entry, limits: dict[str, float]) -> bool:
    return any(getattr(entry.chunk, kind) > EPS for kind in limits)


def _used(account: Account) -> Amount:
    used = account.lost
    for entry in account.entries.values():
        used = _plus(used, _plus(entry.base, entry.raw))
    return used


def _plus(one: Amount, other: Amount) -> Amount:
    return Amount(one.tokens + other.tokens, one.dollars + other.dollars)


def _minus(one: Amount, other: Amount) -> Amount:
    return Amount(one.tokens - other.tokens, one.dollars - other.dollars)


def _at_least(amount: Amount) -> Amount:
    return Amount(max(0.0, amount.tokens), max(0.0, amount.dollars))
