"""Questions about more than settings: what people type, and what becomes of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.kit import FREE, LANE, failed, recorded, request, served
from msgspec import structs

from hivemind.errors import UsageError
from hivemind.lab.simulate.altered import altered
from hivemind.lab.simulate.overrides import parse_changes, questions, scenario
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import simulate
from hivemind.prices import prices_at
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Usage, WindowKind, WindowReading


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("provider.limit=x2", "provider.limit: nothing of that name can be asked about a provider; did you mean"),
        ("provider=x2", "provider: nothing of that name can be asked about a provider; there are limits, requests,"),
        ("provider.limits=200", "provider.limits 200: must be a factor such as x2 or none"),
        ("provider.places=0", "provider.places 0: must be a factor such as x2, a number such as 8 or 200k or none"),
        ("provider.latency=x1000", "provider.latency x1000: must be a factor such as x2, from x0.01 to x100"),
        ("provider.cache=x2", "provider.cache x2: must be none or a time such as 5m"),
        ("provider.outage=long", "provider.outage long: must be none or a time such as 5m, or 5m@10m"),
        ("agents=0", "agents 0: must be a factor such as x2 or a number such as 8 or 200k, at most 10,000"),
        ("agents=1.5", "agents 1.5: must be"),
    ],
)
def test_refused(text: str, told: str) -> None:
    """One line: what was wrong, and what would be right."""
    with pytest.raises(UsageError) as raised:
        parse_changes([text])
    assert str(raised.value).startswith(told)


def test_what_there_is_is_named() -> None:
    """An unknown setting is answered with the questions, too."""
    with pytest.raises(UsageError, match=r"agents, provider\.\*"):
        parse_changes(["port=3"])


def limited(requests: int = 24, limit: int = 6) -> Iterator[ev.Event]:
    """An agent that sends a request a second to a provider that takes so many a minute, and says so."""
    for number in range(requests):
        at = number // limit * 60.0 + number % limit
        yield from served(at, number + 1, "ann", takes_s=0.5)
        left = limit - 1 - number % limit
        reading = WindowReading(WindowKind.REQUESTS, limit, left, 60.0 - number % limit)
        yield ev.LimitsRead(at + 0.5, LANE, "m", (reading,))


def changed_wall_s(recording: Recording, *texts: str) -> float:
    return simulate(recording, parse_changes(texts)).wall_s


def test_another_tier(tmp_path: Path) -> None:
    """With limits twice as large a run that waits for them ends sooner, with half of them later."""
    recording = recorded(tmp_path, limited())
    as_it_was = simulate(recording).wall_s
    assert changed_wall_s(recording, "provider.requests=3") > as_it_was * 1.5
    assert changed_wall_s(recording, "provider.limits=x0.5") == changed_wall_s(recording, "provider.requests=3")


def test_a_limit_that_isnt_there(tmp_path: Path) -> None:
    """What the recording doesn't show can't be changed, and the answer says so."""
    recording = recorded(tmp_path, served(0.0, 1, "ann"))
    for text in ("provider.limits=x2", "provider.places=4", "provider.tokens=5k"):
        with pytest.raises(UsageError, match="is in the recording, so there is none to change"):
            simulate(recording, parse_changes([text]))
    with pytest.raises(UsageError, match=r"no upstream of that name is in by-hand; there is mock"):
        simulate(recording, parse_changes(["provider.other.latency=x2"]))


def test_a_slower_model(tmp_path: Path) -> None:
    """Answers take as many times as long."""
    recording = recorded(tmp_path, served(0.0, 1, "ann", takes_s=2.0), served(3.0, 2, "ann", takes_s=4.0))
    assert changed_wall_s(recording, "provider.latency=x2") == pytest.approx(4.0 + 1.0 + 8.0)
    assert changed_wall_s(recording, "provider.mock.latency=x0.5") == pytest.approx(1.0 + 1.0 + 2.0)


def cached(at: float, ticket: int, read: int) -> Iterator[ev.Event]:
    """A request of ann's whose prompt of a thousand tokens was read from a cache in part."""
    for event in served(at, ticket, "ann", takes_s=1.0 + (1000 - read) / 500):
        if isinstance(event, ev.Finished):
            yield structs.replace(event, usage=Usage(0, read, 1000 - read, 50))
        else:
            yield event


def test_caches(tmp_path: Path) -> None:
    """Without one, or with one that keeps prompts for less, more input tokens are used that aren't from a cache."""
    at = 0.0
    events: list[ev.Event] = []
    for number in range(60):
        pause_s = 40.0 if number % 5 == 4 else 4.0
        events += cached(at, number + 1, 0 if number % 5 == 0 else 900)
        at += pause_s
    recording = recorded(tmp_path, events)

    def wall_s(*texts: str) -> float:
        return simulate(recording, parse_changes(texts)).wall_s

    assert recording.figures.wall_s < wall_s("provider.cache=3s") == pytest.approx(wall_s("provider.cache=none"))
    assert wall_s("provider.cache=2m") < recording.figures.wall_s
    without = recorded(tmp_path, served(0.0, 1, "ann"))
    with pytest.raises(UsageError, match="mock read nothing from a cache in the recording"):
        simulate(without, parse_changes(["provider.cache=none"]))


DEAR = "claude-opus-4-5"


def growing(at: float, ticket: int, usage: Usage) -> Iterator[ev.Event]:
    """A request of ann's to Anthropic."""
    for event in served(at, ticket, "ann", takes_s=2.0):
        if isinstance(event, ev.Arrived):
            yield structs.replace(event, model=DEAR, family=DEAR)
        elif isinstance(event, ev.Finished):
            yield structs.replace(event, model=DEAR, usage=usage)
        else:
            yield event
    reading = WindowReading(WindowKind.INPUT, 500_000, 400_000, 12.0)
    yield ev.LimitsRead(at + 2.0, LANE, DEAR, (reading,))


def test_dollars_of_other_models_and_with_caches_on(tmp_path: Path) -> None:
    """At the other model's price; and where nothing was cached, reads and writes as that provider's cache would do."""
    asked = [growing(10.0 * n, n + 1, Usage(20_000 + 1_000 * n, output_tokens=100)) for n in range(10)]
    recording = recorded(tmp_path, *asked, lane=replace(FREE, provider="anthropic"))
    price = prices_at(recording.began.wall)

    def dollars(*texts: str) -> float:
        return simulate(recording, parse_changes(texts), price=price).dollars or 0.0

    usages = [Usage(20_000 + 1_000 * n, output_tokens=100) for n in range(10)]
    for model, *texts in ((DEAR,), ("claude-haiku-4-5", "provider.model=claude-haiku-4-5")):
        assert dollars(*texts) == pytest.approx(sum(price("anthropic", model, usage) or 0 for usage in usages))
    warm = [Usage(0, 19_000 + 1_000 * n, 1_000, 100) if n else Usage(0, 0, 20_000, 100) for n in range(10)]
    assert dollars("provider.cache=5m") == pytest.approx(sum(price("anthropic", DEAR, usage) or 0 for usage in warm))
    cold = [Usage(0, 0, usage.total_input, 100) for usage in usages]
    assert dollars("provider.cache=5s") == pytest.approx(sum(price("anthropic", DEAR, usage) or 0 for usage in cold))
    with pytest.raises(UsageError, match="no price of such a model is known"):
        simulate(recording, parse_changes(["provider.model=no-such-model"]))
    (limit,) = altered(recording, questions(parse_changes(["provider.tier=4"]))).providers[LANE].limits
    assert limit.limit == 10_000_000
    with pytest.raises(UsageError, match="must be one of start"):
        simulate(recording, parse_changes(["provider.tier=9"]))


def test_an_outage(tmp_path: Path) -> None:
    """Attempts in it fail and are retried, so the run ends later by about as long."""
    recording = recorded(tmp_path, *(served(number * 3.0, number + 1, "ann", takes_s=2.0) for number in range(10)))
    figures = simulate(recording, parse_changes(["provider.outage=20s@5s"]))
    assert figures.retries >= 2
    assert figures.answered == 10
    assert figures.wall_s > simulate(recording).wall_s + 10
    with pytest.raises(UsageError, match="the recording is over by then"):
        simulate(recording, parse_changes(["provider.outage=20s@5h"]))


def test_more_agents(tmp_path: Path) -> None:
    """Copies do what their originals did, with the sub-agents of these, under names of their own."""
    ann = [*served(0.0, 1, "ann"), *served(2.0, 2, "ann")]
    sub = list(served(1.5, 3, "sub"))
    sub[0] = request(1.5, 3, "sub", parent="ann")
    bob = served(0.5, 4, "bob")
    recording = recorded(tmp_path, ann, sub, bob)
    doubled = simulate(recording, parse_changes(["agents=x2"]))
    assert (doubled.agents, doubled.requests, doubled.finished) == (6, 8, 6)
    assert simulate(recording, parse_changes(["agents=3"])).requests == 4 + 3
    assert simulate(recording, parse_changes(["agents=1"])).requests == 3
    assert simulate(recording, parse_changes(["agents=2"])) == simulate(recording)
    seen: set[str] = set()
    simulate(
        recording,
        parse_changes(["agents=x2"]),
        on_event=lambda event: seen.add(event.agent) if isinstance(event, ev.Arrived) else None,
    )
    assert seen == {"ann", "bob", "sub", "ann+1", "bob+1", "sub+1"}


def test_a_retry_is_copied_as_one(tmp_path: Path) -> None:
    """A request that its client repeated is repeated by the copy."""
    lost = [
        request(0.0, 1, "ann"),
        ev.Granted(0.0, 1, "ann", LANE, 1, 0.0),
        failed(1.0, 1, "ann", FailureKind.SERVER_ERROR),
    ]
    recording = recorded(tmp_path, lost, served(2.0, 2, "ann"))
    assert recording.trace.requests[1].repeats is recording.trace.requests[0]
    once, doubled = simulate(recording), simulate(recording, parse_changes(["agents=x2"]))
    assert (doubled.requests, doubled.answered, doubled.finished) == (2 * once.requests, 2 * once.answered, 2)


def test_a_scenario_file(tmp_path: Path) -> None:
    """It holds the same changes as `--set`, in the form of the settings file."""
    path = tmp_path / "scenario.toml"
    path.write_text(
        'max_concurrency = 8\nagents = "x2"\n[provider]\noutage = "5m@10m"\n[features]\nadmission = false\n'
    )
    changes = parse_changes(scenario(path))
    assert list(map(str, changes)) == [
        "max_concurrency=8",
        "agents=x2",
        "provider.outage=5m@10m",
        "features.admission=off",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "changes nothing; it holds settings, such as max_concurrency = 8"),
        ("a = [1]", "a must be a text, a number, true or false"),
        ("a =", "can't be read as TOML: "),
    ],
)
def test_a_scenario_file_that_isnt_one(tmp_path: Path, text: str, told: str) -> None:
    """One line that says why."""
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        scenario(path)
    assert str(raised.value).startswith(told)
    with pytest.raises(UsageError, match="No such file"):
        scenario(tmp_path / "none.toml")
