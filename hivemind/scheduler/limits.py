"""One rate window: an allowance of requests or tokens a minute (paper, Rate-Limit Tracking).

Two levels. *Proactive* (:class:`Window`): a sliding window of what was sent, seeded from the profile or the settings.
A limit that is only assumed, because nobody knows the provider, grows while it holds requests up and what was sent is
answered, and is cut to what was answered when the provider refuses.
*Reactive* (:class:`HeaderWindow`): what the provider's headers stated, less what has been sent since. Headers replace a
profile's guess but not a limit the user set.

Providers refill in one of two ways, inferred from their replies: a *fixed window* is whole again at its reset; a *token
bucket* refills continuously and states as its reset the moment it would be full. A reset far later than the refill
would take proves a fixed window; several in a row that fit make it a bucket; one far earlier is the end of a minute
that began before us, or of a window shorter than a minute. Until it is known, a window counts as fixed, which errs on
the side of waiting.

The windows kept here last a minute. A later reset means a longer window, clocks that disagree or a wrong value, which
one reply can't distinguish: such a window is *doubtful*. While it is used up, one request is sent every
:data:`PROBE_S` as a probe, and its reply replaces the earlier statement. A probe that is answered although nothing was
left halves the time to the next; one that is refused restores it. A reset later than :data:`MOST_RESET_S` can't be one
of a rate window and counts as not stated.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from hivemind.scheduler.credits import RING_S, Credits
from hivemind.scheduler.lease import Source, StatedWindow
from hivemind.scheduler.types import WindowKind, WindowReading

PERIOD_S = 60.0
EPOCH_SLACK_S = 2.0
"""Resets this close together are the same reset: relative forms are rounded, and read at varying moments."""
MARGIN_SHARE = 0.10
MARGIN_REQUESTS = 2
"""Left for others on the same key: at 10 % of the limit and at most 2 requests remaining, pause (paper)."""
MOST_GUARD_S = 1.0
FOREIGN_REQUESTS = 1
FOREIGN_SHARE = 0.02
"""Requests, plus a share of the limit, that may be missing from a bucket before another client is assumed."""
BUCKET_PROOF = 3  # readings that must fit a bucket before the window is treated as one
LATEST_S = PERIOD_S + 1.0  # the latest reset that a window of a minute has: most round seconds up
MAX_SHARE = 0.9
"""A request larger than this share of a whole window is sent when this much is left; else it would never fit."""
PROBE_S = 45.0
"""Between two probes of a doubtful window. Below a minute, so that a lane with a wrong reset answers within one, and
long enough that a day's window that really is used up costs few refusals."""
SHORTEST_PROBE_S = 1.0  # a shorter time between probes counts as none
MOST_RESET_S = 86400.0
"""The longest window that any provider states is a day's (requests per day: OpenAI, Groq)."""
LEASE_WAIT_S = 1.0
"""A ticket that waits for credits of a lease is looked at again after this; the next lease comes sooner."""
GROWTH, REFUSED_GROWTH = 0.25, 0.1
"""Shares by which an assumed limit grows a step: until the provider refuses, and from then on, once a minute."""
LEAST_FULL = 0.5
"""A refusal is about an assumed window only if it is as full as this, and cuts it to no less."""
_LARGEST = 1e15
"""Allowances beyond it are cut: sums of them stay exact enough, and no integer is too large for a float."""


class Charge(Struct, eq=False):
    """What one attempt takes from one window: an estimate until it is settled."""

    at: float
    amount: float
    probe: bool  # it was taken from a doubtful window without room for it
    confirmed: bool = False  # the provider's own count includes it
    expired: bool = False
    settled: bool = False


class HeaderWindow:
    """The headers' side of one rate window: what they stated, less what has been sent since."""

    def __init__(self, kind: WindowKind) -> None:
        self.limit: float | None = None  # None: no reply has stated one, so that nothing here limits
        self._kind = kind
        self._level = 0.0
        """What remains as far as known: the provider's last statement less what it hadn't counted then."""
        self._lowest = math.inf
        """Smallest remainder that a reply since the reset has stated; a fixed window only falls."""
        self._pending = 0.0  # sent without a reply yet, so perhaps not in the provider's count
        self._blind = 0.0  # sent and ended without a reading of the window, so perhaps counted
        self._blind_at = -math.inf
        self._read_at = -math.inf
        self._reset_at = math.inf
        self._guessed = False  # the reset is a guess: no reply of the present window has stated one
        self._epoch_at = -math.inf
        self._dripped_at = -math.inf
        self._own = 0.0  # charged by us since the reset
        self._missing = 0.0  # taken from a bucket lately by other clients
        self._foreign = False
        self._guard_s = 0.0
        """Waited beyond a stated reset, for a provider that was seen to round it down."""
        self._fixed = False
        self._bucket_signs = 0
        self.doubtful = False  # the provider's last stated reset is later than the window can last
        self._asked_at = -math.inf
        """When a request was last sent, or a reply first stated that a doubtful window is used up."""
        self._probe_s = PROBE_S  # from then until the next probe
        self.shared = False  # the other clients of the key are known, so that nothing is held back for them

    @property
    def _bucket(self) -> bool:
        return not self._fixed and self._bucket_signs >= BUCKET_PROOF

    @property
    def _margin(self) -> float:
        """Held back for other clients, unless the headers agree with our own count, so that there are none."""
        if self._kind is not WindowKind.REQUESTS or not self._foreign or self.limit is None or self.shared:
            return 0.0
        return min(MARGIN_REQUESTS, self.limit * MARGIN_SHARE)

    @property
    def level(self) -> float:
        """What remains (inf: the headers stated nothing)."""
        return math.inf if self.limit is None else self._level

    @property
    def pending(self) -> float:
        """Sent without a reply that has counted it."""
        return self._pending

    @property
    def left(self) -> float:
        """What may be taken (inf: the headers stated nothing); negative where more was promised already."""
        return math.inf if self.limit is None else self._level - self._margin

    def reset_in_s(self, now: float) -> float | None:
        """Return the seconds until the window is whole again; None: unknown."""
        return None if self.limit is None or math.isinf(self._reset_at) else max(0.0, self._reset_at - now)

    def probe_in_s(self, now: float) -> float | None:
        """Return the seconds until a probe of a used-up, doubtful window; None if it isn't doubtful, or not used up."""
        return self._doubt_s(now) if self.doubtful and self._level < 1 else None

    def delay_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` may be taken, 0 for now."""
        if self.limit is None:
            return 0.0
        missing = min(amount, self.limit * MAX_SHARE) + self._margin - self._level
        if missing <= 0:
            return 0.0
        if self.doubtful:
            delay = self._doubt_s(now)
            return max(delay, 0.001) if delay > 0 else 0.0
        if self._bucket:
            return max(missing * PERIOD_S / self.limit, 0.001)
        return max(self._reset_at - now, 0.001)

    def refilled_in_s(self, now: float, missing: float) -> float:
        """Return the seconds until so much more than is left may be taken by the headers, perhaps in several windows.

        For a doubtful window, until the next probe: the rest depends on its reply.
        """
        assert self.limit is not None
        if self.doubtful:
            return self._doubt_s(now)
        if self._bucket:
            return missing * PERIOD_S / self.limit
        return max(0.0, self._reset_at - now) + PERIOD_S * (math.ceil(missing / self.limit) - 1)

    def take(self, now: float, amount: float) -> bool:
        """Count an attempt that is sent. Return whether it is a probe."""
        probe = self.doubtful and self._level < min(amount, (self.limit or 0.0) * MAX_SHARE)
        self._asked_at = now
        self._pending += amount
        self._own += amount
        self._level -= amount
        return probe

    def forget(self, now: float) -> None:
        """Forget what was stated: the window counts as whole, less what no reply has counted yet."""
        if self.limit is not None:
            self._renew(now, now)
            self._probe_s = PROBE_S

    def probe_answered(self) -> None:
        """Probe more often: the provider served a probe, so it allows more than its headers state."""
        self._probe_s = self._probe_s / 2 if self._probe_s >= 2 * SHORTEST_PROBE_S else 0.0

    def probe_refused(self) -> None:
        """Probe as seldom as at first: the provider refused a probe, so its headers may be right."""
        self._probe_s = PROBE_S

    def settle(self, now: float, charge: Charge, real: float) -> None:
        """Replace the charge of an attempt that has ended by its real usage."""
        if not charge.confirmed:
            charge.confirmed = True
            self._pending -= charge.amount
            self._blind += real
            self._blind_at = now
        if charge.at >= self._epoch_at:
            self._level -= real - charge.amount
            self._own += real - charge.amount

    def join(self, other: HeaderWindow) -> None:
        """Take over what another one counts of the same window."""
        self._level = min(self._level - other._pending, other._level - self._pending)
        self._lowest = min(self._lowest, other._lowest)
        self._pending += other._pending
        self._blind += other._blind
        self._blind_at = max(self._blind_at, other._blind_at)
        self._own += other._own
        self._foreign = False

    def read(self, now: float, reading: WindowReading, started_at: float, charge: Charge | None) -> bool:
        """Take in what a reply's headers stated; `charge` is that attempt's own, `started_at` its beginning.

        Returns whether its reset is to be reported: it can't be one, or by it nothing is left for longer than the
        window can last.
        """
        limit = reading.limit if reading.limit is not None and reading.limit > 0 else self.limit
        remaining: float | None = reading.remaining
        if limit is None or remaining is None:
            return False
        limit, remaining = float(min(limit, _LARGEST)), float(min(max(remaining, 0), _LARGEST))
        reset_in_s, late, absurd = reading.reset_in_s, False, False
        if reset_in_s is not None:
            if reset_in_s <= LATEST_S:
                reset_in_s = max(reset_in_s, -PERIOD_S)
            elif reset_in_s <= MOST_RESET_S:
                late = True
            else:  # or it is no number
                reset_in_s, absurd = None, True
        self.roll(now)
        own = 0.0
        if charge is not None and not charge.confirmed and self._kind is not WindowKind.OUTPUT:
            own = charge.amount
            charge.confirmed = True
            self._pending -= own
        self.limit = limit
        if not late:
            self._judge(limit, remaining, reset_in_s)
        if started_at >= self._blind_at:
            self._blind = 0.0
        if late or (absurd and not self._bucket):
            self._read_doubtful(now, remaining, reset_in_s, started_at, own)
        elif self.doubtful and reset_in_s is None and not self._bucket:
            self._read_doubtful(now, remaining, self._reset_at - now, started_at, own)
        else:
            if self.doubtful:  # nothing of the doubtful window is comparable with this statement
                self.doubtful = False
                self._probe_s = PROBE_S
                self._reset_at = math.inf
            if self._bucket:
                self._read_bucket(now, remaining, started_at, own)
                if reset_in_s is not None:
                    self._reset_at = now + reset_in_s
            else:
                self._read_fixed(now, remaining, reset_in_s, started_at, own)
        self._read_at = now
        return absurd or (late and remaining <= 0 and not self._kind.is_long)

    def _read_doubtful(
        self, now: float, remaining: float, reset_in_s: float | None, started_at: float, own: float
    ) -> None:
        """Read a window of unknown length, and so of unknown beginning and use: the newest statement counts as it is.
        An unknown reset (None) is guessed."""
        had_room = self._level > 0 or not self.doubtful
        fresh = remaining - self._pending - self._blind
        self._level = fresh if started_at >= self._read_at else min(self._level + own, fresh)
        self._asked_at = now if had_room and self._level <= 0 else max(self._asked_at, started_at)
        self.doubtful = True
        self._guessed = reset_in_s is None
        self._reset_at = now + (PERIOD_S if reset_in_s is None else reset_in_s)
        self._epoch_at = -math.inf
        self._lowest = math.inf

    def _read_bucket(self, now: float, remaining: float, started_at: float, own: float) -> None:
        fresh = remaining - self._pending - self._blind
        if started_at >= self._read_at:
            self._watch_for_others(now, remaining)
            self._level = fresh
        else:  # an older reply may only lower the level; what it confirms was subtracted twice
            self._level = min(self._level + own, fresh)

    def _watch_for_others(self, now: float, remaining: float) -> None:
        """Add up by how much successive replies fall short of what is expected. Rounding and latency cancel out over
        them, what other clients take doesn't."""
        assert self.limit is not None
        noise = FOREIGN_REQUESTS + FOREIGN_SHARE * self.limit
        expected = min(max(remaining, self._level), self._level + self._pending + self._blind)
        faded = self._missing * 0.5 ** ((now - self._read_at) / PERIOD_S)
        self._missing = min(max(0.0, faded + expected - remaining), 2 * noise)
        self._foreign = self._missing > noise

    def _read_fixed(
        self, now: float, remaining: float, reset_in_s: float | None, started_at: float, own: float
    ) -> None:
        if reset_in_s is not None:
            # Most providers round up to whole seconds, so a little more than a minute means a minute.
            reset_at = now + min(reset_in_s + self._guard_s, PERIOD_S)
            if self._of_the_past(reset_at, remaining, started_at):
                if remaining <= 0 and reset_at > self._epoch_at - self._guard_s:
                    # The window before is still used up, so it was taken for over too early.
                    self._reset_at, self._level = reset_at, 0.0
                    self._guard_s = min(self._guard_s + 0.5, MOST_GUARD_S)
                return
            self._follow_reset(reset_at, self._pending + own)
        elif math.isinf(self._reset_at):
            self._begin_epoch(now + PERIOD_S, self._own)
            self._guessed = True
        self._lowest = min(self._lowest, remaining)
        limit = self.limit or 0.0
        self._foreign = limit - remaining > self._own
        self._level = self._lowest - self._pending - self._blind
        if not self._foreign:
            # Alone, the provider can't have counted more than we sent.
            self._level = max(self._level, limit - self._own)

    def _follow_reset(self, reset_at: float, unanswered: float) -> None:
        if math.isinf(self._reset_at):
            self._begin_epoch(reset_at, self._own)
        elif reset_at > self._reset_at + EPOCH_SLACK_S:
            self._begin_epoch(reset_at, unanswered)
        elif self._guessed:
            # The provider's minute began when our first request reached it, a little later than when we sent it.
            self._reset_at = reset_at
        else:
            self._reset_at = min(self._reset_at, reset_at)
        self._guessed = False

    def _of_the_past(self, reset_at: float, remaining: float, started_at: float) -> bool:
        """Whether this reset belongs to the window before. That the present one lasts a minute may be a guess, which is
        wrong if a reset after its beginning is stated, or something is left by a reply to a request sent since then."""
        if math.isinf(self._reset_at) or reset_at >= self._reset_at - EPOCH_SLACK_S:
            return False
        later = reset_at > self._epoch_at + EPOCH_SLACK_S
        return not (self._guessed and (later or (started_at >= self._epoch_at and remaining > 0)))

    def _judge(self, limit: float, remaining: float, reset_in_s: float | None) -> None:
        """Infer whether this is a fixed window or a bucket; see the module docstring."""
        if reset_in_s is None:
            return
        drip_s = (limit - remaining) * PERIOD_S / limit
        if reset_in_s > 1.5 * drip_s + EPOCH_SLACK_S:
            self._fixed = True
        elif 1.5 * reset_in_s + EPOCH_SLACK_S < drip_s:
            self._bucket_signs = 0
        elif not self._fixed:
            self._bucket_signs += 1

    def _begin_epoch(self, reset_at: float, own: float) -> None:
        if reset_at > self._reset_at or math.isinf(self._reset_at):
            self._lowest = math.inf
        self._reset_at = reset_at
        self._own = own
        self._epoch_at = reset_at - PERIOD_S - self._guard_s

    def roll(self, now: float) -> None:
        """Refill the bucket, or begin another window, up to now."""
        if self.limit is None:
            return
        if self._bucket and not self.doubtful:
            # Overdraft of an empty bucket is made up within a minute, so that every request fits by then.
            lowest = (MAX_SHARE - 1) * self.limit - self._pending
            drip = max(0.0, now - max(self._read_at, self._dripped_at)) * self.limit / PERIOD_S
            self._level = min(self.limit - self._pending, max(self._level, lowest) + drip)
            self._dripped_at = now
        elif now >= self._reset_at:
            self._renew(now, self._reset_at)

    def _renew(self, now: float, since: float) -> None:
        """Begin a window that has been whole since that moment; its end is a guess."""
        assert self.limit is not None
        self._level = self.limit - self._pending
        self._lowest = math.inf
        self._blind = 0.0
        self._own = self._pending
        self._epoch_at = since
        self._reset_at = now + PERIOD_S
        self._guessed = True
        self.doubtful = False

    def _doubt_s(self, now: float) -> float:
        """Return the seconds until a request may be sent through a used-up, doubtful window: as a probe, or because the
        reset has come."""
        return max(0.0, min(self._reset_at, self._asked_at + self._probe_s) - now)


Reservation = list[tuple["Window", Charge]]  # what one attempt takes from the windows of its lane and family


class Window:
    """One kind of allowance of one lane and model family."""

    def __init__(
        self,
        kind: WindowKind,
        limit: float | None,
        *,
        binding: bool = False,
        grows: bool = False,
        credits: Credits | None = None,
    ) -> None:
        self.kind = kind
        self._grows = grows
        self.refused = False  # the provider has refused what an assumed limit allowed
        self.changed_at = -math.inf  # when the assumed limit last grew or was cut
        self.credits = credits
        """What a lease allows of it, in place of our own limit; None: there are no leases."""
        self.limit = limit  # our own limit a minute; None: none
        self.binding = binding  # the user set the limit, so headers don't replace it
        self.enforced = limit is not None
        self.used = 0.0  # charged in the last minute
        self.reserved = 0.0  # the part of it that isn't settled yet
        self.stated = HeaderWindow(kind)
        self.stated.shared = credits is not None
        self._keep_s = PERIOD_S if credits is None else RING_S
        self._charges: deque[Charge] = deque()
        self.shared = False  # several families of models take from it
        self._into: Window | None = None  # the one that it was found to be the same as

    @property
    def present(self) -> Window:
        """The window that counts: the one that it was found to be the same as, or itself."""
        return self if self._into is None else self._into.present

    def join(self, other: Window, now: float) -> None:
        """Go on as one window with another one, which turned out to be the same."""
        self._roll(now)
        other._roll(now)
        self.stated.join(other.stated)
        self.used += other.used
        self.reserved += other.reserved
        self._charges = deque(sorted([*self._charges, *other._charges], key=lambda charge: charge.at))
        self.shared = True
        other._into = self

    def taken_since(self, at: float) -> float:
        """Return what was taken by requests that were sent since then, or aren't counted by a reply yet."""
        taken = 0.0
        for charge in reversed(self._charges):
            if charge.at < at - PERIOD_S / 2:
                break
            if charge.at >= at or not charge.confirmed:
                taken += charge.amount
        return taken

    @property
    def source(self) -> Source:
        """Where the limit in force comes from."""
        if self.stated.limit is not None and not self.binding:
            return "headers"
        return "settings" if self.binding else "refused" if self.refused else "assumed"

    @property
    def grows(self) -> bool:
        """Whether its limit is an assumption that may turn out to be wrong."""
        return self._grows and self.enforced and not self.binding and self.stated.limit is None

    def grow(self, now: float, settle_s: float, answered_from: float) -> float | None:
        """Raise an assumed limit that holds requests up. `answered_from`: the latest beginning of an attempt that was
        answered; `settle_s`: how long a change needs to show its effect.

        Returns 0 if it grew, else the seconds until it may; None: only when another attempt is answered, or where all
        proxies share it.
        """
        if self.credits is not None or self.limit is None or not self.may_grow(answered_from):
            return None
        wait_s = self.changed_at + (PERIOD_S if self.refused else settle_s) - now
        if wait_s > 0:
            return wait_s
        self.limit = float(math.ceil(self.limit * (1 + (REFUSED_GROWTH if self.refused else GROWTH))))
        self.changed_at = now
        return 0.0

    def may_grow(self, answered_from: float) -> bool:
        """Whether it is an assumption that held so far: an attempt was answered that began after its last change."""
        return self.grows and math.isfinite(answered_from) and answered_from >= self.changed_at

    def follow(self, now: float, changes: int, *, refused: bool) -> bool:
        """Take over what became of the assumed limit of all proxies. Return whether that is news."""
        assert self.credits is not None
        self.refused = refused
        if changes == self.credits.changes:
            return False
        self.credits.changes, self.changed_at = changes, now
        self.credits.refused = False
        return True

    def refuse(self, now: float) -> None:
        """Cut an assumed limit to what was answered in the last minute, because the provider refused more; one that
        all proxies share is cut by their store."""
        if self.credits is not None:
            self.credits.refused = self.credits.terms.by_credits
            return
        assert self.limit is not None
        self.limit = float(math.ceil(max(1.0, self.used - self.reserved, self.limit * LEAST_FULL)))
        self.refused = True
        self.changed_at = now

    def fill(self, now: float) -> float:
        """Return how much of the limit was taken in the last minute by all that share it, 1 for all of it."""
        self._roll(now)
        return self.used_by_all / self.full if self.full else 0.0

    @property
    def shown_limit(self) -> float | None:
        """The limit in force: of all proxies that share it, else as known here."""
        if self.credits is not None and self.credits.in_force is not None:
            return self.credits.in_force
        return self.own_limit

    @property
    def full(self) -> float:
        """The limit in force as a number: 0 where there is none."""
        return self.shown_limit or 0.0

    @property
    def own_limit(self) -> float | None:
        """The limit as known here: the user's, else the one the provider stated, else the profile's."""
        if self.binding and self.limit is not None:
            return self.limit if self.stated.limit is None else min(self.limit, self.stated.limit)
        return self.limit if self.stated.limit is None else self.stated.limit

    @property
    def limiting(self) -> bool:
        """Whether there is a limit, ours or a stated one, that is in force."""
        return bool(self.own_limit) and (self.enforced or self.stated.limit is not None)

    def set_limit(self, limit: float | None, *, binding: bool, grows: bool = False) -> None:
        """Change our own limit, or (None) drop it; what is used in the window stays counted."""
        self.limit = limit
        self.binding = binding
        self._grows, self.refused = grows, False
        self.enforced = limit is not None and (binding or self.stated.limit is None)

    @property
    def heeds_headers(self) -> bool:
        """Whether a hold follows here from what headers stated.

        Where credits count, the store compares it with what all proxies used; held here too, it would hold until a
        reset that others' replies have moved. Without the store, the share that is safe is below the limit anyway, and
        a window that all had used up just before would hold this proxy for a minute. Longer windows aren't leased.
        """
        return self.credits is None or self.stated.doubtful

    @property
    def stated_left(self) -> float:
        """What may be taken by the headers (inf: everything)."""
        return self.stated.left if self.heeds_headers else math.inf

    def sliding(self, now: float) -> tuple[float, Iterator[Charge]]:
        """Return the room under our own limit or the lease now (inf: there is none), and the charges against it, oldest
        first; those aren't known of a lease."""
        self._roll(now)
        if self.credits is not None:
            return self._leased(now, self.credits), iter(())
        if not self.enforced or self.limit is None:
            return math.inf, iter(())
        return self.limit - self.used, iter(self._charges)

    def remaining(self, now: float) -> float:
        """Return what may still be taken now, by the stricter of the two levels."""
        room, _ = self.sliding(now)
        if self.credits is not None and self.credits.used_by_all is not None:
            room = self.full - self.used_by_all
        return max(0.0, min(room, self.stated.level) if self.heeds_headers else room)

    def resets_in_s(self, now: float) -> float | None:
        """Return the seconds until the window is whole again; None: unknown."""
        stated_s = self.stated.reset_in_s(now)
        if stated_s is not None:
            return stated_s
        return max(0.0, self._charges[-1].at + PERIOD_S - now) if self._charges else None

    def _leased(self, now: float, credits: Credits) -> float:
        """Return what the lease still allows now (inf: everything)."""
        if not self.limiting:
            return math.inf
        return credits.left if credits.terms.by_credits else credits.limit_now(now, self.full) - self.used

    def _leased_delay_s(self, now: float, amount: float, credits: Credits) -> float:
        """Return the seconds until the lease allows `amount`, 0 for now: known only where a limit a minute counts."""
        if not self.limiting:
            return 0.0
        amount = min(amount, self.full * MAX_SHARE)
        if credits.terms.by_credits:
            return 0.0 if credits.covers(amount) else LEASE_WAIT_S
        limit = credits.limit_now(now, self.full)
        if amount > limit:
            return LEASE_WAIT_S
        excess = self.used + amount - limit
        return self._freed_in_s(now, excess) if excess > 0 else 0.0

    def waits_for_lease(self, now: float, amount: float) -> bool:
        """Whether `amount` may be taken only under another lease: the credits don't cover it, or the limit in their
        place doesn't at any time."""
        credits = self.credits
        if credits is None or self._leased_delay_s(now, amount, credits) <= 0:
            return False
        return credits.terms.by_credits or min(amount, self.full * MAX_SHARE) > credits.limit_now(now, self.full)

    def leased_in_s(self, now: float, missing: float) -> float:
        """Return a guess of the seconds until a lease allows so much more: at an even share of the limit."""
        assert self.credits is not None
        return missing * PERIOD_S * self.credits.terms.members / max(self.full, 1.0)

    @property
    def used_by_all(self) -> float:
        """What all proxies used in the last minute, as far as known."""
        credits = self.credits
        if credits is None or credits.used_by_all is None:
            return self.used
        return max(credits.used_by_all + sum(credits.used.values()), self.used)

    def delay_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` may be taken, 0 for now; a guess where other clients matter."""
        self._roll(now)
        stated, credits = self.stated, self.credits
        if credits is not None:
            delay = stated.delay_s(now, amount) if stated.limit is not None and self.heeds_headers else 0.0
            if amount <= credits.left:  # then credits count, and cover it
                return delay
            return max(delay, self._leased_delay_s(now, amount, credits))
        delay = 0.0 if stated.limit is None else stated.delay_s(now, amount)
        if self.enforced and self.limit is not None:
            most = self.limit * MAX_SHARE
            excess = self.used + (amount if amount < most else most) - self.limit
            if excess > 0:
                delay = max(delay, self._freed_in_s(now, excess))
        return delay

    def _freed_in_s(self, now: float, amount: float) -> float:
        """Return the seconds until charges of this amount are older than a minute."""
        for charge in self._charges:
            amount -= charge.amount
            if amount <= 0:
                return max(charge.at + self._keep_s - now, 0.001)
        return self._keep_s

    def take(self, now: float, amount: float) -> Charge:
        """Reserve an amount for a granted attempt."""
        charge = Charge(now, amount, probe=self.stated.take(now, amount))
        self._charges.append(charge)
        self.used += amount
        self.reserved += amount
        return charge

    def settle(self, now: float, charge: Charge, real: float) -> None:
        """Replace the reservation with the real usage."""
        if charge.settled:
            return
        charge.settled = True
        self.stated.settle(now, charge, real)
        if self.credits is not None:
            self.credits.settle(now, charge.at, charge.amount, real)
        if not charge.expired:
            self.reserved -= charge.amount
            self.used += real - charge.amount
        charge.amount = real

    def read(self, now: float, reading: WindowReading, started_at: float, charge: Charge | None) -> bool:
        """Take in what a reply's headers stated (:meth:`HeaderWindow.read`)."""
        self._roll(now)
        doubted = self.stated.read(now, reading, started_at, charge)
        limit = self.stated.limit
        if limit is None:
            return doubted
        if self.credits is not None and reading.remaining is not None and not self.stated.doubtful:
            remaining = float(min(max(reading.remaining, 0), _LARGEST))
            self.credits.stated = StatedWindow(limit, remaining, now, self.stated.reset_in_s(now))
            self.credits.heed(remaining)
        self.enforced = self.binding
        return doubted

    def _roll(self, now: float) -> None:
        """Expire and refill up to now, on both levels."""
        charges = self._charges
        while charges and charges[0].at <= now - self._keep_s:
            old = charges.popleft()
            old.expired = True
            self.used -= old.amount
            if not old.settled:
                self.reserved -= old.amount
        if self.stated.limit is not None:
            self.stated.roll(now)
