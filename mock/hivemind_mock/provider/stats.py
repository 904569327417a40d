"""What the mock provider has seen, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hivemind_mock.provider.faults import Fault


@dataclass(slots=True)
class Stats:
    """Counters of one provider since its start."""

    arrived: int = 0
    """Requests for tokens, whatever became of them."""
    charged: int = 0
    """Requests that took a place in the rate window."""
    answered: int = 0
    """Answers given to the end."""
    left: int = 0
    """Requests whose client went away first."""
    rate_limited: int = 0
    """Refused with 429 because a window was used up."""
    over_capacity: int = 0
    """Refused as overloaded because of the concurrency limit or a spell."""
    faults: Counter[Fault] = field(default_factory=Counter)
    """Injected faults."""
    active: int = 0
    peak_active: int = 0
    input_tokens: int = 0
    """Of answered requests."""
    output_tokens: int = 0

    def as_dict(self) -> dict[str, object]:
        """For `GET /_mock/stats`."""
        return {
            "arrived": self.arrived,
            "charged": self.charged,
            "answered": self.answered,
            "left": self.left,
            "rate_limited": self.rate_limited,
            "over_capacity": self.over_capacity,
            "faults": {fault.value: self.faults[fault] for fault in Fault},
            "active": self.active,
            "peak_active": self.peak_active,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
