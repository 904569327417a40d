"""How many examples Hypothesis makes up: few by default, many with `--hypothesis-profile=large` (`make test-all`)."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers

_SHARE = 8
_FEWEST = 7
_FUZZ_TIMES = 10
_DATABASE = Path(__file__).parents[1] / ".hypothesis" / "examples"


def register_profiles() -> None:
    """Register `small`, which is loaded, `large`, and `fuzz`, which goes on from what it found.

    None has a deadline, because other programs may be busy; only `fuzz` explains failures, by tracing each line.
    """
    phases = tuple(phase for phase in Phase if phase is not Phase.explain)
    settings.register_profile("small", max_examples=10, deadline=None, phases=phases)
    settings.register_profile("large", max_examples=40, deadline=None, phases=phases)
    settings.register_profile(
        "fuzz", max_examples=2000, deadline=None, derandomize=False, database=DirectoryBasedExampleDatabase(_DATABASE)
    )
    settings.load_profile("small")
    # Else Hypothesis parses every module that was imported, in each worker, for constants to try: seconds of computing,
    # after which the same test tries other examples in another selection of tests.
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants


def repeated() -> bool:
    """Return whether a test tries the same examples each time: in all profiles but `fuzz`, so that `make test` and
    `make test-all` give the same result for the same lines. In `fuzz`, what fails is printed, and `--hypothesis-seed`
    repeats it."""
    return settings.get_current_profile_name() != "fuzz"


def examples(large: int, few: int | None = None) -> int:
    """Return a test's own `max_examples`: a sixth of `large` in the large profile, ten times `large` in the fuzz
    profile, else `few`, which is an eighth of it, but 7 at least, where nothing else is said."""
    if settings.get_current_profile_name() == "large":
        return max(10, large // 6, few or 0)
    if settings.get_current_profile_name() == "fuzz":
        return large * _FUZZ_TIMES
    return min(large, max(_FEWEST, large // _SHARE)) if few is None else few


def of_histories(large: int, few: int | None = None, *, steps: int = 40) -> settings:
    """Return the settings of a machine of rules, as long as its steps may take."""
    return settings(
        max_examples=examples(large, few),
        stateful_step_count=steps,
        deadline=None,
        derandomize=repeated(),
        suppress_health_check=list(HealthCheck),
    )
