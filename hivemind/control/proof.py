"""The proof that a listener knows the token which a client holds, asked for before the token is shown.

A proxy that was killed leaves its note, and any process may listen on its port next. So a client sends a random nonce
first, and shows its token only on a connection on which the right HMAC of the nonce came back. The HMAC covers the run
that the proxy's note names, so an answer that a listener fetches from another proxy with the same token doesn't count.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import re
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from hivemind.control.discovery import Token

PATH = "/_proof"
API = 2
"""Version of the control API, of the MCP tools' answers and of the metrics: it rises when a name in them changes."""
RUN_PREFIX = "hmrun-"
"""How a run's token begins: `hmrun-NAME.TAG.MAC`, of which the last part is secret."""
LARGEST = 4 << 10
"""Bytes of an answer."""
LONGEST_RUN = 2_000
"""Letters of NAME.TAG."""
NONCE = re.compile("[0-9a-f]{64}")
_DOMAIN = "hivemind proof 1"
_SHOWN = 300
"""Letters of a refusal in the proxy's own words."""


class Unproven(Exception):
    """The listener doesn't prove that it knows the token; the text says what to do. The token wasn't shown."""


def proof(token: str, nonce: str, run: str) -> str:
    """Return what proves that a proxy of that run knows the token."""
    return hmac.new(token.encode(), "\0".join((_DOMAIN, nonce, run)).encode(), hashlib.sha256).hexdigest()


class Challenge:
    """One question whether a listener knows a token."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._nonce = secrets.token_hex(32)

    @property
    def target(self) -> str:
        """Path and query to ask for."""
        text = self._token.text
        public = text.removeprefix(RUN_PREFIX).rpartition(".")[0] if text.startswith(RUN_PREFIX) else ""
        return f"{PATH}?{urlencode({'nonce': self._nonce, **({'run': public} if public else {})})}"

    def check(self, status: int, body: bytes) -> None:
        """Check the answer. Raises: Unproven."""
        said: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(body)
        said = said if isinstance(said, dict) else {}
        run, shown, error = (said.get(name) for name in ("run", "proof", "error"))
        if status == 200 and isinstance(run, str) and isinstance(shown, str):
            noted = self._token.noted_run()
            right = proof(self._token.text, self._nonce, run)
            if hmac.compare_digest(shown.encode(errors="replace"), right.encode()) and noted in ("", run):
                self._check_version(said.get("api"))
                return
            raise Unproven(
                f"what listens there doesn't know the token from {self._token.origin}, so it wasn't sent: it is another"
                " proxy or program, or was started anew with another token"
            )
        if status not in (200, 401, 404) and isinstance(error, str) and error:
            raise Unproven(error[:_SHOWN])
        raise Unproven(
            f"what listens there can't prove that it knows the token from {self._token.origin}, so it wasn't sent: it"
            " is no HiveMind, or one of an older version, which must be restarted"
        )

    @staticmethod
    def _check_version(theirs: object) -> None:
        if theirs != API:
            version = theirs if isinstance(theirs, int) else "1"
            raise Unproven(
                f"the proxy has version {version} of the control API, and this HiveMind version {API}: use the same"
                " HiveMind on both sides, and restart the proxy"
            )
