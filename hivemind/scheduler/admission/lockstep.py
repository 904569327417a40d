"""Notices that families of models share a rate window: what is stated of it for one goes on with another's requests.

Providers limit families of models apart, or all of a key together, and no header says which. Windows kept apart where
there is one promise a multiple of its limit. Two families share one if replies to them state the same limit and reset,
each remainder goes on from the other's, and more is missing than the family itself has taken. A coincidence does so
once; :data:`PROOF` times in a row, without a reply that says otherwise, is taken for proof. The same number of replies
that say otherwise parts them again.
"""

from __future__ import annotations

from msgspec import Struct

from hivemind.scheduler.limits import EPOCH_SLACK_S, PERIOD_S, Window
from hivemind.scheduler.types import WindowKind, WindowReading

PROOF = 3
COMPARED_S = 10.0  # a statement that is older isn't compared
_FAMILIES = 4
"""Families whose last statements are compared with the next one; agents make up models' names."""
_SLACK = 2.0  # requests by which counts may differ: what crossed on its way
_SLACK_SHARE = 0.02  # of a limit of tokens, which are counted otherwise here
_ESTIMATED = 1.25  # times what tokens were counted here


class _Statement(Struct):
    window: Window
    limit: int
    remaining: int
    reset_at: float | None
    at: float
    started_at: float  # when the attempt began that it is a reply to


class Lockstep:
    """The families' last statements of one kind of window, and what speaks for each two sharing it."""

    def __init__(self) -> None:
        self._last: dict[str, _Statement] = {}
        self._signs: dict[frozenset[str], int] = {}
        """By two families: successive replies that speak for one window; of two that share one, against it."""

    def read(self, now: float, family: str, window: Window, reading: WindowReading, started_at: float) -> str | None:
        """Take in what a reply to a family's attempt, begun at `started_at`, states of its window. Return a family
        that it proves to share it, or not to share it any more."""
        if not reading.limit or reading.remaining is None:
            return None
        reset_at = None if reading.reset_in_s is None else now + reading.reset_in_s
        said = _Statement(window, reading.limit, reading.remaining, reset_at, now, started_at)
        last = self._last
        found = None
        for other, before in last.items():
            if other == family or now - before.at > COMPARED_S:
                continue
            joined = before.window.present is window
            agrees = _agrees(said, before)
            if agrees is None:
                continue
            pair = frozenset((family, other))
            signs = self._signs[pair] = self._signs.get(pair, 0) + 1 if agrees is not joined else 0
            if signs >= PROOF:
                found = other
                del self._signs[pair]
        last.pop(family, None)
        last[family] = said
        if len(last) > _FAMILIES:
            gone = next(iter(last))
            del last[gone]
            self._signs = {pair: signs for pair, signs in self._signs.items() if gone not in pair}
        return found


def _agrees(said: _Statement, before: _Statement) -> bool | None:
    """Return whether a statement of one family goes on from another's; None: that can't be told."""
    window, others, limit, passed_s = said.window, before.window.present, said.limit, said.at - before.at
    ordered = said.started_at >= before.at  # else it may tell of an earlier moment
    if limit != before.limit:
        return False
    fell = before.remaining - said.remaining
    if said.reset_at is not None and before.reset_at is not None:
        if before.reset_at <= said.at + EPOCH_SLACK_S:
            return None  # a new window may have begun
        moved_s = said.reset_at - before.reset_at
        drained_s = passed_s + fell * PERIOD_S / limit  # a bucket is whole the later, the more was taken from it
        if min(abs(moved_s), abs(moved_s - drained_s)) > EPOCH_SLACK_S:
            return False if ordered else None
    elif said.reset_at is not before.reset_at:
        return None
    requests = window.kind is WindowKind.REQUESTS
    slack = _SLACK if requests else max(_SLACK_SHARE * limit, _SLACK)
    ahead = window.taken_since(said.started_at)
    if others is not window:
        ahead += others.taken_since(said.started_at)
    if -fell > slack + limit * passed_s / PERIOD_S + (0.0 if ordered else ahead):
        return False if ordered and said.reset_at is not None else None
    taken = window.taken_since(before.at) + (0.0 if others is window else others.taken_since(before.at))
    if fell > slack + taken * (1.0 if requests else _ESTIMATED):
        return None
    if others is window:
        return True
    # If its own requests explain what is missing, nothing is proven.
    own = window.used * (1.0 if requests else _ESTIMATED)
    return True if limit - said.remaining > own + slack else None
