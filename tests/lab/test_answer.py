"""The answer to a what-if: the sentence, the figures, what the models learned, and what limits them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab.kit import LANE, failed, recorded, request, served
from lab.predictions import FIGURES, prediction

from hivemind.journal.figures import Waits
from hivemind.journal.wait_causes import WaitCauses
from hivemind.lab.foresight.answer import answer, foretell
from hivemind.lab.foresight.foretold import WALL, foretold, named
from hivemind.lab.foresight.heldout import HeldOut, HeldOutPart
from hivemind.lab.foresight.notes import commands
from hivemind.lab.foresight.prediction import Prediction
from hivemind.lab.foresight.sentence import sentence
from hivemind.lab.foresight.told import Answer, Foretold
from hivemind.lab.simulate.overrides import Change, parse_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, WindowKind, WindowReading

CEILING = Change("max_concurrency", 8)
LANE_LIMITED = LaneConfig("mock", "generic", max_concurrency=4, rpm=60, tpm=0, rpm_binding=True)


def said(made: Prediction) -> str:
    return sentence(made, foretold(made))


def figure(made: Prediction, name: str) -> Foretold:
    return named(foretold(made), name)


# --- The sentence -----------------------------------------------------------------------------------------------------


def test_how_much_sooner_and_why() -> None:
    """The interval follows, and the cause of waits that changed most."""
    assert said(prediction(CEILING)) == (
        "With max_concurrency 8 this run would have ended about 15 % sooner (11 to 19 %), mainly because requests would"
        " have waited less for slots."
    )


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (
            {"wall_s": 900.0, "causes": WaitCauses({"slots": 2000.0, "windows": 2500.0})},
            "about 19 % later (14 to 25 %), mainly because requests would have waited longer for rate windows, although"
            " they would have waited less for slots.",
        ),
        (
            {"wall_s": 2000.0, "served_s": 9000.0, "causes": FIGURES.causes},
            "taken about 2.7 times as long (2.5 to 2.8 times), mainly because answers would have come later.",
        ),
        (
            {"served_s": 3000.0},
            "about 15 % sooner (11 to 19 %), mainly because requests would have waited less for slots, although answers"
            " would have come later.",
        ),
        ({"causes": WaitCauses({"slots": 2799.0, "windows": 801.0})}, "about 15 % sooner (11 to 19 %)."),
    ],
)
def test_every_reason(after: dict[str, Any], told: str) -> None:
    """What went the other way is told if it is much; if nothing matters, no reason is."""
    assert said(prediction(CEILING, **after)).endswith(told)


def test_where_the_end_says_little_the_waits_do() -> None:
    """The interval has both directions then."""
    less = said(prediction(CEILING, wall_s=750.0))
    assert less.startswith("With max_concurrency 8 this run would have ended at about the same time (")
    assert less.endswith("but requests would have waited about 19 % less (15 to 23 %), mainly for slots.")
    same = prediction(CEILING, wall_s=750.0, waited_s=3590.0)
    assert "and requests would have waited about as long (" in said(same)


def test_what_may_be_chance_might_be() -> None:
    """The direction is told, with an interval that holds both."""
    made = prediction(CEILING)
    after = [replace(made.own, wall_s=wall_s, waited_s=6 * wall_s) for wall_s in (400.0, 900.0) * 3]
    unsure = said(replace(made, drawn=replace(made.drawn, after=tuple(after))))
    assert " this run might have ended about 18 % sooner (" in unsure
    assert " sooner to 2.0 times as long), and requests might have waited about 10 % less (" in unsure


def test_nothing_changes() -> None:
    """Not even the draws differ."""
    same = prediction(CEILING, wall_s=754.0, waited_s=3600.0, causes=FIGURES.causes)
    assert said(same) == "With max_concurrency 8 nothing would have changed in this run."
    again = "With the recorded settings another run like this one would end after about 12 min 34 s (11 min "
    assert said(prediction()).startswith(again)


def test_changes_are_named() -> None:
    """Knobs at 0 as `none`; many aren't listed."""
    changes = parse_changes(["rpm=0", "aimd.beta=0.7", "provider.limits=x2"])
    assert said(prediction(*changes)).startswith("With rpm none, aimd.beta 0.7 and provider.limits x2 this run")
    many = parse_changes(["rpm=0", "tpm=0", "aimd.beta=0.7", "max_concurrency=4"])
    assert said(prediction(*many)).startswith("With these 4 changes this run")


def test_without_hivemind() -> None:
    """What was recorded without it is compared with its usual settings, and they with what was recorded."""
    alone = prediction(foreign=True, wall_s=900.0, waited_s=4400.0, causes=WaitCauses({"windows": 4400.0}))
    assert said(alone).startswith("With HiveMind's usual settings this run would have ended about 19 % later (")
    assert figure(alone, "wall time").recorded == FIGURES.wall_s
    assert " sooner than with HiveMind's usual settings (11 to 19 %)" in said(prediction(CEILING, foreign=True))


# --- Fewer agents -----------------------------------------------------------------------------------------------------


def test_a_run_in_which_1_of_14_agents_finishes_is_not_better() -> None:
    """The sentence says so first, and no figure is called better, however short the run is."""
    made = prediction(
        CEILING,
        real=replace(FIGURES, agents=14, finished=14),
        finished=1,
        answered=90,
        wall_s=60.0,
        waited_s=100.0,
        retries=2,
    )
    assert made.finishes_less
    loss = "only 1 of 14 agents would have finished instead of 14, so nothing else counts as better: "
    assert said(made).startswith(f"With max_concurrency 8, {loss}")
    verdicts = {each.name: each.verdict for each in foretold(made)}
    assert "better" not in verdicts.values()
    assert (verdicts["agents finished"], verdicts["wall time"], verdicts["retries"]) == (
        "worse",
        "other work",
        "other work",
    )


def test_fewer_answers() -> None:
    """They are counted; what the model loses with the recorded settings too isn't held against the changes."""
    fewer = prediction(CEILING, answered=400)
    assert "8, 9 requests fewer would have been answered, so nothing" in said(fewer)
    lossy = replace(fewer, replayed=fewer.own, real=FIGURES)
    assert not lossy.finishes_less


def test_fewer_finish_in_draws() -> None:
    """With other luck agents may be lost that this run's luck keeps."""
    made = prediction(CEILING)
    drawn = replace(made.drawn, after=(*made.drawn.after[:3], *(replace(made.own, finished=9),) * 3))
    lost = replace(made, drawn=drawn)
    assert lost.finishes_less
    assert "fewer agents would have finished in 3 of 6 simulated runs with other luck, so" in said(lost)


def test_more_agents_are_another_run() -> None:
    """Nothing is better or worse; that some don't finish is told by their share."""
    changes = parse_changes(["agents=x2"])
    made = prediction(*changes, agents=22, finished=22, wall_s=1400.0, waited_s=9000.0)
    assert not made.finishes_less
    assert {each.verdict for each in foretold(made)} == {""}
    less = prediction(*changes, agents=22, finished=20, wall_s=1400.0)
    assert "only 20 of 22 agents would have finished, so nothing else counts as better" in said(less)


# --- Figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "after", "verdict"),
    [
        ("wall time", {"wall_s": 640.0}, "better"),
        ("wall time", {"wall_s": 900.0}, "worse"),
        ("wall time", {"wall_s": 751.0}, "unclear"),
        ("wall time", {"wall_s": 754.0}, "same"),
        ("retries", {"retries": 10}, "better"),
        ("failed", {"failed": 30}, "worse"),
        ("fairness", {"fairness": 0.8}, "worse"),
        ("dollars", {"dollars": 30.0}, "worse"),
        ("  high, p95", {"waits": {"high": Waits(40, 0.0, 9.0, 9.0)}}, "worse"),
        ("tokens", {"tokens": 10}, ""),
    ],
)
def test_verdicts(name: str, after: dict[str, Any], verdict: str) -> None:
    """By each figure's own direction; unclear is what may be luck or noise."""
    assert figure(prediction(CEILING, **after), name).verdict == verdict


def test_no_bound_is_impossible() -> None:
    """No negative time or count, no more agents than there are, no share above 1, no fall by more than all."""
    unlike: list[dict[str, Any]] = [
        {"waited_s": 0.0, "finished": 0, "retries": 900, "fairness": 1.0},
        {"waited_s": 9e6, "failed": 300},
    ]
    made = prediction(CEILING, waited_s=1.0, retries=0, fairness=0.999, wasted_tokens=1)
    drawn = replace(made.drawn, after=tuple(replace(made.own, **unlike[n % 2]) for n in range(6)))
    for each in foretold(replace(made, drawn=drawn)):
        assert each.changed is not None
        assert 0 <= each.changed.low <= each.changed.value <= each.changed.high
        if each.name == "agents finished":
            assert each.changed.high <= 11
        if each.unit == "share":
            assert each.changed.high <= 1
        if each.difference is not None and each.recorded is not None:
            assert each.difference.low >= -1 if each.by_share else each.difference.low >= -each.recorded


def test_what_a_run_lacks() -> None:
    """A price, or a priority that only changes bring."""
    assert figure(prediction(CEILING, real=replace(FIGURES, dollars=None)), "dollars").changed is None
    urgent = prediction(CEILING, waits={**FIGURES.waits, "critical": Waits(3, 1.0, 2.0, 3.0)})
    found = figure(urgent, "  critical, p95")
    assert (found.recorded, found.difference) == (None, None)
    assert found.changed is not None
    assert found.changed.value == 2.0


# --- What it rests on -------------------------------------------------------------------------------------------------


def answered(recording: Recording, *texts: str) -> Answer:
    return answer(recording, foretell(recording, parse_changes(texts)))


def limited(folder: Path, lane: LaneConfig = LANE_LIMITED) -> Recording:
    """Of sixty requests a minute two are left."""
    reading = (WindowReading(WindowKind.REQUESTS, 60, 2, 30.0), WindowReading(WindowKind.INPUT, 40_000, 900, 30.0))
    events = [event for number in range(40) for event in served(1.0 + number, number + 1, f"agent-{number % 4}")]
    return recorded(folder, events, [ev.LimitsRead(1.5, LANE, "m", reading)], lane=lane)


@pytest.mark.slow
def test_the_providers_own_limit_stays(tmp_path: Path) -> None:
    """A higher tier isn't a higher rpm; the question that asks about it is named, and asked it isn't."""
    recording = limited(tmp_path)
    note = (
        "mock: rpm is HiveMind's own limit; the provider's, 60 requests in 60 s, stays; provider.requests=x2 asks about"
        " twice as much"
    )
    assert note in answered(recording, "rpm=240").notes
    assert not any("HiveMind's own limit; the provider's" in each for each in answered(recording, "rpm=30").notes)
    both = answered(recording, "rpm=240", "provider.limits=x4").notes
    assert not any("stays" in each for each in both)
    (own,) = [each for each in answered(recording, "provider.limits=x4").notes if "stays" in each]
    assert own == "mock: HiveMind's own limit, rpm 60, stays; rpm=none lifts it"
    assumed = limited(tmp_path, replace(LANE_LIMITED, rpm_binding=False))
    assert not any("stays" in each for each in answered(assumed, "provider.limits=x4").notes)


@pytest.mark.slow
def test_a_limit_of_requests_at_once_stays(tmp_path: Path) -> None:
    """As does that of a provider which refuses what it has no place for."""
    events: list[ev.Event] = []
    for number in range(30):
        at = 1.0 + 3 * number
        for place in range(4):
            ticket = 10 * number + place
            if place < 2:
                events += served(at + place / 10, ticket, f"agent-{place}", takes_s=2.0)
            else:
                events += [request(at + place / 10, ticket, f"agent-{place}")]
                events += [ev.Granted(at + place / 10, ticket, f"agent-{place}", LANE, 1, 0.0)]
                events += [failed(at + place / 10 + 0.05, ticket, f"agent-{place}", FailureKind.OVERLOADED, status=529)]
    recording = recorded(tmp_path, events)
    found = answered(recording, "max_concurrency=50")
    assert "529s came from a limit of about 2 in flight" in found.shows
    assert any(
        each.startswith("mock takes about 2 requests at once, whatever max_concurrency is") for each in found.notes
    )


def test_a_setting_that_an_operator_changed(tmp_path: Path) -> None:
    """What was recorded began with one value and ended with another, so that is said of the settings that are asked."""
    turned = [
        ev.Commanded(5.0 + each, "you", "Tune", {"knob": "max_concurrency", "value": each}) for each in (2.0, 3.0)
    ]
    recording = recorded(tmp_path, turned, [event for n in range(8) for event in served(1.0 + n, n + 1, f"w{n}")])
    note = (
        "max_concurrency was changed 2 times, at last to 3, while this was recorded; simulated is 8 from the beginning"
    )
    assert note in answered(recording, "max_concurrency=8").notes
    assert not any("was changed" in each for each in answered(recording, "aimd.beta=0.7").notes)


def test_what_to_try() -> None:
    """Only knobs can be turned while a proxy runs."""
    assert commands(parse_changes(["max_concurrency=8", "rpm=0", "features.admission=off"])) == (
        "hivemind set max_concurrency 8 && hivemind set rpm none"
    )
    assert commands(parse_changes(["agents=x2", "provider.limits=x2", "tpm=unset"])) == ""


@pytest.mark.slow
def test_beyond_what_was_recorded(tmp_path: Path) -> None:
    """The interval is wider, and the command that would narrow it is told."""
    slow = LaneConfig("mock", "generic", max_concurrency=1, rpm=0, tpm=0)
    events: list[ev.Event] = []
    for number in range(60):
        at = 1.0 + 2 * number
        arrived_at = max(1.0, at - 6)  # when the agent's last answer came
        events += served(arrived_at, number + 1, f"agent-{number % 4}", waits_s=at - arrived_at, takes_s=2.0)
    recording = recorded(tmp_path, events, lane=slow)
    found = answered(recording, "max_concurrency=8")
    assert found.sentence.endswith("mainly because requests would have waited less for slots.")
    assert found.reason == "slots"
    beyond = "no more than 1 in flight were recorded; with 4 the intervals are wider"
    assert f"{beyond}, and a run recorded after `hivemind set max_concurrency 8` would tell more" in found.notes
    narrow, wide = prediction(CEILING), prediction(CEILING, busiest=40)
    assert narrow.beyond is None
    assert wide.beyond == (8, 40)
    ends = [named(foretold(each), WALL).changed for each in (narrow, wide)]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[1].high > ends[0].high


def test_how_far_the_models_were_off() -> None:
    """By what share, on a part that the fit hadn't seen."""
    drawn = tuple(replace(FIGURES, wall_s=wall_s) for wall_s in (900.0, 901.0, 902.0, 903.0))
    checked = HeldOut((HeldOutPart(FIGURES, drawn),))
    assert checked.off(lambda run: run.wall_s) == pytest.approx(0.196, abs=0.001)


def test_too_short_to_check(tmp_path: Path) -> None:
    """It is said instead."""
    found = answered(limited(tmp_path), "rpm=30")
    assert found.off_wall is None
    assert found.checked == (
        "The recording is too short (40 requests) to check the models on a part that the fit hasn't seen."
    )
