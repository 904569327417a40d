"""Headers about limits and delays: whatever they say, what is understood is finite, bounded and not negative."""

from __future__ import annotations

from fuzz.kit import choices, require, target

from hivemind.providers.limits import read_limits
from hivemind.providers.times import (
    DAY_S,
    LONGEST_S,
    clocks,
    duration_delay,
    header_delay,
    parse_moment,
    parse_number,
    seconds_until,
)
from hivemind.providers.waits import waits_in_words

_TOKENS = (
    *(b"anthropic-ratelimit-requests-remaining: ", b"anthropic-ratelimit-tokens-reset: ", b"retry-after: "),
    *(b"anthropic-ratelimit-input-tokens-limit: ", b"anthropic-ratelimit-unified-5h-utilization: 0.5\n"),
    *(b"x-ratelimit-remaining-tokens: ", b"x-ratelimit-limit-requests: ", b"x-ratelimit-reset-tokens: "),
    *(b"retry-after-ms: ", b"date: ", b"Mon, 23 Nov 2026 10:00:00 GMT", b"2026-11-23T10:00:00Z", b"+14:00", b"6m0s"),
    *(b"1h2m", b"20ms", b"1e99", b"-1", b"nan", b"1795428000000", b"1795428000", b"99999999999999999999", b".5"),
    b"\xb2",
)
_NOWS = (0.0, 1.8e9, 4e9, 1e12)


def headers_in(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return lines as headers."""
    lines = (line.partition(b":") for line in data.split(b"\n"))
    return [(name.strip().lower(), value.strip()) for name, _, value in lines]


@target("limits", _TOKENS)
def limits(data: bytes) -> None:
    (which,), rest = choices(data, 1)
    headers, now = headers_in(rest), _NOWS[which % len(_NOWS)]
    found = read_limits(headers, now)
    for reading in found.readings:
        require(reading.limit is None or 0 < reading.limit <= 10**15, "not a limit", reading)
        require(reading.remaining is None or 0 <= reading.remaining <= 10**15, "not what remains", reading)
        require(reading.reset_in_s is None or 0 <= reading.reset_in_s <= LONGEST_S, "not a reset", reading)
    require(len({reading.kind for reading in found.readings}) == len(found.readings), "a kind twice", found)
    for share in found.plan:
        require(0 <= share.used <= 1, "not a share", share)
        require(share.reset_in_s is None or 0 <= share.reset_in_s <= 366 * DAY_S, "not a reset", share)
    delay = header_delay(headers, now)
    require(delay is None or 0 <= delay <= LONGEST_S, "not a delay", delay)


@target("times", [*(token.split(b": ")[-1] for token in _TOKENS), b"retry in 12.3s", b"try again in 6m0s"])
def times(data: bytes) -> None:
    (which,), rest = choices(data, 1)
    text, now = rest.decode("latin-1"), _NOWS[which % len(_NOWS)]
    by = clocks([(b"date", rest)], now)
    require(1 <= len(by) <= 2 and by[-1] == now, "not the clocks", by)
    for each in (seconds_until(text, by), duration_delay(text), *waits_in_words(text, by, 8)):
        require(each is None or 0 <= each <= LONGEST_S, "not a time", each)
    number = parse_number(text)
    require(number is None or abs(number) < float("inf"), "not finite", number)
    moment = parse_moment(text)
    require(moment is None or abs(moment) < 1e12, "not a moment", moment)
