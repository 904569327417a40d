"""Which requests cost nothing, by method and path: everything else goes through the scheduler.

The list is of what is known to be free, so that an API which nobody has heard of is scheduled and counted rather than
passed by. Paths are compared as they stand on the wire: one that is written with escapes isn't free, because servers
differ in what they make of them.
"""

from __future__ import annotations

import re
from functools import lru_cache

FREE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Without a body these generate nothing on any API that we know: they list, look up and remove."""

METHOD_OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Headers by which some servers (Google's among them) take a request for one of another method."""

_ID = rb"[A-Za-z0-9_.:@~-]+"
_UNAMBIGUOUS = re.compile(rb"[A-Za-z0-9_.:@~/-]*")
_VERSION = rb"(?:^|/v\d+[a-z0-9]*|/openai)"
"""What stands before the resources of an API: a version, Azure's `/openai`, or nothing."""

_FREE_POSTS = re.compile(
    rb"(?:"
    + rb"|".join(
        (
            # Token counts: Anthropic, OpenAI, Google; tokenizers of vLLM, TGI, llama.cpp, Cohere and xAI.
            rb"/messages/count_tokens",
            rb"/responses/input_tokens",
            rb"/models/" + _ID + rb":(?:countTokens|computeTokens)",
            rb"/(?:tokenize|detokenize|tokenize-text|apply-template)",
            # Uploads: files are paid for when a model reads them.
            _VERSION + rb"/files",
            rb"^/upload/v\d+[a-z0-9]*/files",
            _VERSION + rb"/uploads(?:/" + _ID + rb"/(?:parts|complete|cancel))?",
            _VERSION + rb"/skills(?:/" + _ID + rb"/versions)?",
            # Ending work that was begun.
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
"""POSTs that generate nothing and are not charged for (see the providers' price lists)."""


LONGEST_PATH = 512
"""In bytes. No free path is longer; this bounds what is remembered too."""


def is_free(method: str, raw_path: bytes, body: bytes) -> bool:
    """Whether a request costs nothing, so that it needs no ticket.

    `raw_path` comes without our own prefixes and without the query, otherwise as the client sent it.
    """
    if method in FREE_METHODS:
        return not body
    return method == "POST" and len(raw_path) <= LONGEST_PATH and _is_free_post(raw_path)


@lru_cache(maxsize=256)  # the same few paths are asked for again and again
def _is_free_post(raw_path: bytes) -> bool:
    return _UNAMBIGUOUS.fullmatch(raw_path) is not None and _FREE_POSTS.search(raw_path) is not None
