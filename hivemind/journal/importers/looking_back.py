"""What a person's own recordings say in a few figures: requests, agents at once, and time and money that was lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

from hivemind.journal.importers.told import Told
from hivemind.providers.profiles import profile_for
from hivemind.scheduler.types import Price, Usage

_MINUTE_S = 60.0
_KEPT_S, _KEPT_1H_S = 300.0, 3600.0
"""How long Anthropic keeps a prompt after its last use (docs.claude.com, "Prompt caching")."""


@dataclass
class PlanSeen:
    """What answers stated of one window of a plan, such as `7d`."""

    most: float = 0.0
    """The largest share that was used, 0 to 1."""
    used_up: int = 0
    """How many of these windows were used up."""


@dataclass
class LookBack:
    """The figures."""

    began: float = 0.0
    ended: float = 0.0
    sources: Counter[str] = field(default_factory=Counter)
    """Sessions by the program that wrote them."""
    requests: int = 0
    agents: int = 0
    agents_at_once: int = 0
    """Most agents that asked for something within one minute."""
    failed: Counter[str] = field(default_factory=Counter)
    """Failed attempts by status."""
    lost_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds from the beginning of a failed attempt to that of the next one, by status."""
    unanswered: int = 0
    """Requests that ended in an error."""
    tokens: int = 0
    unmetered: int = 0
    """Answers of which no tokens are known."""
    dollars: float = 0.0
    stated_dollars: float | None = None
    """What the programs themselves counted; None: they don't say."""
    unpriced_tokens: int = 0
    expired_dollars: float = 0.0
    """What was paid for writing prompts again that the cache had forgotten."""
    expired: int = 0
    plan: dict[str, PlanSeen] = field(default_factory=dict)
    """By the name of a window of the user's plan."""


def look_back(attempts: Iterable[Told], price: Price) -> LookBack:
    """Count attempts."""
    found = LookBack()
    ordered = sorted(attempts, key=lambda told: (told.session, told.agent, told.at))
    minutes: set[tuple[int, str, str]] = set()
    sessions = set()
    for (session, agent), group in groupby(ordered, key=lambda told: (told.session, told.agent)):
        mine = list(group)
        sessions.add((mine[0].source, session))
        found.agents += 1
        minutes.update((int(told.at // _MINUTE_S), session, agent) for told in mine)
        _count_failures(found, mine)
        for told in mine:
            _count_usage(found, told, price)
        for dollars in _expired(mine, price):
            found.expired += 1
            found.expired_dollars += dollars
    found.plan = _plan(ordered)
    found.sources.update(source for source, _ in sessions)
    found.agents_at_once = max(Counter(minute for minute, _, _ in minutes).values(), default=0)
    found.began = min((told.at for told in ordered), default=0.0)
    found.ended = max((told.end or told.at for told in ordered), default=0.0)
    return found


def _count_failures(found: LookBack, mine: list[Told]) -> None:
    requests: dict[str, Told] = {}
    for number, told in enumerate(mine):
        name = told.request or f"\0{number}"
        before = requests.get(name)
        if before is None:
            found.requests += 1
        elif before.failed:
            found.lost_s[_kind(before)] += max(0.0, told.at - before.at)
        requests[name] = told
        if told.failed:
            found.failed[_kind(told)] += 1
    last = [told for told in requests.values() if told.failed]
    found.unanswered += len(last)
    for told in last:
        found.lost_s[_kind(told)] += max(0.0, (told.end or told.at) - told.at)


def _plan(attempts: Iterable[Told]) -> dict[str, PlanSeen]:
    found: dict[str, PlanSeen] = {}
    used_up: dict[str, float] = {}
    read = ((told.end or told.at, *each) for told in attempts for each in told.plan)
    for at, name, used, resets_at in sorted(read, key=lambda each: each[0]):
        seen = found.setdefault(name, PlanSeen())
        seen.most = max(seen.most, used)
        if used >= 1.0 and at >= used_up.get(name, 0.0):
            seen.used_up += 1
            used_up[name] = at if resets_at is None else resets_at
    return found


def _kind(told: Told) -> str:
    return "unknown" if told.status is None else "no answer" if told.status == 0 else str(told.status)


def _count_usage(found: LookBack, told: Told, price: Price) -> None:
    if told.usage is None:
        found.unmetered += not told.failed and not told.left
        return
    found.tokens += told.usage.total
    dollars = _cost(told, told.usage, price)
    if dollars is None:
        found.unpriced_tokens += told.usage.total
    else:
        found.dollars += dollars


def _cost(told: Told, usage: Usage, price: Price) -> float | None:
    return price(_provider(told.origin), told.model, usage)


@cache
def _provider(origin: str) -> str:
    return profile_for(origin or "recorded://").name


def _expired(mine: list[Told], price: Price) -> Iterator[float]:
    """For each request that wrote again what the one before had in the cache, because too much time had passed: what
    that cost beyond reading it."""
    before: Told | None = None
    for told in mine:
        if told.usage is None:
            continue
        if before is not None and before.usage is not None and before.model == told.model:
            held = before.usage.cache_read_tokens + before.usage.cache_write_tokens
            kept_s = _KEPT_1H_S if before.usage.cache_write_1h_tokens else _KEPT_S
            again = min(told.usage.cache_write_tokens, held - told.usage.cache_read_tokens)
            if again > held // 2 and told.at - (before.end or before.at) > kept_s:
                hour = min(again, told.usage.cache_write_1h_tokens)
                written = _cost(told, Usage(0, 0, again, 0, hour), price)
                read = _cost(told, Usage(0, again, 0, 0), price)
                if written is not None and read is not None:
                    yield written - read
        before = told
