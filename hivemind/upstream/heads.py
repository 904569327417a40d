"""Response heads that can't be passed on."""

from __future__ import annotations

from itertools import chain

from hivemind.upstream.base import Headers

_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})
MALFORMED = "a control character in a header"


def holds_control(headers: Headers) -> bool:
    """Whether a name or a value holds a control character other than a tab (RFC 9110, 5.5): passed on, it would break
    the head that the client gets, or the terminal that shows it."""
    text = b"".join(chain.from_iterable(headers))
    return len(text.translate(None, _CONTROLS)) != len(text)
