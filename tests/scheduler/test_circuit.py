"""The circuit breaker."""

from __future__ import annotations

import pytest

from hivemind.scheduler.admission.circuit import Circuit, CircuitState
from hivemind.scheduler.config import CircuitConfig

CONFIG = CircuitConfig(window=4, threshold=0.5, cooldown_s=10.0)


def fed(results: str, now: float = 0.0) -> Circuit:
    """A circuit that saw these results: `x` an error, `.` a success."""
    circuit = Circuit(CONFIG)
    for result in results:
        circuit.report(now, 1, circuit.epoch, result == ".")
    return circuit


def half_open(probe: int | None = None) -> Circuit:
    """A circuit whose cooldown is over, with its probe in flight where one is named."""
    circuit = fed("xxxx")
    circuit.poll(10.0)
    if probe is not None:
        circuit.lease(probe)
    return circuit


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ("", "closed"),
        ("xxx", "closed"),
        ("xxxx", "open"),
        ("..xx", "open"),
        ("...x", "closed"),
        ("....xx", "open"),
        ("x...x...x", "closed"),
        ("x..x", "open"),
        ("xxx.", "closed"),
        ("xxx.x", "open"),
    ],
)
def test_opens_at_the_threshold_over_the_last_results(results: str, state: str) -> None:
    """Equation 3: open when e/n >= tau over the last N, and not before N are known; an answer never opens it."""
    assert fed(results).state.value == state


def test_counts_only_what_is_in_its_window() -> None:
    """Errors that fell out are no longer counted."""
    circuit = fed("x......")
    assert (circuit.errors, circuit.results) == (0, 4)


def test_admits_no_request_while_open() -> None:
    """Until the cooldown is over."""
    circuit = fed("xxxx", now=5.0)
    assert not circuit.admits()
    assert circuit.reopens_at == 15.0
    assert not circuit.poll(14.9)
    assert circuit.poll(15.0)
    assert circuit.state is CircuitState.HALF_OPEN


def test_half_open_admits_one_probe() -> None:
    """A single request is let through."""
    circuit = half_open()
    assert circuit.admits()
    circuit.lease(7)
    assert not circuit.admits()


def test_a_good_probe_closes() -> None:
    """And the results of before are forgotten."""
    circuit = half_open(7)
    assert circuit.report(11.0, 7, circuit.epoch, ok=True)
    assert circuit.state is CircuitState.CLOSED
    assert (circuit.errors, circuit.results) == (0, 0)
    assert circuit.admits()


def test_a_failed_probe_opens_for_another_cooldown() -> None:
    """Counted from the probe's failure."""
    circuit = half_open(7)
    assert circuit.report(12.0, 7, circuit.epoch, ok=False)
    assert circuit.state is CircuitState.OPEN
    assert circuit.reopens_at == 22.0


def test_a_probe_whose_client_leaves_makes_room_for_another() -> None:
    """Else the circuit would wait for ever for a verdict."""
    circuit = half_open(7)
    circuit.return_lease(8)
    assert not circuit.admits()
    circuit.return_lease(7)
    assert circuit.admits()


@pytest.mark.parametrize("ok", [True, False])
def test_results_of_an_earlier_epoch_are_ignored(ok: bool) -> None:
    """A late failure doesn't reopen a circuit that was proved sound, nor does a late success close an open one."""
    circuit = Circuit(CONFIG)
    before = circuit.epoch
    for _ in range(4):
        circuit.report(0.0, 1, before, ok=False)
    assert not circuit.report(1.0, 1, before, ok)
    assert circuit.state.value == "open"
    circuit.poll(10.0)
    assert not circuit.report(10.0, 1, before, ok)
    assert circuit.state.value == "half_open"
    circuit.lease(7)
    circuit.report(11.0, 7, circuit.epoch, ok=True)
    for _ in range(4):
        assert not circuit.report(12.0, 1, before, ok)
    assert circuit.results == 0


def test_only_the_probe_decides_in_half_open() -> None:
    """Another ticket of the same epoch has no say."""
    circuit = half_open(7)
    assert not circuit.report(11.0, 8, circuit.epoch, ok=True)
    assert circuit.state is CircuitState.HALF_OPEN


def test_a_lease_in_a_closed_circuit_is_none() -> None:
    """Requests sent while all is well are no probes."""
    circuit = Circuit(CONFIG)
    circuit.lease(7)
    assert circuit.admits()


@pytest.mark.parametrize(("mode", "state"), [("open", "open"), ("closed", "closed")])
def test_a_forced_circuit_stays(mode: str, state: str) -> None:
    """Neither results nor time move it."""
    circuit = Circuit(CONFIG)
    circuit.force(mode)  # type: ignore[arg-type]
    for n in range(8):
        assert not circuit.report(0.0, n, circuit.epoch, ok=False)
    assert not circuit.poll(1000.0)
    assert circuit.reopens_at is None
    assert circuit.state.value == state


@pytest.mark.parametrize(("mode", "state"), [("auto", "closed"), ("probe", "half_open")])
def test_a_forced_circuit_is_given_back(mode: str, state: str) -> None:
    """`auto` begins anew, `probe` asks for one request now; either way it goes on by itself."""
    circuit = Circuit(CONFIG)
    circuit.force("open")
    circuit.force(mode)  # type: ignore[arg-type]
    assert circuit.state.value == state
    assert circuit.forced is None
    assert circuit.admits()


def test_a_probe_by_hand_that_fails_opens() -> None:
    """It is judged like any other."""
    circuit = Circuit(CONFIG)
    circuit.force("probe")
    circuit.lease(3)
    circuit.report(100.0, 3, circuit.epoch, ok=False)
    assert circuit.reopens_at == 110.0
