"""Recordings without the provider's limits: logs of clients keep no headers.

What HiveMind assumes before a provider's first headers holds for seconds in a real run, so it isn't simulated. Limits
are those that explain the recorded refusals, or those that are published for a tier that is named. Where there were
refusals that no limit explains, nothing is foretold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.fit.untold import NOTHING_UNTOLD
from hivemind.lab.trace.steps import RequestStep
from hivemind.providers.published import TIERS, Published, limits_of
from hivemind.records import replace
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, WindowKind
from hivemind.text.humanise import plural

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
