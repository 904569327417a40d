"""`hivemind-mock`: its flags, its ready line and its errors."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import socket
import threading

import pytest

from hivemind.records import names_of
from hivemind_mock.provider.config import SCENARIOS, FaultConfig, LatencyConfig, LimitConfig, MockConfig, ReplyConfig
from hivemind_mock.provider.main import add_flags, configured, main


def read(*argv: str, base: MockConfig | None = None) -> MockConfig:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return configured(parser.parse_args(argv), base or MockConfig())


def test_no_flags_change_nothing() -> None:
    """The base is kept as it is."""
    base = SCENARIOS["stress"].provider(seed=4)
    assert read(base=base) == base


def test_flags_reach_every_part() -> None:
    """Numbers, shares, choices and yes or no end up in their fields."""
    config = read(
        "--seed", "7", "--rpm", "60", "--window", "bucket", "--reserve-max-tokens", "yes", "--latency-base-s", "0.5",
        "--bad-gateway", "0.1", "--reset", "0.2", "--reply-tokens", "300", "--reply-encoding", "zstd",
        "--format", "google", "--format", "ollama",
    )  # fmt: skip
    assert config == MockConfig(
        seed=7,
        formats=("google", "ollama"),
        limits=LimitConfig(rpm=60, window="bucket", reserve_max_tokens=True),
        latency=LatencyConfig(base_s=0.5),
        faults=FaultConfig(bad_gateway=0.1, reset=0.2),
        reply=ReplyConfig(tokens=300, encoding="zstd"),
    )


def test_every_field_has_a_flag() -> None:
    """Nothing of the configuration is out of reach of the command line."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    known = vars(parser.parse_args([])).keys()
    for part, kind in (("limits", LimitConfig), ("latency", LatencyConfig), ("faults", FaultConfig)):
        assert {f"{part}.{name}" for name in names_of(kind) or ()} <= known


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--rpm", "many"], "--rpm: must be a whole number from 0 to 1e+09, not 'many'"),
        (["--reset", "1.5"], "--reset: must be a number from 0 to 1, not '1.5'"),
        (["--reset", "0.6", "--bad-gateway", "0.6"], "the fault probabilities add up to 1.2, which is more than 1"),
        (["--window-s", "0"], "--window-s: must be a number from 0.001 to 1e+09, not '0'"),
        (["--reply-event-tokens", "0"], "--reply-event-tokens: must be a whole number from 1 to 1e+09, not '0'"),
        (["--window", "rolling"], "--window: must be one of fixed, bucket, sliding, not 'rolling'"),
        (["--scenario", "calm"], "--scenario: must be one of micro-5,"),
        (["--format", "cohere"], "--format: must be one of anthropic,"),
        (["--port", "99999"], "--port: must be a whole number from 0 to 65535, not '99999'"),
        (["--rmp", "5"], "--rmp: no such flag"),
        (["--cache-read", "0.6", "--cache-write", "0.6"], "--cache-read and --cache-write: add up to more than 1"),
        (["--speed", "60"], "--speed: is no longer a flag"),
        (["--words", "french"], "--words: must be one of"),
        (["--plan", "steps.yaml"], "--plan: is no longer a flag; `benchmarks.planned` of the source"),
    ],
)
def test_bad_input_is_one_clear_line(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Naming the flag and what it allows, with exit code 2."""
    assert main(argv) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"hivemind-mock: {line}")
    assert shown.count("\n") == 1


def test_it_serves_until_a_signal_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario's provider in every format; a port that is taken is told in a line."""

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "ready on" in text:
                threading.Timer(0, os.kill, (os.getpid(), signal.SIGTERM)).start()
            return super().write(text)

    with contextlib.redirect_stdout(Out()):
        assert main(["--scenario", "micro-5", "--format", "any", "--port", "0"]) == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 1
    assert capsys.readouterr().err.startswith("hivemind-mock: can't listen: ")
