"""Random numbers that don't depend on the order in which they are drawn.

So two simulations with the same seed differ only by what was changed.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


def luck(seed: int, number: int, attempt: int) -> float:
    """Return a random number from 0 to 1 that is always the same for this attempt, whatever was drawn before it.

    The finaliser of SplitMix64.
    """
    mixed = (seed + number * 0x9E3779B97F4A7C15 + attempt * 0xD1B54A32D192ED03) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53
