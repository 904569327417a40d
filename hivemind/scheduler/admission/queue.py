"""The order in which waiting tickets are sent (paper, Priority Queue with Dependency DAG).

Priority class first; within it the earliest deadline, then the root that was served least, and of those that it started
likewise (fair queueing in weighted tokens, :mod:`.fair_share`; with `fairness` "agents" each agent is a root); of an
agent's own tickets the overdue, then those that were tried before, then the one whose turn comes first: it came first,
where a longer prompt counts as having come later (:attr:`.ticket.Ticket.turn_at`). Every operation costs O(log n) of
the waiting tickets.

A slot is kept for :data:`AWAITED_S` for an agent whose answer has just come, if its next request would be next.

Nothing starves. A class that waits without a grant competes one class higher for every `ageing_s`, and comes first
after `max_passes` grants in a row that passed it by. (The *class* ages, since a ticket that waits because its agent
used much shouldn't gain by it.) Within a class a root that waited `OVERDUE_S` without a grant is next, and within a
root's share an agent, so that many short-lived ones can't starve one that used much. An agent's own ticket that is
overdue (:attr:`.ticket.Ticket.overdue_at`) is passed by none of its others; and if it is the agent's turn, but a rate
window holds the ticket, by none of its class that would use up that window.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import chain

from hivemind.scheduler.admission.fair_share import (
    BEFORE_ALL,
    FEW,
    LATE,
    OVERDUE,
    Backlog,
    Band,
    Head,
    Line,
    Share,
    Tally,
    before,
    in_turn,
    part,
    valid,
)
from hivemind.scheduler.admission.warm_first import WORTH, WarmFirst, as_before
from hivemind.scheduler.config import QueueConfig
from hivemind.scheduler.ticket import OVERDUE_S, Agent, Ticket, TicketState
from hivemind.scheduler.types import Priority

AWAITED_S = 0.01  # how long a slot is kept for an agent whose answer has just come, if it would be next
AS_LONG = 2.0  # the others' prompts are taken for at most so many times as long, to guess what waits
_CLASSES = tuple(Priority)  # an enumeration itself is iterated slowly
EARLIEST = 2 * BEFORE_ALL
"""Sorts tickets with a deadline before all others of their class."""
MOST_AWAITED = 64  # agents that are considered for that
DEEPEST = 8  # shares within shares; agents that are further down compete with the last one above them


class LaneQueue:
    """All waiting tickets of a lane."""

    def __init__(
        self,
        config: QueueConfig,
        takes_s: Callable[[Ticket], float] = lambda _: 0.0,
        renew: Callable[[Ticket, float], None] = as_before,
    ) -> None:
        """`takes_s` and `renew`: see :class:`.warm_first.WarmFirst`."""
        self._config = config
        self._takes_s, self._renew = takes_s, renew
        self.paced: Callable[[str, Priority, float], float] | None = None
        """Returns for how long a family and class wait so that a plan lasts; None: none does."""
        self.waiting = 0
        self._bands: dict[tuple[str, Priority], Band] = {}
        self._shares: dict[str, Share] = {}
        """By agent, the share of its own requests; of one with children a member of the share of all of them."""
        self._trees: dict[str, Share] = {}
        """By agent, its share among its siblings."""
        self._unserved_since = [0.0] * len(Priority)
        self._contended = 0  # grants while others waited
        self._last_grant = [0] * len(Priority)
        """By class: the number of them at its last one, or when it began to wait."""
        self._entries = 0
        self._counts = [0] * len(Priority)  # by class: tickets that wait
        self._levels = [0.0] * len(Priority)
        """By class: its virtual time, at which the agent stood that was served last in its turn."""
        self._answered: deque[tuple[float, Share, Priority, float]] = deque(maxlen=MOST_AWAITED)
        """Answers of a moment ago: when, whose, in which class, and what they used."""
        self._due: list[tuple[float, int, Share]] = []
        """Shares to check for being overdue, and when; one entry a share."""

    def push(self, ticket: Ticket, now: float) -> None:
        """Add a ticket (in state QUEUED)."""
        share = self._shares.get(ticket.agent.name) or self._share(ticket.agent, now)
        priority = ticket.priority
        place = (ticket.request.family, priority)
        if (band := self._bands.get(place)) is None:
            band = self._bands[place] = Band(priority)
        line: Line = band
        if not self._counts[priority]:
            self._unserved_since[priority] = now
            self._last_grant[priority] = self._contended
        for each in share.descent:
            tally = each.tallies.get(priority) or each.tally(priority)
            if not each.waiting:
                each.since, each.overdue = now, False
            if not tally.waiting:
                tally.catch_up(each.levels[priority] - ticket.weight)
            each.waiting += 1
            tally.waiting += 1
            if (backlog := each.backlogs.get(place)) is None:
                each.backlogs = each.backlogs or {}
                backlog = each.backlogs[place] = Backlog(each, line)
            backlog.waiting += 1
            line.waiting += 1
            if each.due_at == math.inf:
                self._look_at(each, each.since + OVERDUE_S)
            if each is not share:
                line = backlog.members = backlog.members or Line(priority)
        if share.away:
            share.away -= 1
        self._entries += 1
        ticket.entry = self._entries
        backlog = share.backlogs[place]
        backlog.push(ticket)
        self._counts[priority] += 1
        self.waiting += 1
        if backlog.heap[0][1] is ticket:
            for each in share.line:
                each.backlogs[place].among.offer(each.backlogs[place])
        if ticket.deadline_at < math.inf and not share.paused:
            heappush(band.due, (ticket.deadline_at, ticket.entry, ticket))
            if len(band.due) > 2 * band.waiting + FEW:  # entries of those that left
                band.due[:] = sorted(entry for entry in band.due if valid((LATE, *entry[:2]), entry[2]))
        if band.order is not None or ticket.cached >= WORTH:
            self._order(ticket, band, share, now)

    def _order(self, ticket: Ticket, band: Band, share: Share, now: float) -> None:
        """Count the ticket among those that may go before their turn, if a cached prompt might expire in it."""
        if band.order is not None:
            if not share.paused:
                band.order.add(ticket, now)
            return
        if ticket.cached < WORTH or (band.waiting < band.order_above and now < band.order_from):
            return
        band.order_above, band.order_from = 2 * band.waiting, now + 1.0
        cached, ticket.cached = ticket.cached, 0
        all_s = AS_LONG * self._takes_s(ticket) * band.waiting
        ticket.cached = cached
        if all_s > ticket.warm_until - now:
            band.order = WarmFirst(self._takes_s, self._renew)
            for each in band.tickets():
                band.order.add(each, now)

    def warm_first(self, ticket: Ticket) -> bool:
        """Whether tickets like this one are sent by what is cached. Sent evenly then, all can be sent before they
        expire where bursts couldn't: of those sent together, the last one's next is up to a minute later."""
        band = self._bands.get((ticket.request.family, ticket.priority))
        return band is not None and band.order is not None and band.order.leads

    def warmed(self, ticket: Ticket, now: float) -> None:
        """Note what of a waiting ticket's prompt is in the provider's cache now."""
        band = self._bands[ticket.request.family, ticket.priority]
        self._order(ticket, band, self._shares[ticket.agent.name], now)

    def drop(self, ticket: Ticket) -> None:
        """Remove a ticket whose state is no longer QUEUED; its entries are skipped when they come up."""
        priority = ticket.priority
        place = (ticket.request.family, priority)
        self._counts[priority] -= 1
        self.waiting -= 1
        band = self._bands[place]
        share = self._shares[ticket.agent.name]
        if band.order is not None:
            band.order.leave(ticket)
        if band.turn is not None and band.turn.share is share and ticket.state is TicketState.IN_FLIGHT:
            band.turn = None
        for each in share.line:
            each.waiting -= 1
            each.tallies[priority].waiting -= 1
            backlog = each.backlogs[place]
            backlog.among.waiting -= 1
            backlog.leave(ticket)
            if not backlog.waiting:
                del each.backlogs[place]  # or each agent would keep one for every model that it ever used
        if not band.waiting:
            band.clear()
            del self._bands[place]  # or each model that was ever asked for would be looked at for each grant

    def reclass(self, ticket: Ticket, priority: Priority, now: float) -> None:
        """Move a waiting ticket to another class."""
        share = self._shares[ticket.agent.name]
        waits = [(each, each.since, each.overdue) for each in share.line]
        ticket.entry = 0
        self.drop(ticket)
        ticket.priority = priority
        self.push(ticket, now)
        for each, since, overdue in waits:
            each.since, each.overdue = since, overdue  # it waits as long as it did
        self._offer_again(share)

    def regroup(self, moved: list[Agent], parent: Agent, tickets: list[Ticket], now: float) -> None:
        """Count these waiting tickets, of agents that got another line of ancestors and of the new parent, where they
        belong now."""
        served = self._unserved_since[:], self._last_grant[:]
        for ticket in tickets:
            self.drop(ticket)
        for agent in (parent, *moved):
            self._shares.pop(agent.name, None)
        for agent in moved:
            self._trees.pop(agent.name, None)
        if (tree := self._trees.get(parent.name)) is not None:
            tree.paused = False  # the parent's own requests are a member of it
        for ticket in tickets:
            self.push(ticket, now)
        self._unserved_since, self._last_grant = served  # a class of which all were moved waits as long as it did

    def pick(
        self, now: float, delay_s: Callable[[Ticket, float], float], free: float = math.inf
    ) -> tuple[Ticket | None, float]:
        """Return the ticket to send next, left in place, or else the seconds until one may be sent.

        `delay_s` returns how long a ticket's rate windows hold it; `free` is the number of free slots. A family whose
        best ticket is held waits as a whole, so that small requests don't pass a large one by for ever.
        """
        if self._due and self._due[0][0] <= now:
            self._find_overdue(now)
        held: dict[str, Band] = {}
        best, soonest = self._best(now, delay_s, held)
        for band in held.values():
            soonest = min(soonest, band.hold(now))
        if best is None:
            return None, min(soonest, self._reordered_in_s(now)) if soonest < math.inf else soonest
        back_in_s = self._awaited_s(best, free, now) if self._answered else 0.0
        if back_in_s > 0:
            return None, min(soonest, back_in_s)
        ticket = best[2]
        if best[0] < OVERDUE and ticket.cached and not ticket.ahead and ticket.fair_at > ticket.warm_until:
            band = self._bands[ticket.request.family, ticket.priority]
            ticket.ahead = band.order is not None and ((fair := band.head(now)) is None or fair[2] is not ticket)
        return ticket, 0.0

    def probe(self, now: float, fits: Callable[[Ticket], bool]) -> Ticket | None:
        """Return the ticket to try an upstream with that kept failing: the first that hasn't failed yet, or else the
        one that failed longest ago."""
        oldest = None
        for ticket in self.upcoming(now, self.waiting):
            if not fits(ticket):
                continue
            if not ticket.attempts:
                return ticket
            if oldest is None or ticket.granted_at < oldest.granted_at:
                oldest = ticket
        return oldest

    def ready(self, now: float, delay_s: Callable[[Ticket, float], float]) -> Ticket | None:
        """Return a ticket that nothing but slots may keep, as :meth:`pick` would find it; changes nothing."""
        best, _ = self._best(now, delay_s, {})
        return None if best is None else best[2]

    @property
    def in_order(self) -> bool:
        """Whether a ticket waits of an agent that :meth:`pause` doesn't leave out."""
        return any(band.top() is not None for band in self._bands.values())

    def agents(self) -> Iterator[tuple[str, bool]]:
        """Yield the agents of which tickets wait, and whether :meth:`pause` leaves them out of the order."""
        return ((name, share.paused) for name, share in self._shares.items() if share.waiting)

    def places(self) -> set[tuple[str, Priority]]:
        """Return the families and classes of which tickets wait."""
        return set(self._bands)

    def in_line(self, now: float) -> Iterator[tuple[str, Priority, int, Ticket]]:
        """Yield family, class, number and the next of each agent's waiting tickets, without those that :meth:`pause`
        leaves out."""
        for share in self._shares.values():
            if not share.waiting or share.paused:
                continue
            for (family, priority), backlog in share.backlogs.items():
                first = backlog.first(now)
                if first is not None:
                    yield family, priority, backlog.waiting, first[1]

    def agents_at_work(self) -> list[int]:
        """Return how many roots have tickets in line or in flight, by class."""
        counts = [0] * len(Priority)
        for share in {share.descent[0] for share in self._shares.values()}:
            for priority, tally in share.tallies.items():
                if tally.sent or (tally.waiting and share.in_order):
                    counts[priority] += 1
        return counts

    def first(self, now: float) -> dict[str, Ticket]:
        """Return the ticket that is next in line, by family."""
        heads: dict[str, Ticket] = {}
        for (family, priority), band in self._bands.items():
            head = band.head(now) if band.order is None and not band.due else self._head(family, band, now)
            if head is not None and (family not in heads or priority < heads[family].priority):
                heads[family] = head[2]
        return heads

    def _head(self, family: str, band: Band, now: float) -> Head | None:
        """Return the band's ticket to send next, with its sort key: the one with the earliest deadline, else one whose
        prompt would expire, else the one whose turn it is."""
        while band.due:
            at, entry, ticket = band.due[0]
            if valid((LATE, at, entry), ticket) and not (share := self._shares[ticket.agent.name]).paused:
                return EARLIEST + at, (LATE, now, entry), ticket, share
            heappop(band.due)
        if band.order is None or (warm := band.order.first(now)) is None:
            return band.head(now)
        share = self._shares[warm.agent.name]
        first = share.backlogs[family, band.priority].first(now) or ((LATE, now, warm.entry), warm)
        return (BEFORE_ALL + now, *first, share)

    def _best(
        self, now: float, delay_s: Callable[[Ticket, float], float], held: dict[str, Band]
    ) -> tuple[Head | None, float]:
        """Return the first ticket that no rate window holds with its sort key, and the shortest delay of those before
        it, whose families and bands are put into `held`."""
        soonest = math.inf
        for priority in self._classes(now):
            best: Head | None = None
            for (family, _), band in self._bands.items():
                if band.priority is not priority or family in held:
                    continue
                if self.paced is not None and (paced_s := self.paced(family, priority, now)) > 0:
                    soonest = min(soonest, paced_s)
                    continue
                head = band.head(now) if band.order is None and not band.due else self._head(family, band, now)
                if head is None:
                    continue
                delay = delay_s(head[2], now)
                if delay > 0:
                    held[family] = band
                    soonest = min(soonest, delay)
                elif best is None or before(head, best):
                    best = head
            if best is not None:
                return best, soonest
        return None, soonest

    def served(self, ticket: Ticket, now: float) -> None:
        """Charge a ticket that was granted by its estimate, and note whose turn it was."""
        priority = ticket.served_as = ticket.priority
        ticket.shared = ticket.weight
        share = self._shares.get(ticket.agent.name) or self._share(ticket.agent, now)
        if self.waiting:
            self._contended += 1
            self._last_grant[priority] = self._contended
            self._unserved_since[priority] = now
        charged: list[tuple[Share, Tally]] = []
        waiting = self._counts[priority]
        for each in share.descent:
            tally = each.tallies.get(priority) or each.tally(priority)
            contended = waiting > tally.waiting
            waiting = tally.waiting
            if contended and not each.overdue and tally.served > each.levels[priority]:
                each.levels[priority] = tally.served
            each.since, each.overdue = now, False
            tally.take(ticket.shared, now, contended=contended)
            charged.append((each, tally))
        ticket.charged = charged
        if self.waiting:
            self._offer_again(share)

    def grow(self, ticket: Ticket, weighted_tokens: float) -> None:
        """Charge what a request in flight has used beyond its estimate at once, rather than at its end."""
        charged: list[tuple[Share, Tally]] | None = ticket.charged
        if charged is None:
            return
        more = weighted_tokens - ticket.shared
        for _, tally in charged:
            tally.served += more
            tally.in_flight += more
        ticket.shared = weighted_tokens
        if self.waiting:
            self._offer_again(charged[-1][0])

    def charge(self, ticket: Ticket, weighted_tokens: float, now: float) -> None:
        """Replace the estimate by what the ended attempt really used."""
        charged: list[tuple[Share, Tally]] | None = ticket.charged
        if charged is None:
            return  # it wasn't sent
        priority = ticket.served_as
        waiting = self._counts[priority]
        for share, tally in charged:
            contended = waiting > tally.waiting
            waiting = tally.waiting
            tally.settle(ticket.shared, weighted_tokens, share.levels[priority], now, contended=contended)
        if weighted_tokens:  # else it failed, or its client left
            share.away += 1
            self._answered.append((now, share, priority, weighted_tokens))
        if self.waiting:
            self._offer_again(share)

    def pause(self, agent: str, paused: bool) -> None:
        """Leave an agent's tickets out of the order, or put them back."""
        share = self._shares.get(agent)
        if share is not None:
            share.overdue = False
            for each in share.line:
                if each is share or not each.in_order:  # the virtual time of those that were left out catches up
                    for priority, tally in each.tallies.items():
                        tally.catch_up(each.levels[priority])
            share.paused = paused
            self._offer_again(share)
            for place, backlog in share.backlogs.items():
                band = self._bands[place]
                for ticket in backlog.tickets() if not paused else ():
                    if ticket.deadline_at < math.inf:
                        heappush(band.due, (ticket.deadline_at, ticket.entry, ticket))
                if (order := band.order) is not None:
                    for ticket in backlog.tickets():
                        order.leave(ticket) if paused else order.add(ticket, order.now)

    def forget(self, agent: str) -> None:
        """Drop what is kept of an agent that is gone."""
        self._shares.pop(agent, None)
        self._trees.pop(agent, None)

    def upcoming(self, now: float, count: int) -> Iterator[Ticket]:
        """Yield the next tickets in the order in which they would be sent if no others came and every estimate were
        right, for people."""
        left = {priority: self._in_turn(priority, now) for priority in _CLASSES if self._counts[priority]}
        since, last_grant, contended = self._unserved_since[:], self._last_grant[:], self._contended
        while left and count:
            rank = partial(self._rank_by, now=now, since=since, last_grant=last_grant, contended=contended)
            priority = min(left, key=rank)
            ticket = next(left[priority], None)
            if ticket is None:
                del left[priority]
                continue
            # As by `served`: a class that goes first because it was passed over does so once.
            count, contended, since[priority] = count - 1, contended + 1, now
            last_grant[priority] = contended
            yield ticket

    def _in_turn(self, priority: Priority, now: float) -> Iterator[Ticket]:
        """Yield the tickets of a class: those that go first for what is cached, and the others in fair order."""
        bands = [band for band in self._bands.values() if band.priority is priority]
        turns = [band.turn for band in bands if band.turn is not None and band.kept(now) is not None]
        kept = frozenset(share for backlog in turns for share in backlog.share.line)
        due = sorted(entry for band in bands for entry in band.due)
        soon = {
            ticket.id: ticket
            for at, entry, ticket in due
            if valid((LATE, at, entry), ticket) and not self._shares[ticket.agent.name].paused
        }
        orders = [band.order for band in bands if band.order is not None]
        ahead = soon | {ticket.id: ticket for order in orders for ticket in order.ahead(now)}
        return chain(ahead.values(), (ticket for _, ticket in in_turn([*bands], now, kept) if ticket.id not in ahead))

    def left_out(self, now: float) -> Iterator[Ticket]:
        """Yield the waiting tickets of agents that :meth:`pause` leaves out of the order."""
        for share in self._shares.values():
            for backlog in share.backlogs.values() if share.paused else ():
                yield from (ticket for _, ticket in backlog.ascending(now))

    def _share(self, agent: Agent, now: float) -> Share:
        """Return a share for the agent's own requests, which has none yet."""
        share = self._tree(agent, now)
        if agent.has_children and self._config.fairness == "roots" and len(share.line) < DEEPEST:
            share = Share(now, share.within, share)
        share.paused = agent.held
        self._shares[agent.name] = share
        return share

    def _tree(self, agent: Agent, now: float) -> Share:
        """Return the agent's share among its siblings, which is also that of all agents that it started."""
        ancestors = [agent]
        if self._config.fairness == "roots":
            while ancestors[-1].name not in self._trees and (above := ancestors[-1].parent) is not None:
                ancestors.append(above)
        tree: Share | None = None
        for each in reversed(ancestors):
            if each.name not in self._trees:
                if tree is not None and len(tree.line) == DEEPEST - 1:
                    tree = tree.above
                self._trees[each.name] = Share(now, self._levels if tree is None else tree.within, tree)
            tree = self._trees[each.name]
        return self._trees[agent.name]

    def _awaited_s(self, best: Head, free: float, now: float) -> float:
        """Return how long the best ticket waits for agents whose turn it would be, had they sent again already.

        If many answers end at one moment, the last in line would be sent only because the others are on their way
        back. As many slots are kept for a moment as there are such agents.
        """
        answered = self._answered
        while answered and answered[0][0] <= now - AWAITED_S:
            answered.popleft()
        standing, _, ticket, own = best
        if standing < OVERDUE:
            return 0.0
        rank: int | None = None
        first = math.inf
        for at, share, priority, used in answered:
            if share.waiting or not share.away:
                continue
            if priority is ticket.priority:
                mine, theirs = part(share, own) or (share.descent[0], None)
                served = mine.tallies[priority].served + used
                sooner = served < (standing if theirs is None else theirs.standing(priority))
            else:
                rank = self._rank(ticket.priority, now)[0] if rank is None else rank
                sooner = priority < rank
            if sooner:
                first, free = min(first, at), free - 1
        return first + AWAITED_S - now if free < 1 and first < math.inf else 0.0

    def _look_at(self, share: Share, at: float) -> None:
        self._entries += 1
        share.due_at = at
        heappush(self._due, (at, self._entries, share))

    def _find_overdue(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            share = heappop(self._due)[2]
            share.due_at = math.inf
            if not share.waiting or share.overdue:
                continue
            due_at = share.since + OVERDUE_S
            if due_at > now or not share.in_order:
                self._look_at(share, max(due_at, now + 1.0))
            else:
                share.overdue = True
                self._offer_again(share)

    @staticmethod
    def _offer_again(share: Share) -> None:
        for each in share.line:
            for backlog in each.backlogs.values():
                backlog.among.offer(backlog)

    def _classes(self, now: float) -> list[Priority]:
        """Return the classes in which tickets wait, most urgent now first."""
        counts = self._counts
        classes = [priority for priority in _CLASSES if counts[priority]]
        if len(classes) < 2:
            return classes
        return sorted(classes, key=lambda priority: self._rank(priority, now))

    def _reordered_in_s(self, now: float) -> float:
        """Return the seconds until a class competes higher, by which a ticket that fits may become its family's
        first."""
        ageing_s = self._config.ageing_s
        soonest = math.inf
        waiting = [priority for priority in Priority if self._counts[priority]]
        for priority in waiting if len(waiting) > 1 else ():
            since = self._unserved_since[priority]
            aged = int((now - since) / ageing_s)
            if aged < max(priority, 1):
                soonest = min(soonest, since + (aged + 1) * ageing_s - now)
        return max(soonest, 0.001)  # sums of floats may come out a little before the moment

    def _rank(self, priority: Priority, now: float) -> tuple[int, float]:
        return self._rank_by(priority, now, self._unserved_since, self._last_grant, self._contended)

    def _rank_by(
        self, priority: Priority, now: float, since: Sequence[float], last_grant: Sequence[int], contended: int
    ) -> tuple[int, float]:
        if contended - last_grant[priority] >= self._config.max_passes:
            return -1, since[priority]
        aged = int((now - since[priority]) / self._config.ageing_s)
        return max(0, priority - aged), since[priority] if aged else math.inf
