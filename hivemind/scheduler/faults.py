"""Whether a 500 is the fault of its request or of the upstream.

Some servers answer one request with a 500 whenever it comes, and all others well (llama.cpp does where its parser
doesn't understand the model). In an outage every request gets a 500, often in the same words, and has to be retried.
So a 500 belongs to its request once it has come in the same words at :data:`SURE` attempts, if a request of the same
family of models that was sent after the first of them was answered: at the beginning of an outage none is. A server at
home tells no outage so (it resets, refuses, or says 503), so there its request needs no others, and its 500s say
nothing of the server from the first one on, unless their words change. Where others got an answer after the same words,
these words may be chance, and it takes :data:`SURE_OF_CHANCE`.
"""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct

from hivemind.scheduler.types import Failure

SURE = 3
SURE_OF_CHANCE = 6
CHANCE_S = 60.0
"""How long an answer after a 500 counts as a sign that its words come by chance."""
KEPT = 256  # requests remembered as failing whenever they come


class Fault(Struct):
    """The 500s of one request that came in the same words."""

    words: int
    since: float
    """When the first of them came that count."""
    count: int = 1
    own: bool = False
    """They belong to the request."""
    free: bool = False
    """They come from a server at home in the words of the first: another attempt needs no retry of the budget."""
    refunded: int = 0  # retries that went back to the budget


class Blame(Enum):
    """What a failure says about the upstream."""

    COUNTS = "counts"
    """That it fails."""
    UNSURE = "unsure"
    """Nothing new: the request failed so before, and others, sent for the first time, have yet to be answered."""
    EXCUSED = "excused"
    """Nothing: others are answered, or it is a server at home's."""
    OWN = "own"
    """Nothing: it is the request's own, so that no further attempt helps."""


class Faults:
    """The 500s of a lane's requests."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], None] = {}
        """Agent, request and words of those that were a request's own, the newest last."""
        self._by_chance: tuple[int, float] = 0, -math.inf
        """Words of the last 500 after which its request was answered, and when."""

    def judge(
        self, now: float, agent: str, before: Fault | None, failure: Failure, answered_from: float, *, others: bool
    ) -> tuple[Blame, Fault | None]:
        """Return what a failure means, and the request's 500s with it.

        `answered_from` is the latest beginning of an attempt of the same family that was answered; `others`: requests
        that were sent for the first time have yet to be answered.
        """
        if failure.words is None:
            return Blame.COUNTS, before
        request, words = failure.words
        if before is None or before.words != words:
            known, free = (agent, request, words) in self._known, before is None and failure.at_home
            blame = Blame.OWN if known else Blame.EXCUSED if free else Blame.COUNTS
            return blame, Fault(words, now, own=known, free=free)
        proves = answered_from > before.since or failure.at_home
        if not (proves or others):
            return Blame.COUNTS, Fault(words, now)  # as in an outage, in which repetition proves nothing
        if not proves:
            before.count = min(before.count + 1, SURE - 1)
            return Blame.UNSURE, before
        before.count += 1
        chance = self._by_chance[0] == words and now - self._by_chance[1] <= CHANCE_S
        if before.count < (SURE_OF_CHANCE if chance else SURE):
            return Blame.EXCUSED, before
        before.own = True
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        self._known[agent, request, words] = None
        return Blame.OWN, before

    def answered(self, now: float, fault: Fault) -> None:
        """Note that a request was answered after these 500s."""
        self._by_chance = fault.words, now
