"""Which requests cost nothing, by method and path: everything else goes through the scheduler.

The list names what is known to be free, so an unknown API is scheduled and charged. Paths are compared as sent:
one with escapes isn't free, because servers differ in how they decode them.
"""

from __future__ import annotations

import re
from functools import lru_cache

FREE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Without a body these generate nothing on any known API: they list, look up and remove."""

METHOD_OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Headers that override the method on some servers, Google's among them."""

_ID = rb"[A-Za-z0-9_.:@~-]+"
_UNAMBIGUOUS = re.compile(rb"[A-Za-z0-9_.:@~/-]*")
_VERSION = rb"(?:^|/v\d+[a-z0-9]*|/openai)"
"""The prefix of an API's resources: a version, Azure's `/openai`, or nothing."""

_FREE_POSTS = re.compile(
    rb"(?:"
    + rb"|".join(
        (
            # Token counts: Anthropic, OpenAI, Google; tokenizers of vLLM, TGI, llama.cpp, Cohere and xAI.
            rb"/messages/count_tokens",
            rb"/responses/input_tokens",
            rb"/models/" + _ID + rb":(?:countTokens|computeTokens)",
            rb"/(?:tokenize|detokenize|tokenize-text|apply-template)",
            # Uploads: files cost when a model reads them.
            _VERSION + rb"/files",
            rb"^/upload/v\d+[a-z0-9]*/files",
            _VERSION + rb"/uploads(?:/" + _ID + rb"/(?:parts|complete|cancel))?",
            _VERSION + rb"/skills(?:/" + _ID + rb"/versions)?",
            # Cancelling work.
            rb"/messages/batches/" + _ID + rb"/cancel",
            _VERSION + rb"/(?:batches|responses|interactions|fine_tuning/jobs)/" + _ID + rb"/cancel",
            _VERSION + rb"/threads/" + _ID + rb"/runs/" + _ID + rb"/cancel",
            _VERSION + rb"/(?:batches|operations)/" + _ID + rb":cancel",
            # Ollama's own models.
            rb"^/api/(?:show|pull|push|create|copy|delete)",
            rb"^/api/blobs/" + _ID,
        )
    )
    + rb")/?$"
)
"""POSTs that generate nothing and aren't charged (see the providers' price lists)."""


LONGEST_PATH = 512
"""In bytes. No free path is longer; this bounds the cache too."""


def is_free(method: str, raw_path: bytes, body: bytes) -> bool:
    """Whether a request costs nothing, so that it needs no ticket. `raw_path` is as sent, without our prefixes
    and without the query.
    """
    if method in FREE_METHODS:
        return not body
    return method == "POST" and len(raw_path) <= LONGEST_PATH and _is_free_post(raw_path)


@lru_cache(maxsize=256)  # few different paths are in use
def _is_free_post(raw_path: bytes) -> bool:
    return _UNAMBIGUOUS.fullmatch(raw_path) is not None and _FREE_POSTS.search(raw_path) is not None
