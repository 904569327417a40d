"""Requests that the proxy itself answers with an error."""

from __future__ import annotations

from hivemind.providers.paths import dialect_for
from hivemind.wire.headers import Headers


class RequestRefused(Exception):
    """A request that isn't served; the text is for the client.

    `reason` is the provider-neutral word that dialects put into their errors.
    """

    def __init__(self, status: int, text: str, reason: str = "bad_request", retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    def response(self, path: str) -> tuple[Headers, bytes]:
        """Return headers and body in the shape of the API that the path belongs to."""
        return dialect_for(path).refusal(self.status, self.reason, f"HiveMind: {self}", self.retry_after_s)
