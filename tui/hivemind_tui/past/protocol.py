"""Messages to and from the process that reads the last hours."""

from __future__ import annotations

import msgspec

from hivemind.journal.past import Past


class ReadPast(msgspec.Struct, frozen=True, tag=True):
    """A request to read a span of a journal."""

    path: str
    span: str
    """One of :data:`~hivemind.journal.past.SPANS`."""
    until: float
    """The moment at which it ends, on the journal's clock."""
    earlier: bool = False
    """Whether it goes on in the proxy's journals before."""


class PastProgress(msgspec.Struct, frozen=True, tag=True):
    """How much is read."""

    share: float


class PastFailed(msgspec.Struct, frozen=True, tag=True):
    """The reason why there is no answer."""

    why: str


Message = PastProgress | Past | PastFailed
QUESTIONS: msgspec.msgpack.Decoder[ReadPast] = msgspec.msgpack.Decoder(ReadPast)
MESSAGES: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
