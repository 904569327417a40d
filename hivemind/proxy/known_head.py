"""The head of a connection's last request, by which an equal one is recognised without parsing it."""

from __future__ import annotations

import re

from msgspec import Struct

from hivemind.proxy.asgi import Scope

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_MOST_DIGITS = 9


class KnownHead(Struct, frozen=True):
    """The head of a request that was parsed, checked and served. Another one may differ in the body's length alone."""

    before: bytes
    """The bytes up to the length."""
    after: bytes
    """Those behind it, the empty line included."""
    scope: Scope
    length_at: int
    """Where the length is among the scope's headers."""
    remembered: object
    """What the application keeps for requests of this head."""

    @classmethod
    def of(cls, data: bytes, scope: Scope, remembered: object) -> KnownHead | None:
        """Return the head of a request that `data` begins with, which was parsed to `scope`; None where its head isn't
        all in there, or gives no length in a plain way."""
        end = data.find(b"\r\n\r\n") + 4
        head = data[:end]
        found = _LENGTH.search(head)
        if end < 4 or found is None or not head.startswith(scope["method"].encode()):
            return None
        names = [name for name, _ in scope["headers"]]
        if names.count(b"content-length") != 1:
            return None
        before, after = head[: found.start(1)], head[found.end(1) :]
        return cls(before, after, scope, names.index(b"content-length"), remembered)

    def body_in(self, data: bytes) -> tuple[bytes, int, int] | None:
        """Return the length as it is written in a request with this head, where its body begins in `data`, and how long
        it is; None where the head differs."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start, start + _MOST_DIGITS + 1) if self.after.startswith(b"\r") else -1
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self.after, end):
            return None
        return digits, end + len(self.after), int(digits)

    def scope_for(self, digits: bytes) -> Scope:
        """Return the scope of a request with this head and a body of this length."""
        headers = self.scope["headers"].copy()
        headers[self.length_at] = (b"content-length", digits)
        return {**self.scope, "headers": headers}
