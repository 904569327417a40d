"""The seeded fault plan."""

from __future__ import annotations

from collections import Counter

from hivemind_mock.provider.config import FaultConfig, MockConfig
from hivemind_mock.provider.faults import Dice, Fault, in_spell


def test_the_same_seed_repeats_every_fate() -> None:
    """Two dice of one seed agree throughout; another seed disagrees."""
    faults = FaultConfig(bad_gateway=0.2, reset=0.1)

    def fates(seed: int) -> list[object]:
        dice = Dice(MockConfig(seed=seed, faults=faults))
        return [dice.draw(stream=number % 2 == 0) for number in range(50)]

    assert fates(7) == fates(7)
    assert fates(7) != fates(8)


def test_rates_are_met() -> None:
    """Each fault comes about as often as it was asked for."""
    dice = Dice(MockConfig(seed=1, faults=FaultConfig(bad_gateway=0.10, reset=0.05)))
    seen = Counter(dice.draw(stream=False).fault for _ in range(4_000))
    assert 320 < seen[Fault.BAD_GATEWAY] < 480
    assert 140 < seen[Fault.RESET] < 260
    assert set(seen) == {None, Fault.BAD_GATEWAY, Fault.RESET}


def test_whole_answers_escape_event_faults() -> None:
    """An error event needs a stream to be in."""
    dice = Dice(MockConfig(faults=FaultConfig(error_mid=1.0)))
    assert dice.draw(stream=False).fault is None
    assert dice.draw(stream=True).fault is Fault.ERROR_MID


def test_spells_come_and_go() -> None:
    """The first spell begins after one interval and lasts as long as it should."""
    config = FaultConfig(spell_every_s=60, spell_s=5)
    assert [in_spell(config, age) for age in (0, 4, 59, 60, 64.9, 65, 121)] == [
        False, False, False, True, True, False, True,
    ]  # fmt: skip
    assert not in_spell(FaultConfig(), 100)
