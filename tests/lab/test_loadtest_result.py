"""Then and now, counted alike and shown beside each other."""

from __future__ import annotations

from lab.loadtest_kit import USED, request

from hivemind.lab.loadtest import result
from hivemind.lab.loadtest.requests import RequestResult, Sent
from hivemind.scheduler.types import Usage

RESULTS = (
    RequestResult(200, "", 0.5, 1.0, USED),
    RequestResult(200, "", 1.5, 3.0, None),
    RequestResult(200, "truncated", 0.1, 9.0, Usage(60, 0, 0, 5)),
    RequestResult(429, "rate_limited", None, 0.1, None),
    RequestResult(None, "connect", None, 0.2, None),
)
REQUESTS = [request(number, float(number), recorded=course) for number, course in enumerate(RESULTS, 1)]


def test_both_sides_are_counted_alike() -> None:
    """The same courses at the same times come to the same figures."""
    then = result.recorded_totals(REQUESTS)
    now = result.sent_totals([Sent(each, each.recorded, each.at_s - 1.0, 0.0, False) for each in REQUESTS])
    assert then == now
    assert (then.requests, then.answered, then.uncounted) == (5, 2, 1)
    assert then.statuses == {"200": 3, "429": 1, "none": 1}
    assert then.errors == {"truncated": 1, "rate_limited": 1, "connect": 1}
    assert (then.sending_s, then.wall_s) == (4.0, 11.0)


def test_times_are_of_what_was_answered() -> None:
    """A fast refusal is no fast answer; tokens count whatever became of them."""
    side = result.recorded_totals(REQUESTS)
    assert (side.first_p50_s, side.first_p95_s, side.took_p50_s, side.took_p95_s) == (0.5, 1.5, 1.0, 3.0)
    assert (side.input_tokens, side.output_tokens) == (120, 45)
    nothing = result.recorded_totals(REQUESTS[3:])
    assert (nothing.first_p50_s, nothing.took_p95_s) == (None, None)
    assert result.sent_totals([]).requests == 0


def test_what_it_will_take_is_estimated() -> None:
    """By what was used, caches being as dear as any input; else by its size. Whose price isn't known is told."""

    def price(provider: str, model: str, usage: Usage) -> float | None:
        return usage.total / 1000 if (provider, model) == ("anthropic", "known") else None

    requests = [
        request(1, model="known", recorded=RequestResult(200, "", None, 1.0, Usage(10, 80, 10, 40))),
        request(2, model="known", size_chars=800, max_output_tokens=16, recorded=RESULTS[3]),
        request(3, model="other", size_chars=800, max_output_tokens=None, recorded=RESULTS[3]),
    ]
    assert result.estimate(requests, "generic", price) == result.CostEstimate(500, 312, 0.356, 456)
    assert result.estimate(requests, "openai", price) == result.CostEstimate(500, 312, None, 812)
    assert str(result.CostEstimate(500, 312, 0.356, 456)) == (
        "about 500 tokens in and 312 out, $0.36, and 456 tokens of unknown price"
    )
    assert str(result.CostEstimate(500, 312, None, 812)) == "about 500 tokens in and 312 out, of unknown price"


def test_the_table_shows_what_changed() -> None:
    """Statuses and errors of either side; the recorded times of sending are divided by the speed."""
    then, now = result.recorded_totals(REQUESTS[:2]), result.recorded_totals(REQUESTS)
    rows = [line.split("  ") for line in result.table(then, now, 2.0, None)]
    cells = {row[0]: [each.strip() for each in row[1:] if each.strip()] for row in rows}
    assert cells["answered"] == ["2", "2"]
    assert cells["no answer"] == ["0", "1", "+1"]
    assert cells["rate limited"] == ["0", "1", "+1"]
    assert cells["whole answer p95"] == ["3 s", "3 s", "+0 %"]
    assert cells["sent within, at 2x"] == ["500 ms", "4 s", "+700 %"]
    assert cells["wall time"] == ["4 s", "11 s", "+175 %"]


def test_who_lags_is_told() -> None:
    """A load that was less than it was meant to be isn't passed off as one."""
    assert result.late_line(result.Lateness(0.001, 0.04, 2.0)) == "sent late: p50 1 ms, p95 40 ms, longest 2 s"
    assert "so the load was less" in result.late_line(result.Lateness(0.001, 0.06, 0.1))
