"""Which of several upstreams a request is for, by what it says of itself: its path, the form of its key, its headers.

A wrong guess would give one provider's key, prompt or file to another, so a request that doesn't tell is for none of
them. :data:`PROVIDERS` is the table of signs, and :func:`choose` the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import parse_qsl

from msgspec import Struct

from hivemind.providers.base import Headers
from hivemind.providers.profiles import PROFILES, profile_for

NOT_SERVED = -1
"""The request is for a provider that no upstream has."""
UNCLEAR = -2
"""Nothing tells which upstream the request is for, or its signs contradict each other."""

_NEVER = r"(?!)"
_COMPATIBLE = ("openai", "anthropic")
"""What gateways and most other providers speak."""
_MOST_FIELDS = 100
"""Fields of a query that are read."""


class Provider(Struct, frozen=True):
    """The signs by which requests for one provider are recognised."""

    name: str
    """That of its profile, or else a name of its own, which an upstream may have."""
    paths: str = _NEVER
    """Searched in a path, without a slash at its end: paths that nobody else serves in this form."""
    keys: str = _NEVER
    """Matched with a credential: forms of which nobody else's keys are."""
    headers: tuple[str, ...] = ()
    """Names of headers, or their beginning with `-` at the end, that only its clients send."""
    agents: str = _NEVER
    """Matched with the User-Agent: clients that speak to this provider unless they are told otherwise."""
    urls: str = _NEVER
    """Searched in the URL of an upstream that has no profile of its own."""
    speaks: tuple[str, ...] = ()
    """Providers whose paths it serves too."""


PROVIDERS: tuple[Provider, ...] = (
    # The order is that in which paths are searched: Azure's and Google's hold OpenAI's.
    Provider(
        "azure",
        paths=r"^/openai/|/openai/(?:deployments/|v1(?:/|$)|responses(?:/|$))",
        headers=("api-key",),
        agents=r"(?:Async)?AzureOpenAI/",
        speaks=_COMPATIBLE,
    ),
    Provider(
        "google",
        paths=r"/v1(?:beta\d*|alpha)?/(?:tuned)?models/[^/:]+:[a-zA-Z]+$|/v1(?:beta\d*|alpha)/|^/upload/v\d"
        r"|/v1(?:beta\d*)?/projects/[^/]+/locations/|/v1internal:",
        keys=r"AIza|AQ\.|ya29\.",
        headers=("x-goog-",),
        agents=r"google-genai-sdk/|GeminiCLI",
    ),
    Provider(
        "ollama",
        paths=r"/api/(?:(?:chat|generate|embed|embeddings|tags|ps|show|version|pull|push|create|copy|delete)$|blobs/)",
        agents=r"ollama[-/]",
    ),
    Provider(
        "anthropic",
        paths=r"/v1/messages(?:/|$)|(?:^|/anthropic)/messages(?:/|$)|/api/hello$",
        keys=r"sk-ant-",
        headers=("anthropic-", "x-api-key"),
        agents=r"(?:Async)?Anthropic/|claude-(?:cli|code)/",
        speaks=("openai",),
    ),
    Provider(
        "openai",
        paths=r"(?:^|/)(?:chat/completions|completions|responses|embeddings)(?:/|$)"
        r"|/v1/(?:conversations|moderations|audio|images|realtime|fine_tuning|vector_stores|assistants|threads|evals"
        r"|containers|videos|uploads|chatkit)(?:/|$)",
        keys=r"sk-(?:proj|svcacct|service|admin)-|sk-[A-Za-z0-9]{20}T3BlbkFJ|sess-",
        headers=("openai-", "chatgpt-account-id", "x-openai-"),
        agents=r"(?:Async)?OpenAI/|codex",
    ),
    # Providers with the profile `generic`.
    Provider("openrouter", keys=r"sk-or-", urls=r"\bopenrouter\.ai\b", speaks=_COMPATIBLE),
    Provider(
        "bedrock",
        paths=r"^/model/[^/]+/(?:converse|invoke)",
        keys=r"ABSK|bedrock-api-key-|AWS4-HMAC-SHA256",
        urls=r"\bbedrock[a-z-]*\.[a-z0-9-]+\.amazonaws\.com\b",
        speaks=_COMPATIBLE,
    ),
    Provider(
        "github",
        keys=r"gh[opsu]_|github_pat_|tid=",
        urls=r"\b(?:githubcopilot\.com|models\.github\.ai)\b",
        speaks=_COMPATIBLE,
    ),
    Provider("mistral", agents=r"mistral-client-", urls=r"\bmistral\.ai\b", speaks=_COMPATIBLE),
    Provider("groq", keys=r"gsk_", urls=r"\bgroq\.com\b", speaks=_COMPATIBLE),
    Provider("xai", keys=r"xai-", urls=r"\bx\.ai\b", speaks=_COMPATIBLE),
    Provider("huggingface", keys=r"hf_", urls=r"\bhuggingface\.co\b", speaks=_COMPATIBLE),
    Provider("nvidia", keys=r"nvapi-", urls=r"\bnvidia\.com\b", speaks=_COMPATIBLE),
    Provider("perplexity", keys=r"pplx-", urls=r"\bperplexity\.ai\b", speaks=_COMPATIBLE),
    Provider("together", keys=r"tgp_v1_", urls=r"\btogether\.(?:xyz|ai)\b", speaks=_COMPATIBLE),
    Provider("fireworks", keys=r"fw_", urls=r"\bfireworks\.ai\b", speaks=_COMPATIBLE),
    Provider("cerebras", keys=r"csk-", urls=r"\bcerebras\.ai\b", speaks=_COMPATIBLE),
)
"""Every provider that is known by signs. Forms of keys are those of :data:`hivemind.redaction.forms.FORMS`, where their
sources stand; paths, headers and User-Agents are those of the official SDKs and clients (anthropic 2.14, openai 3.57,
google-genai 3.6, Claude Code 2.1, Codex 0.171, Gemini CLI 0.61)."""

_BY_NAME = {provider.name: provider for provider in PROVIDERS}


def _first_of(patterns: Iterable[tuple[str, str]], flags: int = 0) -> re.Pattern[str]:
    """Return one pattern, of which the last group that matched is named after the provider."""
    found = ((name, pattern) for name, pattern in patterns if pattern is not _NEVER)
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in found), flags)


_PATHS = [(provider.name, re.compile(provider.paths)) for provider in PROVIDERS if provider.paths is not _NEVER]
_KEYS = _first_of((provider.name, provider.keys) for provider in PROVIDERS)
_AGENTS = _first_of(((provider.name, provider.agents) for provider in PROVIDERS), re.IGNORECASE)
_URLS = _first_of((provider.name, provider.urls) for provider in PROVIDERS)

_READERS: dict[bytes, frozenset[str]] = {
    header: frozenset(name for name, each in PROFILES.items() if header in each.auth_headers and not each.anybodys)
    for profile in PROFILES.values()
    for header in profile.auth_headers
}
"""By header that may carry a credential: the providers that read it. Anybody unknown may, too."""
_QUERY_READERS: dict[bytes, frozenset[str]] = {
    field: frozenset(name for name, each in PROFILES.items() if field in each.auth_query)
    for profile in PROFILES.values()
    for field in profile.auth_query
}


def _by_header() -> tuple[dict[bytes, frozenset[str]], tuple[tuple[bytes, frozenset[str]], ...]]:
    """Return the providers by name of a header, and those by the beginning of one."""
    names: dict[bytes, frozenset[str]] = {}
    for provider in PROVIDERS:
        for header in provider.headers:
            names[header.encode()] = names.get(header.encode(), frozenset()) | {provider.name}
    beginnings = tuple((name, providers) for name, providers in names.items() if name.endswith(b"-"))
    return names, beginnings


_HEADERS, _BEGINNINGS = _by_header()


@lru_cache(maxsize=512)
def provider_for_path(path: str) -> str | None:
    """Return the name of the provider that serves a path, or None if several do (`/v1/models`, `/v1/files`).

    `/v1beta/openai/...` is Google's, though its dialect is OpenAI's.
    """
    path = path.rstrip("/")
    return next((name for name, pattern in _PATHS if pattern.search(path)), None)


def provider_of(name: str, url: str, profile: str) -> str:
    """Return the name of the provider of an upstream; empty where it is unknown."""
    if PROFILES[profile].anybodys:  # the setting `profile` may say so for the sake of the limits
        profile = profile_for(url).name
    if not PROFILES[profile].anybodys:
        return profile
    if name in _BY_NAME:
        return name
    found = _URLS.search(url.lower())
    return found.lastgroup or "" if found else ""


class Told(Struct, frozen=True):
    """What the head of a request says about whom it is for."""

    owner: str | None
    """The provider whose path it is."""
    forms: frozenset[str]
    """Providers whose keys have the form of one that is shown."""
    readers: frozenset[str] | None
    """The providers that read all headers in which a key is shown; None: any may."""
    headers: frozenset[str] | None
    """The providers whose clients send all the headers that are a sign; None: there are none."""
    agent: str | None
    """The provider that the client speaks to by itself."""

    @property
    def contradicts(self) -> bool:
        """Whether headers, or the client beside them, are signs of different providers."""
        if not self.headers or self.agent is None:
            return self.headers is not None and not self.headers
        return self.agent not in self.headers and not any(self.agent in _speaks(name) for name in self.headers)


def told_by(path: str, query: bytes, headers: Headers) -> Told:
    """Return what a request says: its path without our prefixes, its query and headers as they came."""
    forms: set[str] = set()
    readers: frozenset[str] | None = None
    signs: frozenset[str] | None = None
    agent = None
    for name, value in headers:
        if (known := _READERS.get(name)) is not None and value.strip():
            forms.update(_form_of(value))
            if name != b"authorization":
                readers = known if readers is None else readers & known  # `authorization` is read by all
        if (sign := _sign_of(name)) is not None:
            signs = sign if signs is None else signs & sign
        if name == b"user-agent":
            agent = _provider_of_client(value) or agent
    for name, value in _fields(query):
        if (known := _QUERY_READERS.get(name)) is not None and value.strip():
            forms.update(_form_of(value))
            readers = known if readers is None else readers & known
            signs = known if signs is None else signs & known
    owner = provider_for_path(path)
    if agent is not None and owner in _speaks(agent):
        owner = agent  # its own SDK shows its own keys, also under a path that others have too
    return Told(owner, frozenset(forms), readers, signs, agent)


@lru_cache(maxsize=512)
def _sign_of(header: bytes) -> frozenset[str] | None:
    if (exact := _HEADERS.get(header)) is not None:
        return exact
    return next((providers for beginning, providers in _BEGINNINGS if header.startswith(beginning)), None)


@lru_cache(maxsize=512)
def _provider_of_client(user_agent: bytes) -> str | None:
    found = _AGENTS.match(user_agent.decode("latin-1"))
    return found.lastgroup if found else None


def _form_of(credential: bytes) -> list[str]:
    """Return the provider whose keys have the form of this one, if it is known."""
    text = credential.decode("latin-1").strip()
    scheme, _, rest = text.partition(" ")
    found = _KEYS.match(rest.lstrip() if scheme.lower() in ("bearer", "token") else text)
    return [found.lastgroup] if found and found.lastgroup else []


def _fields(query: bytes) -> list[tuple[bytes, bytes]]:
    if not query or not any(name in query for name in _QUERY_READERS):
        return []
    try:
        return parse_qsl(query, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return []


def choose(told: Told, upstreams: Sequence[str], before: int | None = None) -> int:
    """Return the place of the upstream that a request is for, :data:`NOT_SERVED` or :data:`UNCLEAR`.

    `upstreams` are their providers, empty where unknown; `before` is the place of the only one that had the request's
    key before, or its agent where it shows none.

    A key whose form is known goes to its provider alone. Else the path decides, where only one provider has it, then
    the headers, then the client's name. What no sign tells is what it was before. Several upstreams of one known
    provider are one: the first.
    """
    first = {name: upstreams.index(name) for name in upstreams if name}
    others = [place for place, name in enumerate(upstreams) if name not in PROFILES]
    claimed = _claimed(told)
    if told.forms:
        found = _by_key(told, first, upstreams)
        if not found:
            return UNCLEAR
    elif told.contradicts and (told.owner is None or any(told.owner in _speaks(name) for name in first)):
        return UNCLEAR
    elif told.owner is not None:
        found = [first[told.owner]] if told.owner in first else others
        found = [*found, *(first[name] for name in claimed if name in first and told.owner in _speaks(name))]
    elif claimed:
        found = [first[name] for name in claimed if name in first] or others
    else:
        found = [] if before is None else [before]
        if not found:
            return UNCLEAR
    if not found:
        return NOT_SERVED
    found = [place for place in dict.fromkeys(found) if _may_read(told, upstreams[place])]
    if len(found) == 1:
        return found[0]
    return before if before in found else UNCLEAR


def _by_key(told: Told, first: Mapping[str, int], upstreams: Sequence[str]) -> list[int]:
    """Return the upstreams that a key of a known form may go to."""
    if len(told.forms) > 1:
        return []
    (form,) = told.forms
    if told.owner not in (None, form, *_speaks(form)) and told.owner in first:
        return []  # the path of one provider, the key of another, who doesn't serve it
    return [first[form]] if form in first else [place for place, name in enumerate(upstreams) if not name]


def _claimed(told: Told) -> list[str]:
    """Return the providers that headers claim, else the client."""
    if told.headers is not None:
        return sorted(told.headers)
    return [told.agent] if told.agent and told.owner is None else []


def _speaks(name: str) -> tuple[str, ...]:
    return _BY_NAME[name].speaks


def _may_read(told: Told, provider: str) -> bool:
    """Return whether every key is shown where this provider reads one."""
    return told.readers is None or provider in told.readers or provider not in PROFILES
