"""A recording as it would have been with another provider, or with more agents."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from hivemind.errors import UsageError
from hivemind.lab.fit.cache import NO_CACHE, Cache
from hivemind.lab.fit.clients import Clients
from hivemind.lab.fit.limiter import FittedLimit
from hivemind.lab.fit.provider import FittedProvider
from hivemind.lab.simulate.crowd import crowd, runs
from hivemind.lab.simulate.questions import Factor, Kept, Outage, Question, Value
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.trace.trace import Trace
from hivemind.prices import prices_at
from hivemind.providers.published import TIERS, limits_of
from hivemind.records import replace
from hivemind.scheduler.admission.warmth import CACHING
from hivemind.scheduler.types import Usage, WindowKind
from hivemind.text.humanise import instead_of

_KINDS = {
    "requests": WindowKind.REQUESTS,
    "tokens": WindowKind.TOKENS,
    "input": WindowKind.INPUT,
    "output": WindowKind.OUTPUT,
}
_OUTAGE_BEGINS = 1 / 3
"""Where an outage begins that isn't said to begin at a time: this share of the recording is before it."""


def altered(recording: Recording, asked: Sequence[Question]) -> Recording:
    """Return the recording with what is asked; the same one if nothing is.

    Raises: UsageError: it can't be asked of this recording.
    """
    if not asked:
        return recording
    providers, trace, clients = dict(recording.providers), recording.trace, recording.clients
    for each in asked:
        if each.what == "agents":
            trace, clients = crowd(trace, clients, _wanted(trace, each.value))
            continue
        keys = _lanes(recording, each)
        if each.what == "model":
            trace, clients = _with_model(trace, clients, keys, str(each.value), recording)
            continue
        for key in keys:
            providers[key] = _provider(providers[key], each, recording)
    return replace(recording, trace=trace, clients=clients, providers=providers)


def _with_model(
    trace: Trace, clients: Clients, keys: Sequence[str], model: str, recording: Recording
) -> tuple[Trace, Clients]:
    """Return the requests of these lanes as requests for another model. Raises: UsageError: it has no known price."""
    price = prices_at(recording.began.wall)
    for name in dict.fromkeys(recording.providers[key].lane.provider for key in keys):
        if price(name, model, Usage(1)) is None:
            raise UsageError(f"provider.model={model[:60]}: no price of such a model is known ({name})")
    trace, clients = crowd(trace, clients, len(runs(trace)))
    for each in trace.requests:
        if each.arrived.lane in keys:
            each.arrived = structs.replace(each.arrived, model=model)
            each.request = replace(each.request, model=model)
    return trace, clients


def _wanted(trace: Trace, value: Value) -> int:
    """Return how many agents there are to be. Raises: UsageError: none."""
    there = len(runs(trace))
    wanted = round(there * value.by) if isinstance(value, Factor) else round(float(str(value)))
    if wanted < 1:
        raise UsageError(f"agents={value}: of {there} agents none would be left")
    return wanted


def _lanes(recording: Recording, each: Question) -> list[str]:
    """Return the lanes that it is about. Raises: UsageError: none has its upstream."""
    known = {key: one.lane.upstream for key, one in recording.providers.items()}
    found = [key for key, upstream in known.items() if each.upstream in ("", upstream)]
    if not found:
        hint = instead_of(each.upstream, sorted(set(known.values())))
        raise UsageError(f"provider.{each.upstream}.{each.what}: no upstream of that name is in {recording.name}{hint}")
    return found


# --- The provider -----------------------------------------------------------------------------------------------------


def _provider(provider: FittedProvider, each: Question, recording: Recording) -> FittedProvider:
    if each.what in _KINDS or each.what == "limits":
        return _limited(provider, each)
    if each.what == "tier":
        return _at_tier(provider, str(each.value))
    if each.what == "cache":
        return _with_cache(provider, each, _reads_cache(recording.trace, provider.lane.key))
    if each.what == "outage":
        return replace(provider, outage=_outage(each.value, recording))
    if each.what == "latency":
        return replace(provider, latency=each.value.by if isinstance(each.value, Factor) else 1.0)
    return _with_places(provider, each)


def _at_tier(provider: FittedProvider, name: str) -> FittedProvider:
    """Raises: UsageError: nothing is published of it, or the recording shows no such limit."""
    tiers = TIERS.get(provider.lane.provider, {})
    if (tier := tiers.get(name.lower())) is None:
        known = f"must be one of {', '.join(tiers)}" if tiers else f"none of {provider.lane.provider} is known"
        raise UsageError(f"provider.tier {name[:40]}: {known}")
    limits = []
    for limit in provider.limits:
        amount = getattr(limits_of(limit.family, tier), limit.kind.value, 0)
        limits.append(limit.times(amount / limit.limit) if amount else limit)
    if limits == list(provider.limits):
        raise UsageError(
            f"provider.tier={name}: no limit of {provider.lane.upstream} that it changes is in the recording;"
            f" {_changeable(provider)}"
        )
    return replace(provider, limits=limits)


def _limited(provider: FittedProvider, each: Question) -> FittedProvider:
    """Raises: UsageError: the recording shows no such limit."""
    kind = _KINDS.get(each.what)
    mine = [limit for limit in provider.limits if kind in (None, limit.kind)]
    if not mine:
        raise UsageError(
            f"provider.{each.what}: no such rate limit of {provider.lane.upstream} is in the recording, so there is"
            f" none to change; {_changeable(provider)}"
        )

    def changed(limit: FittedLimit) -> FittedLimit:
        if isinstance(each.value, Factor):
            return limit.times(each.value.by)
        assert isinstance(each.value, float)
        return limit.times(each.value / limit.limit)

    limits = [each_limit for each_limit in provider.limits if each_limit not in mine]
    if each.value is not None:
        limits += [changed(limit) for limit in mine]
    return replace(provider, limits=limits)


def _with_places(provider: FittedProvider, each: Question) -> FittedProvider:
    if each.value is None:
        return replace(provider, places=None)
    if provider.places is None:
        raise UsageError(
            f"provider.places: no limit of requests in flight of {provider.lane.upstream} is in the recording, so there"
            f" is none to change; {_changeable(provider)}"
        )
    by = each.value.by if isinstance(each.value, Factor) else 0.0
    if isinstance(each.value, float):
        by = each.value / provider.places.most
    return replace(provider, places=provider.places.times(by))


def _with_cache(provider: FittedProvider, each: Question, reads: bool) -> FittedProvider:
    """Raises: UsageError: the recording shows no cache to be without, or not for how long it keeps a prompt."""
    where = f"provider.cache: {provider.lane.upstream}"
    if not reads and isinstance(each.value, Kept):
        caching = CACHING.get(provider.lane.provider)
        writes = caching is not None and not caching.automatic
        return replace(provider, cache=Cache(0.0, 1.0, (0.0, 0.0), each.value.for_s, writes))
    if not reads:
        raise UsageError(f"{where} read nothing from a cache in the recording, so there is none to change")
    if not isinstance(each.value, Kept):
        return replace(provider, cache=NO_CACHE)
    if provider.cache is None:
        raise UsageError(
            f"{where} reads prompts from its cache whatever their age, so for how long it keeps them can't be changed;"
            " provider.cache=none can be asked"
        )
    return replace(provider, cache=replace(provider.cache, asked_s=each.value.for_s))


def _reads_cache(trace: Trace, key: str) -> bool:
    usages = (one.usage for each in trace.requests if each.arrived.lane == key for one in each.attempts)
    return any(usage is not None and usage.cache_read_tokens for usage in usages)


def _changeable(provider: FittedProvider) -> str:
    """Return what can be changed of a provider."""
    kinds = {limit.kind for limit in provider.limits}
    names = [name for name, kind in _KINDS.items() if kind in kinds]
    names += ["places"] if provider.places is not None else []
    return f"there are {', '.join([*names, 'latency', 'outage'])}"


def _outage(value: object, recording: Recording) -> tuple[float, float] | None:
    if not isinstance(value, Outage):
        return None
    began, ends = recording.trace.began.at, recording.trace.ends_at
    begins_s = (ends - began) * _OUTAGE_BEGINS if value.begins_s is None else value.begins_s
    if began + begins_s >= ends:
        raise UsageError(f"provider.outage {value}: the recording is over by then")
    return began + begins_s, began + begins_s + value.lasts_s
