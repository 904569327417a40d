"""The files of what is known of each provider."""

from __future__ import annotations

import re

import pytest

from hivemind.providers.errors import classify, read_error
from hivemind.providers.known import at_host, provider_of, providers
from hivemind.providers.limits import read_limits
from hivemind.providers.table import Limit, Meaning, Provider, Refusal
from hivemind.scheduler.types import FailureKind

NOW = 1_795_893_000.0  # 2026-11-28T19:10:00Z
KINDS = {
    Meaning.USED_UP: FailureKind.QUOTA,
    Meaning.FORBIDDEN: FailureKind.QUOTA,
    Meaning.TOO_LARGE: FailureKind.CLIENT_ERROR,
    Meaning.THROTTLED: FailureKind.RATE_LIMITED,
    Meaning.FULL: FailureKind.OVERLOADED,
}
ROWS = [
    pytest.param(provider, row, id=f"{provider.name}-{number}")
    for provider in providers()
    for number, row in enumerate(provider.refusals)
]


@pytest.mark.parametrize("provider", providers(), ids=lambda provider: provider.name)
def test_rows_are_complete(provider: Provider) -> None:
    """Each row names its source and the month it was seen, and its example is what it describes."""
    rows = (*provider.refusals, *provider.waits, *provider.failing, *provider.counts, *provider.paths, *provider.limits)
    loads = (*provider.loads, provider.slots) if provider.slots else provider.loads
    for load in loads:
        assert (load.read(load.example), load.read("{}")) == (load.requests, None)
    for row in (*rows, *loads):
        assert row.source, row
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", row.seen), row
    assert provider.hosts or provider.headers or provider.errors or provider.signs, "it can't be recognised"


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(("provider", "row"), ROWS)
def test_each_row_is_read_from_its_example(provider: Provider, row: Refusal, known: bool) -> None:
    """What was recorded means what the row says, also where the upstream's host isn't known."""
    host = provider.hosts[0] if known and provider.hosts else ""
    failure = classify(row.status, [(b"content-type", b"application/json")], row.example.encode(), NOW, host)
    assert failure is not None
    assert failure.kind is KINDS[row.meaning]
    assert failure.retryable is (row.meaning in (Meaning.THROTTLED, Meaning.FULL))


@pytest.mark.parametrize(("provider", "row"), ROWS)
def test_each_row_matches_its_example(provider: Provider, row: Refusal) -> None:
    """No earlier row of its provider takes it."""
    info = read_error(row.example.encode())
    assert next(each for each in provider.refusals if each.matches(info.codes, info.text)) is row


@pytest.mark.parametrize(("provider", "row"), [(provider, row) for provider in providers() for row in provider.limits])
def test_each_limit_is_read_from_its_example(provider: Provider, row: Limit) -> None:
    """What was recorded means what the row says, whoever the upstream is."""
    found = read_limits([(name.lower().encode(), value.encode()) for name, value in row.example], NOW)
    assert [(each.kind.value, each.limit, each.remaining) for each in found.readings] == list(row.says), provider.name
    assert {each.name: each.used for each in found.plan} == pytest.approx(dict(row.used))


def test_a_provider_is_found_by_host_form_or_header() -> None:
    """The host decides, then the form of the error, then a header that only one provider sends."""
    zhipu, dashscope = at_host("open.bigmodel.cn"), at_host("dashscope.aliyuncs.com")
    assert zhipu is not None
    assert zhipu.name == "zhipu"
    assert provider_of("127.0.0.1", (), b'{"error": {"message": "see help.aliyun.com"}}') is dashscope
    assert provider_of("127.0.0.1", ((b"x-dashscope-call", b"1"),)) is dashscope
    assert provider_of("127.0.0.1", (), b"{}") is None
    assert at_host("evil-open.bigmodel.cn.example") is None
