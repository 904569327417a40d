"""The gates that keep a request waiting, in words: the one table that log, verdict, journals and screens read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Gate(Struct, frozen=True):
    """What is said of one gate, and what kind it is."""

    word: str
    """In a column."""
    meaning: str
    """Of a request that it keeps."""
    cause: str
    """Which of :data:`hivemind.journal.wait_causes.CAUSES` a wait at it counts as."""
    why: str = ""
    """In the history of a request, after `waits: `; empty: a sentence with figures stands there."""
    trouble: str = ""
    """In the verdict on a long wait; empty: the gate is none of the proxy's, but an operator's or a task's."""
    window: str = ""
    """What is used up where it is shut, if it is a rate window."""
    kept: str = ""
    """Among what kept requests lately; empty: its word."""


GATES: Mapping[str, Gate] = {
    "paused": Gate("paused", "an operator paused everything", "paused", "everything is paused"),
    "rate_limited": Gate(
        "provider",
        "rate-limited: the provider asked to wait (Retry-After)",
        "rate_limited",
        "rate-limited: the provider asked to wait",
        "rate-limited (Retry-After)",
        kept="Retry-After",
    ),
    "circuit": Gate(
        "circuit",
        "the circuit is open, so nothing is sent upstream",
        "circuit",
        "the circuit is open",
        "the open circuit",
    ),
    "slot": Gate("slot", "every slot is taken", "slots", "", "no slot is free"),
    "upstream": Gate(
        "upstream",
        "the upstream's limit for all keys together is reached",
        "slots",
        "its upstream has as many requests in flight as it may",
        "no slot is free at its upstream",
        kept="max concurrency of the upstream",
    ),
    "requests": Gate(
        "req limit",
        "the rate window has no request left",
        "windows",
        trouble="requests a minute are used up",
        window="requests a minute",
    ),
    "tokens": Gate(
        "tok limit",
        "the rate window has too few tokens left",
        "windows",
        trouble="tokens a minute are used up",
        window="tokens a minute",
    ),
    "fleet": Gate(
        "fleet",
        "the fleet has leased nothing to this proxy yet",
        "fleet",
        "there is no lease from the fleet yet",
        "no lease of the fleet yet",
    ),
    "fleet_slots": Gate(
        "slots",
        "this proxy's slots are taken; the others are leased elsewhere",
        "fleet",
        "the slots leased from the fleet are taken",
        "the fleet's slots are taken",
        kept="the fleet's slots",
    ),
    "credits": Gate(
        "credits",
        "this proxy's credits of a rate window are used up",
        "windows",
        "the credits leased from the fleet are used up",
        "the fleet's share is used up",
        "the fleet's share",
        "the fleet's share",
    ),
    "budget": Gate("budget", "too little of its agent's budget is left", "budget", "its agent's budget is used up"),
    "held": Gate("held", "its agent is held", "held", "its agent is on hold"),
    "dependency": Gate("task", "its agent's task waits for others", "task", "its agent's task waits for others"),
    "backoff": Gate(
        "backoff",
        "an attempt failed: the pause before a retry",
        "retry",
        "it was tried and will be again",
        "the pause before a retry",
        kept="pauses before retries",
    ),
    "first_write": Gate(
        "prompt",
        "another request writes the same prompt to the provider's cache first",
        "other",
        "another writes the same prompt to the provider's cache",
        "another request writes the same prompt first",
        kept="others' first writes of a prompt",
    ),
    "pace": Gate(
        "pace",
        "its class waits, so that a long window of the plan lasts (pace)",
        "windows",
        "its class waits, so that a long window of the plan lasts",
        "the pace of a long window",
        kept="the pace of a long window",
    ),
    "next": Gate("next", "nothing holds it: it is next", "other", kept="order"),
}
"""Those of the scheduler (:data:`hivemind.scheduler.events.GATES`), and `next`, where none is shut."""
WINDOW_GATES = {name: gate.window for name, gate in GATES.items() if gate.window}
"""Gates that are rate windows, and what is used up where they are shut."""
OPERATORS = frozenset(name for name, gate in GATES.items() if gate.why and not gate.trouble)
"""Gates that keep a request by the operator's decision, or by its task's."""
