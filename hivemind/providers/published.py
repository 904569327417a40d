"""Rate limits that providers publish by tier, for recordings that hold none.

Anthropic: tiers 1 to 4 as published on 2026-05-22 (platform.claude.com, "Rate limits"; copied by
github.com/api-evangelist/anthropic). They became Start, Build and Scale on 2026-06-26, with no lower limits for
anybody; of these only what was published for Claude Fable 5 on 2026-10-17 is known here.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hivemind.errors import UsageError


class Published(Struct, frozen=True):
    """The limits a minute of one class of models, which share them."""

    models: str
    """A regular expression of the beginning of their family's name."""
    requests: int
    input: int
    """Tokens that weren't read from a cache."""
    output: int
    seen: str
    """When they were published so."""


_MAY, _OCTOBER = "2026-05-22", "2026-10-17"
_OPUS, _SONNET, _HAIKU, _FABLE = "claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "claude-fable-5"
TIERS: dict[str, dict[str, tuple[Published, ...]]] = {
    "anthropic": {
        "start": (Published(_FABLE, 1_000, 500_000, 100_000, _OCTOBER),),
        "scale": (Published(_FABLE, 4_000, 4_000_000, 800_000, _OCTOBER),),
        "1": (
            Published(_OPUS, 50, 500_000, 80_000, _MAY),
            Published(_SONNET, 50, 30_000, 8_000, _MAY),
            Published(_HAIKU, 50, 50_000, 10_000, _MAY),
        ),
        "2": (
            Published(_OPUS, 1_000, 2_000_000, 200_000, _MAY),
            Published(_SONNET, 1_000, 450_000, 90_000, _MAY),
            Published(_HAIKU, 1_000, 450_000, 90_000, _MAY),
        ),
        "3": (
            Published(_OPUS, 2_000, 5_000_000, 400_000, _MAY),
            Published(_SONNET, 2_000, 800_000, 160_000, _MAY),
            Published(_HAIKU, 2_000, 1_000_000, 200_000, _MAY),
        ),
        "4": (
            Published(_OPUS, 4_000, 10_000_000, 800_000, _MAY),
            Published(_SONNET, 4_000, 2_000_000, 400_000, _MAY),
            Published(_HAIKU, 4_000, 4_000_000, 800_000, _MAY),
        ),
    }
}
"""By provider and tier."""


def published(provider: str | None, tier: str | None) -> tuple[Published, ...]:
    """The limits of a provider's tier; none where neither is named. Raises: UsageError."""
    if provider is None and tier is None:
        return ()
    name = provider or "anthropic"
    if name not in TIERS:
        raise UsageError(f"--provider: no limits of {name[:40]!r} are known; there are those of {', '.join(TIERS)}")
    if tier is None or tier.lower() not in TIERS[name]:
        raise UsageError(f"--tier: must be one of {', '.join(TIERS[name])} ({name}), not {(tier or '')[:40]!r}")
    return TIERS[name][tier.lower()]


def limits_of(family: str, tier: tuple[Published, ...]) -> Published | None:
    """Those of a family of models."""
    return next((each for each in tier if re.match(each.models, family)), None)
