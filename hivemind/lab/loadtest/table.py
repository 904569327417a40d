"""Then and now beside each other, for people."""

from __future__ import annotations

from collections.abc import Iterator

from hivemind.lab.loadtest.comparison import CostEstimate, Lateness, Totals
from hivemind.text.humanise import count, dollars, duration
from hivemind.text.table import Cell, Column, lines

LATE_S = 0.05
"""From here on requests that are late are worth a warning."""
_COLUMNS = (
    Column("", cut=True),
    Column("RECORDED", right=True),
    Column("NOW", right=True),
    Column("DIFFERENCE", right=True, spare=1),
)
_Row = tuple[Cell | str, Cell | str, Cell | str, Cell | str]


def shown(then: Totals, now: Totals, speed: float, room: int | None) -> list[str]:
    """The table; the time in which the recorded ones were sent is divided by `speed`, which made it shorter now."""
    sending = "sent within" if speed == 1 else f"sent within, at {speed:g}x"
    rows = [
        *_rows(then, now),
        _times(sending, then.sending_s / speed, now.sending_s),
        _times("wall time", then.wall_s, now.wall_s),
    ]
    return lines(_COLUMNS, rows, room)


def late_line(late: Lateness) -> str:
    """How well the times were kept."""
    figures = f"p50 {duration(late.p50_s)}, p95 {duration(late.p95_s)}, longest {duration(late.longest_s)}"
    if late.p95_s < LATE_S:
        return f"sent late: {figures}"
    return f"sent late: {figures}; this machine didn't keep up, or --concurrency held it back, so the load was less"


def estimate_line(estimate: CostEstimate) -> str:
    """`about 14k tokens in and 4k out, $0.12`."""
    text = f"about {count(estimate.input_tokens)} tokens in and {count(estimate.output_tokens)} out"
    if estimate.dollars is None:
        return f"{text}, of unknown price"
    more = f", and {count(estimate.unpriced_tokens)} tokens of unknown price" if estimate.unpriced_tokens else ""
    return f"{text}, {dollars(estimate.dollars)}{more}"


def _rows(then: Totals, now: Totals) -> Iterator[_Row]:
    yield _counts("requests", then.requests, now.requests)
    yield _counts("answered", then.answered, now.answered)
    for status in sorted({*then.statuses, *now.statuses}):
        name = "no answer" if status == "none" else f"status {status}"
        yield _counts(name, then.statuses.get(status, 0), now.statuses.get(status, 0))
    for error in sorted({*then.errors, *now.errors}):
        before, after = then.errors.get(error, 0), now.errors.get(error, 0)
        style = "bad" if after > before else ""
        yield (error.replace("_", " "), str(before), Cell(str(after), style), _signed(after - before))
    yield _times("first content p50", then.first_p50_s, now.first_p50_s)
    yield _times("first content p95", then.first_p95_s, now.first_p95_s)
    yield _times("whole answer p50", then.took_p50_s, now.took_p50_s)
    yield _times("whole answer p95", then.took_p95_s, now.took_p95_s)
    yield _amounts("tokens in", then.input_tokens, now.input_tokens)
    yield _amounts("tokens out", then.output_tokens, now.output_tokens)
    if then.uncounted or now.uncounted:
        yield _counts("answers without a count", then.uncounted, now.uncounted)


def _counts(name: str, then: int, now: int) -> _Row:
    return name, f"{then:,}", f"{now:,}", _signed(now - then)


def _amounts(name: str, then: int, now: int) -> _Row:
    return name, count(then), count(now), _share(then, now)


def _times(name: str, then: float | None, now: float | None) -> _Row:
    return name, _time(then), _time(now), "" if then is None or now is None else _share(then, now)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _signed(difference: int) -> str:
    return f"{difference:+,}" if difference else ""


def _share(then: float, now: float) -> str:
    return f"{(now - then) / then * 100:+.0f} %" if then else ""
