"""The events that a proxy would have told, had these requests gone through it."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hivemind.journal.importers.parsed import ParsedAttempt
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.journal.write.bodies import LONGEST
from hivemind.providers.encoding import decode_body
from hivemind.providers.profiles import PROFILES, assumed_lane, family
from hivemind.redaction.bodies import redact_body
from hivemind.redaction.heads import masked_headers, masked_target, secrets_of
from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.estimate import Estimator
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState, WindowState
from hivemind.scheduler.types import Failure, Priority, WindowKind, WindowReading
from hivemind.wire.headers import Headers
from hivemind.wire.recent_heads import Heads
from hivemind.world.lifecycle import Lifecycle, OpenRequests

_LIMITS_EVERY_S = 1.0


class EventBuilder:
    """`began` is the moment, in seconds since the epoch, that is 0 on the clock of the events."""

    def __init__(self, began: float, *, bodies: bool) -> None:
        self._began = began
        self._bodies = bodies
        self._names: dict[str, str] = {}
        """Of upstreams, by origin."""
        self._lanes: set[str] = set()
        self._estimators: dict[str, Estimator] = {}
        self._limits_at: dict[tuple[str, str], float] = {}

    @property
    def upstreams(self) -> tuple[tuple[str, str], ...]:
        """Name and URL of each that was met."""
        return tuple((name, origin) for origin, name in self._names.items())

    def events(self, requests: Sequence[Sequence[ParsedAttempt]]) -> list[ev.Event]:
        """All of them in order, with gauges of the lanes in between."""
        told: list[ev.Event] = []
        for ticket, tries in enumerate(requests, 1):
            told += self._request(ticket, tries)
        told.sort(key=lambda event: event.at)
        return list(sampled(told))

    def _request(self, ticket: int, tries: Sequence[ParsedAttempt]) -> Iterator[ev.Event]:
        first = tries[0]
        lane, at = self._lane(first), first.entry.began_at - self._began
        if lane not in self._lanes:
            self._lanes.add(lane)
            name = self._names[first.entry.origin]
            yield ev.LaneOpened(at, lane, name, first.provider, assumed_lane(name, PROFILES[first.provider]))
        yield self._arrived(at, ticket, lane, first)
        for number, tried in enumerate(tries, 1):
            following = tries[number] if number < len(tries) else None
            yield from self._attempt(ticket, lane, number, tried, following, at)
            if self._bodies:
                end = tried.entry.ended_at - self._began
                yield from bodies_of(tried, ticket, number, tried.entry.began_at - self._began, end)

    def _arrived(self, at: float, ticket: int, lane: str, tried: ParsedAttempt) -> ev.Arrived:
        facts, identity, client = tried.facts, tried.identity, tried.client
        estimator = self._estimators.setdefault(facts.model, Estimator())
        usage = tried.usage
        estimated = (estimator.input_tokens(facts.size_chars), estimator.answer_tokens(facts.max_output_tokens))
        if usage is not None:
            estimator.learn(facts.size_chars, usage.total_input, usage.output_tokens)
        return ev.Arrived(
            at,
            ticket,
            identity.agent,
            lane,
            facts.model,
            family(facts.model),
            Priority.NORMAL if identity.priority is None else identity.priority,
            facts.stream,
            *estimated,
            client.name,
            identity.parent,
            identity.priority,
            facts.size_chars,
            facts.max_output_tokens,
            None if facts.stream else client.patience_s,
            tried.path,
        )

    def _attempt(
        self,
        ticket: int,
        lane: str,
        number: int,
        tried: ParsedAttempt,
        following: ParsedAttempt | None,
        arrived_at: float,
    ) -> Iterator[ev.Event]:
        entry, agent = tried.entry, tried.identity.agent
        sent_at, end = entry.sent_at - self._began, entry.ended_at - self._began
        if entry.hints.refused:
            yield ev.Refused(end, ticket, agent, lane, entry.hints.refused, entry.status)
            return
        yield ev.Granted(sent_at, ticket, agent, lane, number, entry.sent_at - entry.began_at)
        if entry.first_at is not None:
            first_at = entry.first_at - self._began
            yield from self._limits(first_at, lane, tried)
            if tried.content:
                yield ev.FirstContent(first_at, ticket, agent, lane, first_at - sent_at)
        if tried.left:
            yield ev.Abandoned(end, ticket, agent, lane, True, tried.usage)
        elif tried.failure is None:
            took_s = end - arrived_at
            yield ev.Finished(end, ticket, agent, lane, tried.facts.model, entry.status, number, tried.usage, took_s)
        else:
            again_s = None if following is None else max(0.0, following.entry.began_at - entry.ended_at)
            yield _failed(end, ticket, lane, number, tried, tried.failure, again_s)

    def _limits(self, at: float, lane: str, tried: ParsedAttempt) -> Iterator[ev.LimitsRead]:
        readings, name = tried.limits.readings, family(tried.facts.model)
        told_at = self._limits_at.get((lane, name))
        if readings and (told_at is None or abs(at - told_at) >= _LIMITS_EVERY_S):
            self._limits_at[lane, name] = at
            yield ev.LimitsRead(at, lane, name, readings)

    def _lane(self, tried: ParsedAttempt) -> str:
        origin = tried.entry.origin
        if origin not in self._names:
            host = origin.partition("://")[2]
            name = host if tried.provider == "generic" or tried.provider in self._names.values() else tried.provider
            self._names[origin] = name if name not in self._names.values() else origin
        return f"{self._names[origin]}:{tried.lane}"


def _failed(
    at: float, ticket: int, lane: str, number: int, tried: ParsedAttempt, failure: Failure, again_s: float | None
) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        at,
        ticket,
        tried.identity.agent,
        lane,
        number,
        failure.kind,
        failure.status,
        failure.message,
        again_s,
        tried.usage,
        failure.retryable,
        failure.delay_s,
    )


def agents_in(requests: Iterable[Sequence[ParsedAttempt]]) -> int:
    """How many agents asked."""
    return len({tries[0].identity.agent for tries in requests})


EVERY_S = 1.0


class _Lane:
    def __init__(self, opened: ev.LaneOpened) -> None:
        self.opened = opened
        self.windows: dict[tuple[str, WindowKind], tuple[float, WindowReading]] = {}
        self.requests = OpenRequests(Lifecycle)
        self.folds: dict[type[ev.Event], Callable[[Any], object]] = {
            ev.Arrived: self.requests.arrived,
            ev.Granted: self.requests.granted,
            ev.AttemptFailed: self.requests.attempt_failed,
            ev.Finished: self.requests.ended,
            ev.Abandoned: self.requests.ended,
            ev.Refused: self.requests.ended,
            ev.LimitsRead: self._limits_read,
        }

    def _limits_read(self, event: ev.LimitsRead) -> None:
        for reading in event.readings:
            self.windows[event.family, reading.kind] = (event.at, reading)


def sampled(events: Iterable[ev.Event]) -> Iterator[ev.Event]:
    """The events, and about once a second while anything happens how the lanes stood."""
    lanes: dict[str, _Lane] = {}
    told_at = latest = 0.0
    for event in events:
        if event.at >= told_at + EVERY_S and lanes and told_at < latest:
            yield _sample(latest, lanes)
            told_at = latest
        _follow(lanes, event)
        latest = event.at
        yield event
    if lanes:
        yield _sample(latest, lanes)


def _follow(lanes: dict[str, _Lane], event: ev.Event) -> None:
    if isinstance(event, ev.LaneOpened):
        lanes[event.lane] = _Lane(event)
    lane = lanes.get(getattr(event, "lane", ""))
    fold = None if lane is None else lane.folds.get(type(event))
    if fold is not None:
        fold(event)


def _sample(at: float, lanes: dict[str, _Lane]) -> ev.Sampled:
    return ev.Sampled(at, tuple(_state(at, key, lane) for key, lane in lanes.items()))


def _state(at: float, key: str, lane: _Lane) -> LaneState:
    config = lane.opened.config or LaneConfig(lane.opened.upstream, lane.opened.provider)
    retrying = sum(each.state == "retry" for each in lane.requests.by_ticket.values())
    windows = (_window(at, family, *found) for (family, _), found in lane.windows.items())
    return LaneState(
        lane=key,
        upstream=lane.opened.upstream,
        provider=lane.opened.provider,
        active=lane.requests.in_flight,
        waiting=lane.requests.waiting - retrying,
        retrying=retrying,
        level=math.inf,
        ceiling=math.inf,
        floor=config.aimd.floor,
        pinned=False,
        mean_ttft_s=None,
        latency_target_s=config.aimd.latency_target_s,
        parked_for_s=0.0,
        paused=False,
        circuit="closed",
        circuit_forced=False,
        circuit_errors=0,
        circuit_results=0,
        circuit_window=config.circuit.window,
        circuit_threshold=config.circuit.threshold,
        circuit_reopens_in_s=None,
        windows=tuple(each for each in windows if each is not None),
        plan=(),
    )


def _window(at: float, family: str, read_at: float, reading: WindowReading) -> WindowState | None:
    """None: the headers don't say how large it is."""
    if reading.limit is None or reading.remaining is None:
        return None
    resets_in_s = None if reading.reset_in_s is None else max(0.0, reading.reset_in_s - (at - read_at))
    used = max(0, reading.limit - reading.remaining)
    return WindowState(family, reading.kind, reading.limit, used, 0.0, reading.remaining, resets_in_s, "headers")


def bodies_of(
    tried: ParsedAttempt, ticket: int, attempt: int, asked_at: float, answered_at: float
) -> Iterator[RequestBody | ResponseBody]:
    """What was sent, told with the first attempt, and what was answered."""
    entry = tried.entry
    heads = Heads(
        ticket,
        {
            "method": entry.method,
            "raw_path": tried.address.raw_path,
            "query_string": entry.query,
            "headers": entry.headers,
        },
    )
    heads.response = entry.answer_headers
    secrets = secrets_of(heads)
    if attempt == 1:
        method, path = masked_target(heads, secrets)
        shown = masked_headers(entry.headers, secrets)
        text, encoding, left_out = _written(entry.headers, entry.body, secrets)
        yield RequestBody(asked_at, ticket, method, path, shown, text, encoding, left_out)
    if entry.status:
        text, encoding, left_out = _written(entry.answer_headers, entry.answer, secrets)
        if not entry.whole:
            text, encoding, left_out = "", "", "whoever recorded it didn't keep all of it"
        shown = masked_headers(entry.answer_headers, secrets)
        yield ResponseBody(answered_at, ticket, attempt, entry.status, shown, text, encoding, left_out)


def _written(headers: Headers, body: bytes, secrets: tuple[str, ...]) -> tuple[str, str, str]:
    """The body as text, how that is to be read, and why there is none."""
    if not body:
        return "", "", ""
    plain = decode_body(headers, body)
    if not plain:
        return "", "", "it can't be unpacked"
    if len(plain) > LONGEST:
        return "", "", f"it is longer than {LONGEST >> 20} MiB"
    plain, _ = redact_body(plain, secrets)
    try:
        return plain.decode(), "", ""
    except UnicodeDecodeError:
        return base64.b64encode(plain).decode(), "base64", ""
