"""What is assumed of a provider before its first reply (paper, table "Default provider profile parameters")."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

from hivemind.providers.base import Profile
from hivemind.records import replace
from hivemind.scheduler.config import AimdConfig, LaneConfig
from hivemind.upstream.origin import is_local

_HOST = r"^[a-z]+://(?:[^/?#]*@)?"
"""The part of a URL before the host name."""
_END = r"(?=[:/?#]|$)"

ANTHROPIC = Profile(
    name="anthropic",
    pattern=_HOST + r"api\.anthropic\.com" + _END,
    rpm=50,
    tpm=80_000,
    max_concurrency=5,
    auth_headers=(b"x-api-key", b"authorization"),
    aimd=AimdConfig(latency_target_s=3.0),
    count_cache_reads=False,
    priced_as="anthropic",
)
OPENAI = Profile(
    name="openai",
    pattern=_HOST + r"(?:[a-z0-9-]+\.)?(?:api\.openai\.com|chatgpt\.com)" + _END,
    rpm=60,
    tpm=150_000,
    max_concurrency=10,
    auth_headers=(b"authorization",),
    reserve_max_tokens=True,
    priced_as="openai",
)
AZURE = Profile(
    name="azure",
    pattern=_HOST + r"[^/?#]+\.(?:openai|cognitiveservices|services\.ai)\.azure\.com" + _END,
    rpm=60,
    tpm=120_000,
    max_concurrency=10,
    auth_headers=(b"api-key", b"authorization"),
    aimd=AimdConfig(latency_target_s=3.0),
    reserve_max_tokens=True,
    priced_as="azure",
)
GOOGLE = Profile(
    name="google",
    pattern=_HOST + r"(?:generativelanguage|[a-z0-9-]*aiplatform|cloudcode-pa)\.googleapis\.com" + _END,
    rpm=60,
    tpm=100_000,
    max_concurrency=8,
    auth_headers=(b"x-goog-api-key", b"authorization"),
    auth_query=(b"key", b"access_token"),
    priced_as="google",
)
_ANY_KEY = (b"x-api-key", b"api-key", b"x-goog-api-key", b"authorization")
_COMPUTES_S = 3600.0
"""Longest time in which a model server at home reads a prompt or computes a whole answer; one that is dead resets its
connections, or the kernel notices."""
_AT_HOME = AimdConfig(beta=0.7, latency_target_s=10.0)
OLLAMA = Profile(
    name="ollama",
    pattern=_HOST + r"(?:[^/?#]+:11434(?=[/?#]|$)|ollama(?=[.:/?#]|$))",
    rpm=1000,
    tpm=10_000_000,
    max_concurrency=2,
    auth_headers=(b"authorization",),
    one_lane=True,
    aimd=_AT_HOME,
    grows=True,
    computes_s=_COMPUTES_S,
)
GENERIC = Profile(
    name="generic",
    pattern="",
    rpm=60,
    tpm=100_000,
    max_concurrency=5,
    auth_headers=_ANY_KEY,
    one_lane=True,
    priced_as="litellm",
    grows=True,
    anybodys=True,
)
LOCAL = Profile(
    name="local",
    pattern="",
    rpm=0,
    tpm=0,
    max_concurrency=0,
    auth_headers=_ANY_KEY,
    one_lane=True,
    aimd=_AT_HOME,
    priced_as="litellm",
    anybodys=True,
    computes_s=_COMPUTES_S,
)
"""A server on this machine or a private network of which no more is known; it may be a gateway to hosted models.
Where nobody knows whether it stops when a client leaves, leaving is what may stop it."""


def _server(name: str, stops: Literal["always", "streams"]) -> Profile:
    """Return the profile of a model server, which has no limits but those that it states, and costs nothing."""
    return replace(LOCAL, name=name, stops=stops, priced_as=None)


LLAMACPP = _server("llamacpp", "always")
VLLM = _server("vllm", "always")
MLX = _server("mlx", "streams")
TRANSFORMERS = _server("transformers", "streams")
LLAMA_CPP_PYTHON = replace(_server("llama-cpp-python", "streams"), max_concurrency=1)
"""Unless it is told otherwise, it breaks a stream off as soon as another request comes."""
LMSTUDIO = _server("lmstudio", "streams")  # not known; this is the careful assumption

ProfileName = Literal[
    "anthropic", "openai", "azure", "google", "ollama", "llamacpp", "vllm", "mlx", "transformers", "lmstudio",
    "llama-cpp-python", "local", "generic",
]  # fmt: skip
"""What the setting `profile` may be: the name of every profile."""
_KNOWN = (ANTHROPIC, OPENAI, AZURE, GOOGLE, OLLAMA, LLAMACPP, VLLM, MLX, TRANSFORMERS, LMSTUDIO, LLAMA_CPP_PYTHON)
PROFILES: dict[str, Profile] = {profile.name: profile for profile in (*_KNOWN, LOCAL, GENERIC)}
"""Every profile by its name, the most specific pattern first and the fallbacks last."""

_SNAPSHOT = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-\d{4}|-0\d{2}|-latest|-v\d+(?::\d+)?|[-@]default)$")
_BEFORE_NAME = re.compile(
    r"^(?:(?:[a-z]{2,6}(?:-gov)?\.)?[a-z0-9]+\.(?=[a-z])(?=.*-v\d|.*:\d|claude|nova|llama)|databricks-)"
)
_CLAUDE_4 = re.compile(r"claude-(opus|sonnet)-4(?:[-.]\d{1,2})?$")


def profile_for(url: str) -> Profile:
    """Return the profile whose pattern matches an upstream URL, otherwise :data:`LOCAL` or :data:`GENERIC`."""
    lowered = url.lower()
    found = next((p for p in PROFILES.values() if p.pattern and re.search(p.pattern, lowered)), None)
    return found or (LOCAL if is_local(urlsplit(url).hostname or "") else GENERIC)


def assumed_lane(upstream: str, profile: Profile) -> LaneConfig:
    """Return the profile's configuration of a lane to that upstream."""
    return LaneConfig(
        upstream=upstream,
        provider=profile.name,
        max_concurrency=0 if profile.grows else profile.max_concurrency,
        begin_at=profile.max_concurrency if profile.grows else 0,
        rpm=profile.rpm,
        tpm=profile.tpm,
        grows=profile.grows,
        reserve_max_tokens=profile.reserve_max_tokens,
        count_cache_reads=profile.count_cache_reads,
        aimd=profile.aimd,
    )


def plain_name(model: str) -> str:
    """Return a model's name in lower case without what gateways write before it: a path, region and maker (Bedrock), or
    their own name (Databricks)."""
    return _BEFORE_NAME.sub("", model.strip().lower().rpartition("/")[2])


@lru_cache(maxsize=256)
def family(model: str) -> str:
    """Return the name of the rate window of a model. Dated snapshots and aliases share their model's window. All of
    Claude Opus 4 share one, and all of Claude Sonnet 4 (Anthropic, "Rate limits"); later models have their own.
    """
    name = plain_name(model)
    while (base := _SNAPSHOT.sub("", name)) != name:
        name = base
    shared = _CLAUDE_4.fullmatch(name)
    return f"claude-{shared[1]}-4" if shared else name
