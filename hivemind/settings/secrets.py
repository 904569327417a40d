"""The proxy's own credentials, which no output may show."""

from __future__ import annotations

from hivemind.redaction.values import credentials_of_url, longest_first
from hivemind.settings import Settings


def own_credentials(settings: Settings) -> tuple[str, ...]:
    """Return the proxy's own tokens and the credentials of the proxy it connects through, the longest first."""
    tokens = (
        each.get_secret_value()
        for each in (settings.token, settings.control_token, *settings.agents.credentials.values())
        if each is not None
    )
    via = credentials_of_url(settings.via.get_secret_value()) if settings.via else ()
    return longest_first((*tokens, *via))
