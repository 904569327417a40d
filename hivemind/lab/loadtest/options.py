"""What somebody wants sent again."""

from __future__ import annotations

from dataclasses import dataclass, field

from hivemind.lab.loadtest.plan import Selection


@dataclass(frozen=True, slots=True)
class LoadTestOptions:
    """What, where to, and how."""

    against: str | None = None
    """URL; None: nowhere, to see what it would be."""
    selection: Selection = field(default_factory=Selection)
    speed: float = 1.0
    think: bool = False
    """Agents wait for their answers."""
    most: int = 0
    """In flight at once; 0: any number."""
    synthetic: bool = False
    """Recorded bodies stay where they are."""
    as_allowed: bool = False
    """Answers may be as long as the recorded requests allowed, rather than as they were."""
    agent_header: str | None = None
    key_variable: str | None = None
    token_variable: str | None = None
    dry: bool = False
    confirmed: bool = False
    """It may cost money."""
    json: bool = False
