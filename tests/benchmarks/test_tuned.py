"""What counts as a recommendation that held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.foresight.tuned import Tuned, figures, main, text_of


def tuned(
    real: tuple[float, ...],
    *,
    why_not: str = "",
    finished: tuple[int, int] = (30, 30),
    undone: tuple[float, ...] = (),
    experiment: tuple[str, ...] = (),
) -> Tuned:
    changes, promised = ("max_concurrency=4",), (0.2, 0.1, 0.3)
    said = Tuned("w", "", changes, why_not, promised, real, 0.03, (0, 0), finished, experiment)
    return replace(said, undone=undone)


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
    share, held, lost, gain, within = figures(found)
    assert share.measured == pytest.approx(66.7, abs=0.1)
    assert (held.measured, lost.measured) == (50, 0)
    assert gain.measured == pytest.approx(10.5)
    assert within.measured == pytest.approx(33.3, abs=0.1)
    assert not held.met
    assert lost.met


def test_recommending_nothing_is_no_way_out() -> None:
    """Worlds in which much is to be gained count if nothing is recommended for them."""
    missed = [
        tuned((), why_not="unclear", undone=(0.3,)),
        tuned((), why_not="beyond", undone=(0.3,), experiment=("x=1",)),
    ]
    share, recommended, told = figures([*missed, tuned((), why_not="little", undone=(0.01,))])
    assert (share.measured, recommended.measured, told.measured) == (0, 0, 50)
    assert not any(each.met for each in (share, recommended, told))


def test_for_the_manual() -> None:
    """The manual's table has every figure with its target, and says of which worlds."""
    text = text_of("320:400", figures([tuned((0.2,))]))
    assert text.startswith("Worlds of the seeds 320:400; ")
    assert "| worlds for which something is recommended | 100.00 % | at least 10.00 % | met |" in text


@pytest.mark.parametrize("argv", [["--seeds", "3"], ["--docs", "nowhere"]])
def test_what_cannot_be(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are told in a line."""
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith(f"benchmarks.foresight.tuned: {' '.join(argv)}: must be ")
