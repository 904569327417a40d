"""Lines of a journal that hold long bodies, or numbers without a limit."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from msgspec.structs import replace

from hivemind.journal import codec as journal_format
from hivemind.journal.codec import encoded, event_of, events_of, line_of, lines_of
from hivemind.journal.records import VERSION, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority, Usage

TEXT = 'Grüße, "世界" \\ \n \U0001f600 "body":"" ' * 20_000
HEADERS = (("x", '"body":""'),)
EVENTS = [
    RequestBody(1.0, 1, "POST", '/x?"body":""', HEADERS, TEXT),
    RequestBody(1.0, 1, "POST", "/x", (), "QUJD" * 200_000, "base64"),
    ResponseBody(1.0, 1, 2, 200, HEADERS, TEXT, "", "why not"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_a_long_body_is_encoded_in_pieces(event: RequestBody | ResponseBody, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is the one that encoding it in one go gives, and no piece of it holds the interpreter for long."""
    whole = msgspec.json.decode(msgspec.json.encode(event))
    encode = msgspec.json.Encoder().encode
    sizes = []

    def counting(value: object) -> bytes:
        data = encode(value)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(journal_format, "_encode", counting)
    line = msgspec.json.decode(line_of(event))
    assert (line.pop("v"), line.pop("event")) == (VERSION, type(event).__name__)
    assert line == whole
    assert len(sizes) > 2
    assert max(sizes) <= 4 * journal_format._PIECE


UNLIMITED = ev.LaneState(
    lane="a:1",
    upstream="a",
    provider="generic",
    active=0,
    waiting=0,
    retrying=0,
    level=math.inf,
    ceiling=math.inf,
    floor=1.0,
    latency_target_s=2.0,
    circuit_window=20,
    circuit_threshold=0.5,
    knobs={"rpm": math.inf},
    lease=ev.LeaseGauges("leased", 2, math.inf, math.inf),
)


@pytest.mark.parametrize(
    "event",
    [
        ev.LevelChanged(1.0, "a:1", math.inf, "grow"),
        ev.LeaseChanged(1.0, "a:1", "leased", math.inf, math.inf, 2),
        ev.Sampled(1.0, (UNLIMITED,)),
    ],
)
def test_no_limit(event: ev.Event) -> None:
    """JSON has no infinity; what is read is what was written."""
    assert event_of(line_of(event)) == event


OF = 7, "ann", "a:1"
ARRIVED = ev.GrantedOnArrival(1.0, *OF, "m", "m", Priority.NORMAL, False, 40, 180, path='/x?"attempt":1', attempt=1)
ANSWERED = ev.AnsweredWhole(2.0, *OF, "m", 200, 1, Usage(40, output_tokens=180), 1.0, 1.0, 0.5)


@pytest.mark.parametrize("answered", [ANSWERED, replace(ANSWERED, headed_s=None), replace(ANSWERED, usage=None)])
def test_two_events_in_a_line(answered: ev.AnsweredWhole) -> None:
    """What a line holds of two events is read as two, and what says the same in two events is written once."""
    written = lines_of(encoded([ARRIVED, answered])).splitlines(keepends=True)
    assert [events_of(line) for line in written] == [ev.apart(ARRIVED), ev.apart(answered)]
    assert sum(map(len, written)) < 560
    if answered.usage:  # what people's scripts look for, 0 or not
        names = "input_tokens", "cache_read_tokens", "output_tokens", "estimated_tokens"
        assert [json.loads(written[1])["usage"][name] for name in names] == [40, 0, 180, 0]
    for event in (*ev.apart(ARRIVED), *ev.apart(answered)):  # and a line with one holds no other
        assert events_of(lines_of(encoded([event]))) == (event,) == ev.apart(event)
