"""Tiers of service: providers serve one model at several prices, faster or later than usual.

A request names the tier it wants; the reply names the one that was billed, which may be another, because a provider
that is short of capacity serves a request at the standard tier.
"""

from __future__ import annotations

BATCH = "batch"
FAST = "fast"
FLEX = "flex"
PRIORITY = "priority"
ULTRAFAST = "ultrafast"

_WORDS = {
    # The standard price, whatever the words. OpenAI's `scale` and Google's provisioned throughput were paid before.
    "standard": "",
    "default": "",
    "scale": "",
    "on_demand": "",
    "provisioned_throughput": "",
    **{each: each for each in (BATCH, FAST, FLEX, PRIORITY, ULTRAFAST)},
    "on_demand_flex": FLEX,
    "on_demand_priority": PRIORITY,
}
"""Tiers by the words for them: `service_tier` and `speed` of Anthropic, OpenAI and compatible servers, and Google's
`serviceTier` and `trafficType`, as of the providers' SDKs in November 2026."""


def tier_of(word: str, otherwise: str = "") -> str:
    """Return the tier that a word names, empty for the standard one; `otherwise` for a word that leaves it open
    (`auto`), isn't known or is empty."""
    return _WORDS.get(word.lower(), otherwise) if word else otherwise
