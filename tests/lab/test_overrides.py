"""Settings that are to have another value: what people type, and what becomes of a recording's own settings."""

from __future__ import annotations

import pytest

from hivemind.errors import UsageError
from hivemind.lab.simulate.overrides import Change, agent_commands, apply_changes, parse_changes
from hivemind.records import replace
from hivemind.scheduler.commands import SetBudget, SetPriority
from hivemind.scheduler.config import AimdConfig, LaneConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.types import Priority

LANE = LaneConfig("here", "ollama", max_concurrency=3, rpm=40, tpm=900, rpm_binding=True)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("aimd.beta=0.7", Change("aimd.beta", 0.7)),
        ("beta = .7", Change("aimd.beta", 0.7)),
        ("aimd.beta=unset", Change("aimd.beta", None)),
        ("--max-concurrency=8", Change("max_concurrency", 8)),
        ("C_max=8", Change("max_concurrency", 8)),
        ("rpm=2k", Change("rpm", 2000)),
        ("tpm=1.5m", Change("tpm", 1_500_000)),
        ("tpm=1_000_000", Change("tpm", 1_000_000)),
        ("tpm=none", Change("tpm", 0)),
        ("retry.base=2", Change("retry.base_s", 2.0)),
        ("circuit.when_open=REFUSE", Change("circuit.when_open", "refuse")),
        ("admission=off", Change("features.admission", False)),
        ("budget.tokens=50k", Change("budget.tokens", 50_000)),
        ("budget.dollars=$5", Change("budget.dollars", 5.0)),
        ("budget.tokens=none", Change("budget.tokens", None)),
        ("agent.Ann.b.priority=HIGH", Change("agent.Ann.b.priority", "high")),
        ("agent.ann.budget=50k", Change("agent.ann.budget", "50k")),
        ("provider.limits=x2", Change("provider.limits", "x2")),
        ("provider.limits = 2x", Change("provider.limits", "x2")),
        ("Provider.Mock.tokens=200k", Change("provider.Mock.tokens", "200000")),
        ("provider.places=none", Change("provider.places", "none")),
        ("provider.places=×1.5", Change("provider.places", "x1.5")),
        ("provider.outage=5m", Change("provider.outage", "5m")),
        ("provider.cache=off", Change("provider.cache", "none")),
        ("provider.cache=5m", Change("provider.cache", "5m")),
        ("provider.outage=90s@10m", Change("provider.outage", "90s@10m")),
        ("provider.latency=x0.5", Change("provider.latency", "x0.5")),
        ("provider.model=claude-haiku-4-5", Change("provider.model", "claude-haiku-4-5")),
        ("provider.tier=4", Change("provider.tier", "4")),
        ("agents=x2", Change("agents", "x2")),
        ("agents=40", Change("agents", "40")),
    ],
)
def test_understood(text: str, change: Change) -> None:
    """Settings by their names, by the paper's, and by what people would try; a change reads back as the same, and so
    does a question about the provider or the agents."""
    assert parse_changes([text]) == (change,)
    assert parse_changes([str(change)]) == (change,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("aimd.bta=3", "aimd.bta: no such setting; did you mean aimd.beta?"),
        ("bta=3", "bta: no such setting; did you mean beta?"),
        (
            "port=3",
            "port: makes no difference to a simulation; what does is max_concurrency, max_concurrency_per_upstream,"
            " rpm, tpm, max_agents, agent_idle_s, aimd.*, budget.*, circuit.*, features.*, queue.*,"
            " retry.*, agents, provider.*",
        ),
        ("circuit.threshold=2", "circuit.threshold 2: must be a number above 0 and at most 1"),
        ("queue.max_depth=1.5", "queue.max_depth 1.5: must be a whole number from 1 to 1,000,000"),
        ("aimd.alpha=nan", "aimd.alpha nan: must be a number above 0 and at most 100; unset: the default applies"),
        ("circuit.when_open=close", "circuit.when_open close: must be hold or refuse"),
        (
            "budget.tokens=$5",
            "budget.tokens $5: must be a whole number from 1 to 1,000,000,000,000,000; unset: the default applies",
        ),
        ("aimd.beta", "aimd.beta: must be NAME=VALUE, as in aimd.beta=0.7 or max_concurrency=8"),
        ("agent.ann.priority=top", "agent.ann.priority top: must be critical, high, normal or low"),
        ("agent.ann.budget=+5k", "agent.ann.budget +5k: must be a whole budget; there is none yet that could be more"),
        (
            "agent.ann.budget=lots",
            "agent.ann.budget: 'lots' is no budget;"
            " it is 200k, $5, $5/day, 200k,$5 or none, per run, day, month or ever",
        ),
    ],
)
def test_refused(text: str, told: str) -> None:
    """One line: what was wrong, and what would be right."""
    with pytest.raises(UsageError) as refused:
        parse_changes([text])
    assert str(refused.value) == told


def test_the_later_one_holds() -> None:
    """Of two for one name, by whichever of its names; different names go together."""
    found = parse_changes(["aimd.beta=0.5", "rpm=3", "beta=0.9"])
    assert {change.name: change.value for change in found} == {"aimd.beta": 0.9, "rpm": 3}


def test_applied() -> None:
    """Each setting goes where it belongs, as if it had been set from the start; nothing else differs."""
    changes = parse_changes(
        [
            "alpha=2",
            "max_concurrency=9",
            "rpm=0",
            "tpm=70",
            "retry.max_s=50",
            "features.backpressure=off",
            "max_agents=4",
        ]
    )
    scheduler, lane = apply_changes(changes, SchedulerConfig(), LANE)
    assert lane == replace(
        LANE, aimd=AimdConfig(alpha=2), max_concurrency=9, rpm=0, rpm_binding=False, tpm=70, tpm_binding=True
    )
    assert scheduler == SchedulerConfig(retry=RetryConfig(max_s=50), backpressure=False, max_agents=4)


def test_unset() -> None:
    """What is unset is as the provider's profile has it, and binds nobody."""
    names_of = ("max_concurrency", "rpm", "aimd.beta", "budget.tokens")
    _, lane = apply_changes([Change(name, None) for name in names_of], SchedulerConfig(), LANE)
    assert (lane.max_concurrency, lane.rpm, lane.rpm_binding, lane.aimd.beta) == (2, 1000, False, 0.7)


@pytest.mark.parametrize(("texts", "fits"), [(["retry.base_s=60"], False), (["base_s=60", "retry.max_s=60"], True)])
def test_together(texts: list[str], fits: bool) -> None:
    """A change is checked beside what was recorded and the other changes, not beside the defaults."""
    changes = parse_changes(texts)
    if fits:
        scheduler, _ = apply_changes(changes, SchedulerConfig(), LANE)
        assert (scheduler.retry.base_s, scheduler.retry.max_s) == (60, 60)
        return
    with pytest.raises(UsageError) as refused:
        apply_changes(changes, SchedulerConfig(), LANE)
    assert str(refused.value) == (
        "retry.base_s=60: contradicts other settings: retry.max_s must be at least retry.base_s, which is 60;"
        " change both"
    )
    apply_changes(changes, SchedulerConfig(retry=RetryConfig(max_s=90)), LANE)


def test_orders() -> None:
    """What is said of single agents are commands; they change no configuration."""
    changes = parse_changes(["agent.ann.priority=high", "agent.bob.budget=50k,$5/day", "rpm=7"])
    assert agent_commands(changes) == (SetPriority("ann", Priority.HIGH), SetBudget("bob", 50_000, 5.0, "day"))
    assert apply_changes(changes[:2], SchedulerConfig(), LANE) == (SchedulerConfig(), LANE)
