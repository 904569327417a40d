"""How fast a provider works on each request while it works on several."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Law = Literal["alone", "power", "shared", "late", "knee"]


class Speed(Struct, frozen=True):
    """The speed common to all requests that are being answered; 1 is that of a request alone."""

    law: Law = "alone"
    """`alone`: it doesn't depend on others. `power`: n^-amount. `shared`: each other request adds the same to
    every step of a batch. `late`: only many slow each other down. `knee`: so many run at full speed, more share
    that."""
    amount: float = 0.0

    def of(self, n: int) -> float:
        """Return the speed with `n` requests being answered."""
        if n <= 1 or self.law == "alone":
            return 1.0
        if self.law == "power":
            return float(n**-self.amount)
        if self.law == "shared":
            return 1.0 / (1.0 + self.amount * (n - 1))
        if self.law == "late":
            return 1.0 / (1.0 + ((n - 1) / self.amount) ** 2)
        return min(1.0, self.amount / n)


ALONE = Speed()
"""Requests don't slow each other down."""
