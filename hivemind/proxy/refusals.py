"""Messages to an agent whose request the scheduler refuses."""

from __future__ import annotations

from hivemind.scheduler.ticket import Refusal
from hivemind.text.amounts import how_used, owner, raise_command

_TEXTS = {
    "circuit_open": "the upstream keeps failing, so requests wait until it is tried again",
    "queue_full": "too many requests are waiting already",
    "wait_too_long": "the request waited longer than it may",
    "draining": "the proxy is draining or shutting down, and takes no new requests",
    "too_many_agents": "as many agents are at work as may be (max_agents)",
    "agent_stopped": "the operator stopped this agent; it is refused until it is released in the control room",
}


def text_of(refusal: Refusal) -> str:
    """Return why a request is refused and what would help, in a sentence."""
    if refusal.reason == "price_unknown":
        return f"the price of {refusal.detail or 'this model'} isn't known, and this agent has a budget in dollars"
    if refusal.budget is not None:
        return (
            f"{owner(refusal.budget)} is used up ({how_used(refusal.budget)}); raise it with"
            f" `{raise_command(refusal.budget)}`, or with B in the control room, then ask again"
        )
    return refusal.detail or _TEXTS.get(refusal.reason, refusal.reason.replace("_", " "))
