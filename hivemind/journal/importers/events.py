"""The events that a proxy would have recorded, had these requests gone through it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence

from hivemind.journal.importers.parsed import ParsedAttempt
from hivemind.journal.records import UNEXPLAINED, UNKNOWN, RequestBody, ResponseBody
from hivemind.journal.write.bodies import body_text
from hivemind.providers.profiles import PROFILES, assumed_lane, family
from hivemind.records import replace
from hivemind.redaction.bodies import lent_in
from hivemind.redaction.values import longest_first, masked_headers
from hivemind.scheduler import events as ev
from hivemind.scheduler.admission.estimate import Estimator
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import LaneState, WindowState
from hivemind.scheduler.types import Priority, Utilisation, WindowKind, WindowReading
from hivemind.wire.recent_heads import Heads
from hivemind.world.lifecycle import Lifecycle, OpenRequests

_LIMITS_EVERY_S = 1.0
_TOKEN_CHARS = 4
_SAMPLE_EVERY_S = 1.0


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
        self._plans: list[tuple[float, str, Utilisation]] = []
        """What answers stated of plans: when, and of which lane."""

    @property
    def upstreams(self) -> tuple[tuple[str, str], ...]:
        """Name and URL of each that was met."""
        return tuple((name, origin) for origin, name in self._names.items())

    def events(self, requests: Sequence[Sequence[ParsedAttempt]]) -> list[ev.Event]:
        """All of them in order, with gauges of the lanes in between."""
        found: list[ev.Event] = []
        for ticket, tries in enumerate(requests, 1):
            found += self._request(ticket, tries)
        found.sort(key=lambda event: event.at)
        return list(_sampled(found, sorted(self._plans, key=lambda read: read[0])))

    def _request(self, ticket: int, tries: Sequence[ParsedAttempt]) -> Iterator[ev.Event]:
        first = tries[0]
        lane, at = self._lane(first), first.entry.began_at - self._began
        if lane not in self._lanes:
            self._lanes.add(lane)
            name = self._names[first.entry.origin]
            yield ev.LaneOpened(at, lane, name, first.provider, assumed_lane(name, PROFILES[first.provider]))
        usage = tries[-1].usage
        # Where its size isn't recorded, what it was counted as says how long it was.
        size = first.facts.size_chars or (0 if usage is None else _TOKEN_CHARS * usage.total_input)
        model = next((each.facts.model for each in tries if each.facts.model), "")  # not every refusal names it
        yield self._arrived(at, ticket, lane, replace(first, facts=replace(first.facts, model=model)), size)
        for number, tried in enumerate(tries, 1):
            following = tries[number].entry.began_at if number < len(tries) else None
            yield from self._attempt((ticket, tried.identity.agent, lane), number, tried, following, at)
            if self._bodies:
                end = tried.entry.ended_at - self._began
                yield from _bodies(tried, ticket, number, tried.entry.began_at - self._began, end)

    def _arrived(self, at: float, ticket: int, lane: str, tried: ParsedAttempt, size: int) -> ev.Arrived:
        facts, identity, client = tried.facts, tried.identity, tried.client
        estimator = self._estimators.setdefault(facts.model, Estimator())
        estimated_input = estimator.input_tokens(size)
        estimated_output = estimator.answer_tokens(facts.max_output_tokens)
        if tried.usage is not None:
            estimator.learn(size, tried.usage.total_input, tried.usage.output_tokens)
        return ev.Arrived(
            at=at,
            ticket=ticket,
            agent=identity.agent,
            lane=lane,
            model=facts.model,
            family=family(facts.model),
            priority=Priority.NORMAL if identity.priority is None else identity.priority,
            stream=facts.stream,
            estimated_input=estimated_input,
            estimated_output=estimated_output,
            client=client.name,
            parent=identity.parent,
            asked=identity.priority,
            size_chars=size,
            max_output_tokens=facts.max_output_tokens,
            patience_s=None if facts.stream else client.patience_s,
            path=tried.path,
            made_up=identity.made_up,
            tier=facts.tier,
        )

    def _attempt(
        self, of: tuple[int, str, str], number: int, tried: ParsedAttempt, following: float | None, arrived_at: float
    ) -> Iterator[ev.Event]:
        """`of` is the request's ticket, agent and lane, `following` when its next attempt began."""
        entry, failure = tried.entry, tried.failure
        sent_at, end = entry.sent_at - self._began, entry.ended_at - self._began
        if entry.hints.reason:
            yield ev.Refused(end, *of, entry.hints.reason, entry.status)
            return
        yield ev.Granted(sent_at, *of, number, entry.sent_at - entry.began_at)
        self._plans += ((end, of[2], each) for each in tried.limits.plan)
        if entry.first_at is not None:
            first_at = entry.first_at - self._began
            yield from self._limits(first_at, of[2], tried)
            if tried.content:
                yield ev.FirstContent(first_at, *of, first_at - sent_at)
        elif failure is not None:
            yield from self._limits(end, of[2], tried)
        if tried.left:
            yield ev.Abandoned(end, *of, True, tried.usage)
        elif failure is None:
            took_s = end - arrived_at if entry.timed else None
            yield ev.Finished(end, *of, tried.facts.model, entry.status, number, tried.usage, took_s)
        else:
            again_s = None if following is None else max(0.0, following - entry.ended_at)
            what = (failure.kind, failure.status, failure.message)
            yield ev.AttemptFailed(end, *of, number, *what, again_s, tried.usage, failure.retryable, failure.delay_s)

    def _limits(self, at: float, lane: str, tried: ParsedAttempt) -> Iterator[ev.LimitsRead]:
        readings, name = tried.limits.readings, family(tried.facts.model)
        found_at = self._limits_at.get((lane, name))
        if readings and (tried.failure or found_at is None or abs(at - found_at) >= _LIMITS_EVERY_S):
            self._limits_at[lane, name] = at
            yield ev.LimitsRead(at, lane, name, readings)

    def unknown(self, requests: Sequence[Sequence[ParsedAttempt]]) -> dict[str, int]:
        """What the recording doesn't hold, and of how many requests."""
        counts: Counter[str] = Counter()
        for tries in requests:
            last = tries[-1]
            counts.update({*last.unseen} - {"limits", "first tokens"})
            answered = last.failure is None and not last.left
            # What a refusal states in words is how much is allowed, and not what is left.
            left = (each.remaining for tried in tries for each in tried.limits.readings)
            counts["limits"] += all(each is None for each in left)
            counts["durations"] += not last.entry.timed
            counts["tokens"] += answered and last.usage is None
            never = "first tokens" in last.unseen
            counts["first tokens"] += never or (answered and last.facts.stream and last.entry.first_at is None)
            counts["errors"] += any(
                tried.failure is not None and tried.failure.message == UNEXPLAINED for tried in tries
            )
        return {name: min(counts[name], len(requests)) for name in UNKNOWN if counts[name]}

    def _lane(self, tried: ParsedAttempt) -> str:
        origin = tried.entry.origin
        if origin not in self._names:
            host = origin.partition("://")[2]
            taken = PROFILES[tried.provider].anybodys or tried.provider in self._names.values()
            name = host if taken else tried.provider
            self._names[origin] = name if name not in self._names.values() else origin
        return f"{self._names[origin]}:{tried.lane}"


# --- Gauges of the lanes: requests in flight, and what the provider's headers say of its windows ---


class _Gauges:
    """The gauges of all lanes, as far as a recording shows them."""

    def __init__(self) -> None:
        self._requests = OpenRequests(Lifecycle)
        self.lanes: list[ev.LaneOpened] = []
        self._windows: dict[str, dict[tuple[str, WindowKind], tuple[float, WindowReading]]] = defaultdict(dict)
        self._plans: dict[str, dict[str, tuple[float, Utilisation]]] = defaultdict(dict)

    def read_plan(self, at: float, lane: str, plan: Utilisation) -> None:
        self._plans[lane][plan.name] = (at, plan)

    def apply(self, event: ev.Event) -> None:
        if isinstance(event, ev.LimitsRead):
            self._windows[event.lane] |= {(event.family, each.kind): (event.at, each) for each in event.readings}
            return
        if isinstance(event, ev.LaneOpened):
            self.lanes.append(event)
        self._requests.apply(event)

    def sample(self, at: float) -> ev.Sampled:
        return ev.Sampled(at, tuple(self._lane(at, opened) for opened in self.lanes))

    def _lane(self, at: float, opened: ev.LaneOpened) -> LaneState:
        config = opened.config or LaneConfig(opened.upstream, opened.provider)
        requests = [each for each in self._requests.by_ticket.values() if each.arrived.lane == opened.lane]
        active, retrying = (sum(each.in_flight for each in requests), sum(each.state == "retry" for each in requests))
        windows = (_window(at, family, *found) for (family, _), found in self._windows[opened.lane].items())
        return LaneState(
            lane=opened.lane,
            upstream=opened.upstream,
            provider=opened.provider,
            active=active,
            waiting=len(requests) - active - retrying,
            retrying=retrying,
            level=math.inf,
            ceiling=math.inf,
            floor=config.aimd.floor,
            latency_target_s=config.aimd.latency_target_s,
            circuit_window=config.circuit.window,
            circuit_threshold=config.circuit.threshold,
            windows=tuple(each for each in windows if each is not None),
            plan=tuple(_at(at, *read) for read in self._plans[opened.lane].values()),
        )


def _sampled(events: Iterable[ev.Event], plans: Sequence[tuple[float, str, Utilisation]]) -> Iterator[ev.Event]:
    """The events, and about once a second while anything happens the gauges of the lanes."""
    gauges = _Gauges()
    sampled_at = latest = 0.0
    to_read = deque(plans)
    for event in events:
        while to_read and to_read[0][0] <= event.at:
            gauges.read_plan(*to_read.popleft())
        if event.at >= sampled_at + _SAMPLE_EVERY_S and sampled_at < latest:
            yield gauges.sample(latest)
            sampled_at = latest
        gauges.apply(event)
        latest = event.at
        yield event
    if gauges.lanes:
        yield gauges.sample(latest)


def _window(at: float, family: str, read_at: float, reading: WindowReading) -> WindowState | None:
    """None: the headers don't say how large it is."""
    if reading.limit is None or reading.remaining is None:
        return None
    resets_in_s = None if reading.reset_in_s is None else max(0.0, reading.reset_in_s - (at - read_at))
    used = max(0, reading.limit - reading.remaining)
    return WindowState(family, reading.kind, reading.limit, used, 0.0, reading.remaining, resets_in_s, "headers")


def _at(at: float, read_at: float, plan: Utilisation) -> Utilisation:
    """What was read of a plan, as it is later: a window that ended since is unused."""
    if plan.reset_in_s is None:
        return plan
    left_s = plan.reset_in_s - (at - read_at)
    return replace(plan, used=0.0, reset_in_s=None) if left_s <= 0 else replace(plan, reset_in_s=left_s)


# --- Bodies, without credentials --------------------------------------------------------------------------------------


def _bodies(
    tried: ParsedAttempt, ticket: int, attempt: int, asked_at: float, answered_at: float
) -> Iterator[RequestBody | ResponseBody]:
    """The request's body, with the first attempt, and the answer's."""
    entry = tried.entry
    raw_path = tried.address.raw_path
    heads = Heads(ticket, entry.method, raw_path, entry.query, entry.headers, entry.answer_headers)
    secrets = longest_first((*heads.secrets(), *lent_in(entry.body)))
    if attempt == 1:
        method, path = heads.masked_target(secrets)
        shown = masked_headers(entry.headers, secrets)
        yield RequestBody(asked_at, ticket, method, path, shown, *body_text(entry.headers, entry.body, "", secrets))
    if entry.status:
        left_out = "" if entry.whole else "the recording doesn't have all of it"
        text = body_text(entry.answer_headers, entry.answer, left_out, secrets)
        shown = masked_headers(entry.answer_headers, secrets)
        yield ResponseBody(answered_at, ticket, attempt, entry.status, shown, *text)
