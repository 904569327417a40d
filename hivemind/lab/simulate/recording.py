"""A recorded run with everything fitted to it that a simulation needs.

Logs of clients keep no headers, and so none of the provider's limits. What HiveMind assumes before a provider's first
headers holds for seconds in a real run, so it isn't simulated. Limits are those that explain the recorded refusals, or
those that are published for a named tier. Where there were refusals that no limit explains, nothing is foretold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from hivemind.errors import UsageError
from hivemind.gc_pause import gc_paused
from hivemind.journal.figures import Figures, FiguresFold
from hivemind.journal.read.several import Journals, open_journals
from hivemind.journal.records import JournalBegan, RequestBody, ResponseBody
from hivemind.lab.fit.clients import Clients, fit_clients
from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.provider import FittedProvider, fit_providers
from hivemind.lab.fit.untold import NOTHING_UNTOLD
from hivemind.lab.trace.part import MOST_REQUESTS, last_part
from hivemind.lab.trace.steps import RequestStep
from hivemind.lab.trace.trace import LaneTrace, Trace
from hivemind.providers.profiles import GENERIC, PROFILES, assumed_lane
from hivemind.providers.published import TIERS, Published, limits_of
from hivemind.records import replace
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.events import Event, Progress, Sampled
from hivemind.scheduler.operator.knobs import KNOBS, turned
from hivemind.scheduler.types import FailureKind, Price, WindowKind
from hivemind.text.humanise import count, duration, plural

_UNUSED: frozenset[type[Event]] = frozenset({Sampled, Progress, RequestBody, ResponseBody})
"""Events of which neither a simulation nor the recording's figures need anything."""
_FEW = 30
"""With fewer answers, latencies are little more than a guess."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A journal, or several of one fleet as one; its trace, and the models fitted to it."""

    name: str
    began: JournalBegan
    figures: Figures
    defects: tuple[str, ...]
    """What is wrong with the journal, and what it can't show, a line each; what of that depends on settings is among
    the :attr:`warnings`."""
    trace: Trace = field(repr=False)
    providers: Mapping[str, FittedProvider] = field(repr=False)
    """By lane."""
    lanes: Mapping[str, LaneConfig] = field(repr=False)
    """The configuration that each lane began with."""
    clients: Clients
    apart: bool = False
    """Several proxies recorded it, each of which scheduled for itself; simulated they are one."""
    unsaid: str = ""
    """Why nothing can be foretold of it; empty: something can."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the journal, and what it can't show, a line each."""
        return (*self.defects, *self.unseen_limits(self.lanes))

    def unseen_limits(self, lanes: Mapping[str, LaneConfig]) -> list[str]:
        """Return a line for each upstream of which no rate limit was seen, with those that HiveMind keeps by itself."""
        found = {}
        for key, provider in () if "limits" in self.began.unknown else self.providers.items():
            name, own = provider.lane.upstream, _own_limits(lanes[key])
            if provider.limits or (provider.places is not None and not own):
                continue
            if not own:
                found[name] = f"{name}: no rate limit was seen, so none is simulated"
            elif self.began.foreign:
                found[name] = (
                    f"{name}: no rate limit was seen; simulated are those that HiveMind assumes or is set to, {own}:"
                    " rpm and tpm change them"
                )
            else:
                found[name] = f"{name}: no rate limit of its own was seen; simulated is what HiveMind allows, {own}"
        return [*found.values()]


def load(
    paths: Path | Sequence[Path],
    price: Price | None = None,
    *,
    most: int = MOST_REQUESTS,
    tier: tuple[Published, ...] = (),
) -> Recording:
    """Read a journal, or several proxies' journals as those of one scheduler, and fit the models.

    Of more than `most` requests only so many are taken, the last ones. `tier`: limits of a recording that holds none.

    Raises: UsageError: one can't be read, is named twice, or no request is in them.
    """
    journals = open_journals(paths)
    with gc_paused():
        part = last_part(journals, _UNUSED, most)
        trace, tally = Trace(part.began, len(journals.each)), FiguresFold(price)
        for proxy, event in part.events:
            tally.apply(event)
            trace.apply(event, proxy)
        return _fitted(journals, trace, tally.figures(), part.requests, tier)


def _fitted(journals: Journals, trace: Trace, figures: Figures, of: int, tier: tuple[Published, ...]) -> Recording:
    if not trace.requests:
        named, it = ", ".join(map(str, journals.paths)), "it" if len(journals.each) == 1 else "them"
        raise UsageError(f"{named}: no request is in {it}, so there is nothing to simulate")
    by_lane: dict[str, list[RequestStep]] = {}
    for request in trace.requests:
        by_lane.setdefault(request.arrived.lane, []).append(request)
    lanes = {key: trace.lanes.get(key) or LaneTrace(key, key.partition(":")[0], "generic", None) for key in by_lane}
    providers = fit_providers(trace, lanes, by_lane)
    configs = {key: lane.config or _assumed(lane) for key, lane in lanes.items()}
    seen = Seen(providers, configs, [])
    if "limits" in trace.began.unknown:
        seen = with_limits(
            providers,
            configs,
            by_lane,
            tier,
            hides_refusals="refusals" in trace.began.unknown,
            hides_durations=trace.began.lacks("durations"),
        )
    elif tier:
        raise UsageError("--tier: the recording holds the provider's own limits")
    return Recording(
        name=trace.began.journal,
        began=_with_shared_knobs(trace.began, trace.lanes),
        figures=figures,
        defects=(*journals.notes(), *_part_of(trace, of), *_unmodelled(trace), *_caveats(providers), *seen.notes),
        trace=trace,
        providers=seen.providers,
        lanes=seen.lanes,
        clients=fit_clients(trace.requests),
        apart=journals.apart,
        unsaid=seen.unsaid,
    )


def _part_of(trace: Trace, requests: int) -> Iterator[str]:
    if requests:
        length = duration(trace.ends_at - trace.began.at)
        yield f"only its last {length} are simulated: {len(trace.requests):,} of {plural(requests, 'request')}"


def _unmodelled(trace: Trace) -> Iterator[str]:
    if trace.began.fleet:
        yield "one scheduler is simulated: what the proxies of the fleet waited for their leases is left out"
    if trace.left_out:
        commands, are = plural(trace.left_out, "command"), "is" if trace.left_out == 1 else "are"
        yield f"{commands} that paused or drained one of the proxies {are} left out: one scheduler would stop for all"


def _assumed(lane: LaneTrace) -> LaneConfig:
    """Return the configuration of a lane without a recorded one: its recorded knobs, the rest by its provider."""
    config = assumed_lane(lane.upstream, PROFILES.get(lane.provider, GENERIC))
    for name, value in lane.knobs.items():
        # A limit that headers had replaced is recorded as none, as if it was switched off.
        if name in KNOBS and not KNOBS[name].shared and name not in ("rpm", "tpm") and math.isfinite(value):
            config = turned(config, name, value)
    return config


def _with_shared_knobs(began: JournalBegan, lanes: Mapping[str, LaneTrace]) -> JournalBegan:
    """Return it with the values that knobs shared by all lanes had where the journal begins."""
    knobs = next((lane.knobs for lane in lanes.values() if lane.knobs), {})
    retry: dict[str, Any] = {
        name.partition(".")[2]: int(value) if KNOBS[name].whole else value
        for name, value in knobs.items()
        if name in KNOBS and KNOBS[name].shared and math.isfinite(value)
    }
    if not retry:
        return began
    return structs.replace(began, config=replace(began.config, retry=replace(began.config.retry, **retry)))


def _caveats(providers: Mapping[str, FittedProvider]) -> list[str]:
    lines = []
    for provider in providers.values():
        answers = len(provider.service.answered)
        if answers < _FEW:
            only = f"only {plural(answers, 'answer')}" if answers else "no answer"
            lines.append(f"{provider.lane.upstream}: {only}, so little is known of how long they take")
    return [*dict.fromkeys(lines)]


def _own_limits(config: LaneConfig) -> str:
    """Return in words what HiveMind itself lets through a minute; empty: everything."""
    limits = [(config.rpm, "requests"), (config.tpm, "tokens")]
    parts = [f"{count(limit)} {what}" for limit, what in limits if limit]
    return f"{' and '.join(parts)} a minute" if parts else ""


_MINUTE_S = 60.0
_TELLING = {"anthropic": True, "openai": False}
"""Providers whose headers tell of limits, so that a real HiveMind would know them, and whether their resets are rounded
to whole seconds (Anthropic's are dates)."""


class Seen(Struct, frozen=True):
    """Providers and configurations to simulate."""

    providers: dict[str, FittedProvider]
    lanes: dict[str, LaneConfig]
    notes: list[str]
    unsaid: str = ""
    """Why nothing can be foretold; empty: something can."""


def with_limits(
    providers: Mapping[str, FittedProvider],
    lanes: Mapping[str, LaneConfig],
    requests: Mapping[str, Sequence[RequestStep]],
    tier: tuple[Published, ...],
    *,
    hides_refusals: bool,
    hides_durations: bool,
) -> Seen:
    """Complete what a recording without limits shows. `hides_refusals`: of some requests it holds no attempts that were
    refused; `hides_durations`: of none it holds how long they took."""
    seen = Seen(dict(providers), dict(lanes), [])
    if hides_durations:
        return replace(seen, unsaid="it doesn't hold how long requests took")
    for key, provider in providers.items():
        if any(limit.reported for limit in provider.limits):
            continue
        upstream = provider.lane.upstream
        seen.lanes[key] = replace(lanes[key], rpm=0, tpm=0)
        known = {family: limits_of(family, tier) for family in {each.arrived.family for each in requests[key]}}
        if tier:
            if lacking := sorted(family for family, limits in known.items() if limits is None):
                return replace(seen, unsaid=f"no limits of {', '.join(lacking)[:200]} are known in that tier")
            limits = [each for family, found in known.items() if found for each in _published(family, found)]
            seen.providers[key] = replace(provider, limits=limits, places=None, untold=NOTHING_UNTOLD)
            dates = " and ".join(sorted({found.seen for found in known.values() if found}))
            seen.notes.append(f"{upstream}: limits are those that were published on {dates}, and nobody else uses them")
        elif provider.limits or provider.places is not None:
            told = "; ".join(text for limit in provider.limits for text in limit.sentences())
            seen.notes.append(f"{upstream}: its limits are inferred from its refusals{f' ({told})' if told else ''}")
            whole_seconds = _TELLING.get(provider.lane.provider)
            if whole_seconds is not None and provider.untold.limits:
                untold = provider.untold.reported(whole_seconds=whole_seconds)
                seen.providers[key] = replace(provider, limits=list(untold.limits), untold=untold)
        elif hides_refusals:
            return replace(
                seen, unsaid=f"it holds neither the limits of {upstream} nor what was refused{_named(provider)}"
            )
        elif refused := sum(map(_refused, requests[key])):
            what = f"its {plural(refused, 'refusal')} {'shows' if refused == 1 else 'show'} none"
            return replace(seen, unsaid=f"it doesn't hold the limits of {upstream}, and {what}{_named(provider)}")
        else:
            seen.notes.append(f"{upstream}: nothing was refused for a rate limit, so none is simulated")
    return seen


def _named(provider: FittedProvider) -> str:
    name = provider.lane.provider
    return f"; --provider {name} --tier {next(reversed(TIERS[name]))} names them" if name in TIERS else ""


def _refused(request: RequestStep) -> int:
    failures = (one.failure for one in request.attempts)
    return sum(
        failure is not None and (failure.kind is FailureKind.RATE_LIMITED or failure.status is None)
        for failure in failures
    )


def _published(family: str, found: Published) -> Iterable[FittedLimit]:
    for kind, limit in (
        (WindowKind.REQUESTS, found.requests),
        (WindowKind.INPUT, found.input),
        (WindowKind.OUTPUT, found.output),
    ):
        yield FittedLimit(family, kind, limit, "bucket", _MINUTE_S, pool=f"{found.models} {kind.value}")
