"""How many examples Hypothesis makes up: few by default, many with `--hypothesis-profile=large` (`make test-all`)."""

from __future__ import annotations

from hypothesis import settings

_SHARE = 4
_FEWEST = 10


def register_profiles() -> None:
    """Register `small`, which is loaded, and `large`. Neither has a deadline, because other programs may be busy."""
    settings.register_profile("small", max_examples=25, deadline=None)
    settings.register_profile("large", max_examples=200, deadline=None)
    settings.load_profile("small")


def examples(large: int) -> int:
    """Return a test's own `max_examples`: `large` in the large profile, a quarter of it, but 10 at least, else."""
    if settings.get_current_profile_name() == "large":
        return large
    return min(large, max(_FEWEST, large // _SHARE))
