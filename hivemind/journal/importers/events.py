"""The events that a proxy would have told, had these requests gone through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hivemind.journal.importers.bodies import bodies_of
from hivemind.journal.importers.parsed import ParsedAttempt
from hivemind.journal.importers.samples import sampled
from hivemind.providers.profiles import PROFILES, assumed_lane, family
from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.estimate import Estimator
from hivemind.scheduler.types import Failure, Priority

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
