"""Predictions on all cores, and work beside them in forked processes."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest
from lab.kit import recorded, served

from hivemind import processes
from hivemind.errors import HiveMindError, UsageError
from hivemind.lab.foresight.foretell import foretell
from hivemind.lab.simulate.overrides import parse_changes
from hivemind.lab.simulate.recording import Recording
from hivemind.processes import Beside, on_cores


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a single core, too."""
    if not hasattr(os, "fork"):
        pytest.skip("processes can't be forked here")
    monkeypatch.setattr(processes, "can_fork", lambda: True)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A hundred requests of four agents."""
    return recorded(tmp_path, (event for n in range(100) for event in served(1.0 + n, n + 1, f"agent-{n % 4}")))


def test_an_unknown_agent_is_refused(recording: Recording) -> None:
    """With the name that is near."""
    with pytest.raises(UsageError, match=r"agent-9: no agent of that name is in by-hand; did you mean agent-"):
        foretell(recording, parse_changes(["agent.agent-9.priority=high"]))


@pytest.mark.usefixtures("forks")
def test_work_beside() -> None:
    """Its result is there as often as it is asked for; a mistake of the user's is raised here."""
    assert Beside(lambda: os.getpid()).result() != os.getpid()
    found = Beside(time.monotonic)
    assert found.result() == found.result()

    def refused() -> None:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        Beside(refused).result()


@pytest.mark.usefixtures("forks")
def test_a_process_that_ends_by_itself() -> None:
    """As if there was no memory left."""

    def too_large() -> None:
        raise MemoryError

    for work in (partial(os._exit, 9), too_large):
        with pytest.raises(HiveMindError, match="ended by itself; is there enough memory"):
            Beside(work).result()


@pytest.mark.usefixtures("forks")
def test_cancelled() -> None:
    """It isn't waited for."""
    work = Beside(partial(time.sleep, 600))
    work.cancel()


@pytest.mark.usefixtures("forks")
def test_each_job_on_some_core() -> None:
    """Results come in the order of the jobs; the first error ends them all."""
    told: list[tuple[int, int]] = []
    assert on_cores(lambda job: -job, range(9), lambda *done: told.append(done)) == [-job for job in range(9)]
    assert told == [(done, 9) for done in range(1, 10)]
    for work, error in ((partial(os._exit), "ended by itself"), (_refused, "no 0")):
        with pytest.raises(HiveMindError, match=error):
            on_cores(work, range(9))


def _refused(job: int) -> None:
    if job == 1:
        time.sleep(600)
    raise UsageError(f"no {job}")


def test_where_nothing_can_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done when its result is asked for."""
    monkeypatch.setattr(processes, "can_fork", lambda: False)
    assert Beside(os.getpid).result() == os.getpid()
