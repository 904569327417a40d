"""Durations, counts, sizes and money as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from hivemind.text.humanise import (
    count,
    dollars,
    duration,
    level,
    listed,
    parse_duration,
    parse_number,
    percent,
    plural,
    short_count,
    short_dollars,
    short_duration,
    short_plural,
    short_size,
    short_span,
    size,
    usage,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (0.0321, "32 ms"),
        (0.456, "456 ms"),
        (0.9996, "1 s"),
        (1.416, "1.42 s"),
        (59.9, "59.9 s"),
        (90, "90 s"),
        (99.96, "1 min 40 s"),
        (120, "2 min"),
        (242, "4 min 2 s"),
        (3599.6, "1 h"),
        (3900, "1 h 5 min"),
        (86_399.6, "1 d"),
        (90_000, "1 d 1 h"),
        (3e11, "3,472,222 d 5 h"),
        (math.inf, "for ever"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """Three figures or two units, and never 60 of anything."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7.4, "7"),
        (13.789, "14"),
        (999, "999"),
        (999.7, "1000"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12_345, "12.3k"),
        (999_999, "1M"),
        (2.5e9, "2.5G"),
    ],
)
def test_count(number: float, text: str) -> None:
    """Three figures."""
    assert count(number) == text


def test_plural() -> None:
    """One has no s; a plural of another kind is given."""
    assert [plural(1, "task"), plural(0, "task"), plural(1200, "task")] == ["1 task", "0 tasks", "1,200 tasks"]
    assert plural(2, "reply", "replies") == "2 replies"
    assert [short_plural(1, "task"), short_plural(1200, "task")] == ["1 task", "1.2k tasks"]


def test_dollars() -> None:
    """Small sums aren't nothing; a plus says that some tokens have no price."""
    assert [dollars(0), dollars(0.0423), dollars(0.42), dollars(1234.5), dollars(1, 5)] == [
        *("$0.00", "$0.0423", "$0.42", "$1,234.50", "$1.00+"),
    ]


def test_usage() -> None:
    """Tokens, dollars, and what the dollars leave out."""
    assert usage(45_123, 0.42, 0) == "45,123 tokens, $0.42"
    assert usage(1_300, 0.02, 1200) == "1,300 tokens, $0.0200 (and 1,200 tokens without a known price)"
    assert usage(1_200, 0, 1200) == "1,200 tokens, price unknown"
    assert usage(45_123, 0.42, 0, 1200) == "45,123 tokens, $0.42 (1,200 tokens estimated)"
    assert usage(9, 0, 9, 1) == "9 tokens, price unknown (1 token estimated)"


def test_size() -> None:
    """By the unit that leaves few digits."""
    assert [size(octets) for octets in (5, 2_048, 3 << 20, 5 << 29)] == ["5 B", "2.0 KiB", "3.0 MiB", "2.5 GiB"]
    assert [short_size(octets) for octets in (0, 12_345, 340_000_000)] == ["0 kB", "12 kB", "340 MB"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (-1.0, "0s"),
        (0.84, "0.8s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (185, "3m05s"),
        (3599.7, "1h00m"),
        (8073, "2h14m"),
        (442_800, "5d03h"),
    ],
)
def test_short_duration(seconds: float | None, text: str) -> None:
    """At most six cells, and never 60 of anything."""
    assert short_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "—"),
        (0, "0"),
        (950, "950"),
        (999.6, "1.0k"),
        (1_000, "1.0k"),
        (9_940, "9.9k"),
        (9_960, "10k"),
        (124_300, "124k"),
        (999_950, "1.0M"),
        (1_240_000, "1.2M"),
        (12_345_678, "12M"),
        (3e9, "3.0G"),
        (math.inf, "∞"),
    ],
)
def test_short_count(number: float | None, text: str) -> None:
    """At most five cells; the unit changes before the number gets longer."""
    assert short_count(number) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "—"), (0, "$0"), (0.0423, "$0.0423"), (0.42, "$0.42"), (1204, "$1,204"), (124_300, "$124k")],
)
def test_short_dollars(amount: float | None, text: str) -> None:
    """At most seven cells."""
    assert short_dollars(amount) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        (" 0.7 ", 0.7),
        ("0,7", 0.7),
        (".5", 0.5),
        ("1,000", 1000),
        ("1,234,567.5", 1_234_567.5),
        ("1_000_000", 1_000_000),
        ("500k", 500_000),
        ("2M", 2_000_000),
        ("1.5m", 1_500_000),
        ("1.005m", 1_005_000),
        ("2 g", 2e9),
        ("1e-3", 0.001),
        ("-3", -3),
    ],
)
def test_parsed_numbers(text: str, number: float) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", "k", "x2", "2x", "1.2.3", "1,2,3", "nan", "inf", "1e999", "0x10", "five", "٣"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no number; it is as in 8, 0\.7, 1_000_000, 500k or 1\.5m"):
        parse_number(text)


def test_parsed_durations() -> None:
    """A number and a unit; nothing else."""
    found = [parse_duration(text) for text in ("90s", "1.5m", " 12h ", "7D", "2w")]
    assert found == [90, 90, 43_200, 604_800, 1_209_600]
    for text in ("", "7", "h", "-1h", "1 year", "1.2.3h", "nand"):
        with pytest.raises(ValueError, match="is no duration"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-30.2, "30s"),
        (60, "1m"),
        (90, "1m30s"),
        (121.7, "2m02s"),
        (600, "10m"),
        (3600, "1h"),
        (7500, "2h05m"),
        (86_400, "1d"),
        (90_000, "1d01h"),
    ],
)
def test_short_span(seconds: float, text: str) -> None:
    """No fraction of a unit: `1m30s` rather than `1.5m`; the sign is the axis's matter."""
    assert short_span(seconds) == text


def test_percent_and_level() -> None:
    """Little isn't nothing, and without a limit there is no number."""
    assert [percent(share) for share in (0, 0.0004, 0.004, 0.01, 0.234, 1, 12.5)] == [
        *("0 %", "0 %", "0.4 %", "1 %", "23 %", "100 %", "1,250 %")
    ]
    assert (level(5.54), level(math.inf)) == ("5.5", "no limit")


@pytest.mark.parametrize(
    ("parts", "text"), [("", ""), ("a", "a"), ("ab", "a or b"), (("a", "", "b", "c"), "a, b or c")]
)
def test_listed(parts: Sequence[str], text: str) -> None:
    """As in a sentence, without what is empty."""
    assert (listed(parts), listed(parts, "and")) == (text, text.replace(" or ", " and "))
