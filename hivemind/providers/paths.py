"""What a path says: which dialect it has, and whether its requests are free.

A base path may be in front of it. The dialect follows from the most generous reading of a path (decoded, any case,
without parameters), so that no costly request escapes its ticket; whether it is free follows from the strictest, the
bytes on the wire. All that isn't known to be free is scheduled.
"""

from __future__ import annotations

import re
from functools import cache

from hivemind.providers.anthropic import Anthropic
from hivemind.providers.bedrock import Bedrock
from hivemind.providers.dialect import Dialect
from hivemind.providers.google import Google
from hivemind.providers.known import dialect_named_by, free_posts
from hivemind.providers.ollama import Ollama
from hivemind.providers.openai import OpenAIChat, OpenAIResponses
from hivemind.providers.plain import Plain, Stateless

# --- Dialects ---------------------------------------------------------------------------------------------------------

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (Anthropic(), OpenAIChat(), OpenAIResponses(), Google(), Ollama(), Bedrock(), Stateless(), Plain())
}
"""Every dialect by its name."""


def _path(pattern: str) -> re.Pattern[str]:
    """Ignore case, as Azure and other servers on IIS do."""
    return re.compile(pattern, re.IGNORECASE)


_PATHS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # Without its version too, as Vercel's AI SDK sends it; `/threads/t/messages` is OpenAI's.
    ("anthropic", _path(r"(?:^|/v1|/anthropic)/messages(?:/count_tokens|/batches(?:/[^/]+(?:/cancel|/results)?)?)?$")),
    ("openai_responses", _path(r"/responses(?:/compact|/input_tokens)?$")),
    ("ollama", _path(r"/api/(?:chat|generate|embed|embeddings)$")),
    ("openai_chat", _path(r"/(?:chat/completions|completions|embeddings)$")),
    ("google", _path(r"/models/[^/:]+:(?:[a-z]*generateContent|count|(?:async)?(?:batch)?Embed|compute)[a-z]*$")),
    ("google", _path(r"/v1(?:beta\d*|alpha)?/interactions$")),
)


_LONGEST_PATH = 2048
"""Characters of a path that is searched. No known API has a longer one, and a pattern may take quadratic time."""


def dialect_for(path: str) -> Dialect:
    """Return the dialect of a request path (without our prefixes and without the query); `plain` for unknown ones.

    Ollama's `/api/chat` differs from a gateway's `/api/v1/chat/completions` by its end.
    """
    path = path.rstrip("/") if len(path) <= _LONGEST_PATH else ""
    named = next((name for name, pattern in _PATHS if pattern.search(path)), None)
    return DIALECTS[named or dialect_named_by(path) or "plain"]


# --- Free requests ----------------------------------------------------------------------------------------------------

# The list names what is known to be free, so an unknown API is scheduled and charged. Paths are compared as sent: one
# with escapes isn't free, because servers differ in how they decode them.

FREE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Without a body these generate nothing on any known API: they list, look up and remove."""

METHOD_OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Headers that override the method on some servers, Google's among them."""

_ID = rb"[A-Za-z0-9_.:@~-]+"
_UNAMBIGUOUS = re.compile(rb"[A-Za-z0-9_.:@~/-]*")
_VERSION = rb"(?:^|/v\d+[a-z0-9]*|/openai)"
"""The prefix of an API's resources: a version, Azure's `/openai`, or nothing."""
_CACHE = rb"(?:/projects/" + _ID + rb"/locations/" + _ID + rb")?/cachedContents"

_FREE_POSTS = (
    # Token counts: Anthropic, OpenAI, Google; tokenizers of vLLM, TGI, llama.cpp, Cohere and xAI.
    rb"/messages/count_tokens",
    rb"/responses/input_tokens",
    rb"/models/" + _ID + rb":(?:countTokens|computeTokens)",
    rb"/(?:tokenize|detokenize|tokenize-text|apply-template)",
    # Uploads: files cost when a model reads them.
    _VERSION + rb"/files(?:/upload)?",
    rb"^/upload/v\d+[a-z0-9]*/files",
    _VERSION + rb"/uploads(?:/" + _ID + rb"/(?:parts|complete|cancel))?",
    _VERSION + rb"/skills(?:/" + _ID + rb"(?:/versions)?)?",
    # Creations that no model works on.
    _VERSION + rb"/conversations(?:/" + _ID + rb"(?:/items)?)?",
    _VERSION + rb"/vector_stores(?:/" + _ID + rb"(?:/search|/(?:files|file_batches)(?:/" + _ID + rb")?)?)?",
    _VERSION + rb"/vector_stores/" + _ID + rb"/file_batches/" + _ID + rb"/cancel",
    _VERSION + rb"/realtime/(?:(?:translations/)?client_secrets|sessions|transcription_sessions)",
    _VERSION + rb"/realtime/calls/" + _ID + rb"/(?:hangup|refer|reject)",
    _VERSION + rb"/threads(?:/(?!runs/?$)" + _ID + rb"(?:/messages(?:/" + _ID + rb")?)?)?",
    _VERSION + rb"/(?:assistants|evals|webhook_endpoints)(?:/" + _ID + rb")?",
    _VERSION + rb"/(?:chatkit/sessions|videos/characters|webhook_endpoints/" + _ID + rb"/(?:rotate_secret|test))",
    _VERSION + rb"/chat/completions/" + _ID,
    _VERSION + rb"/containers(?:/" + _ID + rb"/files)?",
    _VERSION + rb"/(?:agents|deployments|environments|tunnels|vaults|user_profiles)",
    _VERSION + rb"/agents/(?!(?:sessions|completions)/?$)" + _ID,
    _VERSION + rb"/agents/automations/" + _ID + rb"(?:/(?:pause|resume))?",
    _VERSION + rb"/agents/environments/(?:templates(?:/" + _ID + rb")?|" + _ID + rb"/files)",
    _VERSION + rb"/(?:deployments|environments|sessions|user_profiles|vaults)/" + _ID,
    _VERSION + rb"/(?:agents|deployments|dreams|environments|sessions|tunnels|vaults)/" + _ID + rb"/archive",
    _VERSION + rb"/deployments/" + _ID + rb"/(?:pause|unpause)",
    _VERSION + rb"/environments/" + _ID + rb"/work(?:/" + _ID + rb")(?:/(?:ack|heartbeat|stop))?",
    _VERSION + rb"/sessions/" + _ID + rb"/(?:resources(?:/" + _ID + rb")?|threads/" + _ID + rb"/archive)",
    _VERSION + rb"/tunnels/" + _ID + rb"/(?:certificates(?:/" + _ID + rb"/archive)?|(?:reveal|rotate)_token)",
    _VERSION + rb"/user_profiles/" + _ID + rb"/(?:action_urls|enrollment_url)",
    _VERSION + rb"/vaults/" + _ID + rb"/credentials(?:/" + _ID + rb"(?:/(?:archive|mcp_oauth_validate))?)?",
    _VERSION + rb"/audio/(?:voices|voice_consents(?:/" + _ID + rb")?)",
    _VERSION + rb"/live/sessions/" + _ID + rb"/(?:hangup|refer|reject)",
    _VERSION + rb"/(?:auth_tokens|moderations|webhooks|files:register|fileSearchStores(?:/[^/]+:importFile)?)",
    rb"^/upload/v\d+[a-z0-9]*/fileSearchStores/" + _ID + rb":uploadToFileSearchStore",
    _VERSION + rb"/memory_stores(?:/[^/]+(?:/archive|/memories(?:/[^/]+)?|/memory_versions/[^/]+/redact)?)?",
    _VERSION + _CACHE,
    # Cancelling work.
    rb"/messages/batches/" + _ID + rb"/cancel",
    _VERSION + rb"/(?:batches|batch/jobs|dreams|responses|interactions|fine_tuning/jobs|chatkit/sessions)/[^/]+/cancel",
    _VERSION + rb"/fine_tuning/(?:alpha/graders/validate|jobs/" + _ID + rb"/(?:pause|resume))",
    _VERSION + rb"/(?:evals|threads)/" + _ID + rb"/runs/" + _ID + rb"(?:/cancel)?",
    _VERSION + rb"/(?:[a-zA-Z_]+/[^/]+/)*(?:batches|operations|batchPredictionJobs)/[^/:]+:cancel",
    # Ollama's own models.
    rb"^/api/(?:show|pull|push|create|copy|delete)",
    rb"^/api/blobs/" + _ID,
)
"""POSTs that generate nothing and aren't charged (see the providers' price lists)."""


@cache
def _free_posts() -> re.Pattern[bytes]:
    return re.compile(rb"(?:" + rb"|".join((*_FREE_POSTS, *free_posts())) + rb")/?$")


_FREE_PATCHES = re.compile(_VERSION + _CACHE + rb"/" + _ID + rb"/?$")
"""How long Google keeps a cache."""


_CONVERSATIONS = re.compile(r"/conversations(?:/[^/]+)?/?$")
_INPUTS = re.compile(rb'(?<!\\)"inputs"\s*:')


def may_answer(path: str) -> bool:
    """Return whether the body tells if a model works on this free request: OpenAI's conversations are kept, Mistral's
    (https://docs.mistral.ai/agents/agents) are answered."""
    return _CONVERSATIONS.search(path) is not None


def is_answered(path: str, body: bytes) -> bool:
    """Return whether a model works on this free request."""
    return may_answer(path) and _INPUTS.search(body) is not None


_LONGEST_FREE = 512
"""Bytes of a path that is searched; no free one is longer."""


def is_free(method: str, raw_path: bytes, body: bytes) -> bool:
    """Whether a request costs nothing, so that it needs no ticket. `raw_path` is as sent, without our prefixes
    and without the query.
    """
    if method in FREE_METHODS:
        return not body
    if len(raw_path) > _LONGEST_FREE or not _UNAMBIGUOUS.fullmatch(raw_path):
        return False
    if method == "PATCH":
        return _FREE_PATCHES.search(raw_path) is not None
    return method == "POST" and _free_posts().search(raw_path) is not None
