"""The seven scenarios (paper, Evaluation, Table of scenarios)."""

from __future__ import annotations

from dataclasses import dataclass

from hivemind_mock.provider.config import FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig

_SPIKE_FACTOR = 5.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """So many agents, each asking so many times, against such a provider."""

    name: str
    agents: int
    turns: int
    rpm: int
    tpm: int
    base_s: float
    jitter_s: float
    bad_gateway: float = 0.0
    reset: float = 0.0
    spike: float = 0.0
    concurrency: int = 0
    """0: none."""

    @property
    def calls(self) -> int:
        """Answers needed for every agent to finish."""
        return self.agents * self.turns

    def provider(self, seed: int, formats: tuple[str, ...] = ("anthropic",)) -> MockConfig:
        """The scenario's provider."""
        return MockConfig(
            seed=seed,
            formats=formats,
            limits=LimitConfig(rpm=self.rpm, tpm=self.tpm, concurrency=self.concurrency),
            latency=LatencyConfig(self.base_s, self.jitter_s, self.spike, _SPIKE_FACTOR),
            faults=FaultConfig(bad_gateway=self.bad_gateway, reset=self.reset),
            reply=ReplyConfig(event_tokens=30),
        )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("micro-5", 5, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-10", 10, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-20", 20, 8, 50, 100_000, 0.080, 0.050),
        Scenario("micro-50", 50, 6, 50, 100_000, 0.080, 0.050),
        Scenario("replay-11", 11, 8, 60, 200_000, 0.120, 0.060, 0.08, 0.05, concurrency=5),
        Scenario("stress", 20, 10, 20, 50_000, 0.200, 0.050, 0.10, 0.05, 0.10, concurrency=3),
        Scenario("latency-spike", 10, 10, 60, 100_000, 0.100, 0.030, spike=0.20),
    )
}
