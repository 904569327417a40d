"""What counts as a recommendation that held."""

from __future__ import annotations

from benchmarks.foresight.tuned import Tuned, figures


def tuned(real: tuple[float, ...], *, why_not: str = "", finished: tuple[int, int] = (30, 30)) -> Tuned:
    return Tuned("w", "", ("max_concurrency=4",), why_not, (0.2, 0.1, 0.3), real, 0.03, (0, 0), finished)


def test_what_holds() -> None:
    """At least half of the promised gain came, and what is slower within what real runs differ by is no loss."""
    assert tuned((0.1, 0.11, 0.12)).holds
    assert not tuned((0.05, 0.05, 0.05)).holds
    assert not tuned((-0.02, -0.02, -0.02)).loses
    assert tuned((-0.05, -0.05, -0.05)).loses
    assert tuned((0.2, 0.2, 0.2), finished=(30, 20)).loses


def test_only_what_is_recommended_counts() -> None:
    """What tuning advised against says nothing against its advice."""
    found = [tuned((0.2,)), tuned((0.01,)), tuned((-0.5,), why_not="unclear")]
    count, held, lost = figures(found)
    assert (count.measured, held.measured, lost.measured) == (2, 50, 0)
    assert not held.met
    assert lost.met
