"""How far colours are apart, for those who see all of them and for those who don't."""

from __future__ import annotations

import math
from itertools import combinations

from rich.color import ColorSystem
from textual.color import Color

Triple = tuple[float, float, float]

EYES: dict[str, tuple[Triple, Triple, Triple]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What becomes of linear RGB in eyes that lack one kind of cone: Machado, Oliveira and Fernandes, "A Physiologically-
based Model for Simulation of Color Vision Deficiency" (2009), severity 1.0."""


def linear(colour: Color) -> Triple:
    """Linear RGB, as sRGB defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized)
    return red, green, blue


def ratio(one: Color, other: Color) -> float:
    """Contrast as WCAG 2 defines it."""

    def luminance(colour: Color) -> float:
        red, green, blue = linear(colour)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def reduced(colour: Color) -> Color:
    """What Rich makes of it for a terminal of 256 colours."""
    return Color(*colour.rich_color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor())


def seen(colour: Color, eyes: str) -> Triple:
    """L*a*b* (white D65) of a colour as those eyes see it."""
    light = linear(colour)
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in EYES[eyes])

    def root(share: float) -> float:
        return share ** (1 / 3) if share > 216 / 24389 else (24389 / 27 * share + 16) / 116

    x = root((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047)
    y = root(0.2126729 * red + 0.7151522 * green + 0.0721750 * blue)
    z = root((0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Triple, other: Triple) -> float:
    """How far two L*a*b* colours are apart (CIE76): below 2 hardly anybody sees it."""
    return math.dist(one, other)


def nearest(colours: dict[str, Color], eyes: str) -> tuple[float, str]:
    """The smallest difference between any two of the colours, and their names."""
    return min(
        (difference(seen(colours[one], eyes), seen(colours[other], eyes)), f"{one} and {other}")
        for one, other in combinations(colours, 2)
    )
