"""One-line descriptions of socket errors, free of credentials."""

from __future__ import annotations

import errno
import os
import socket
import ssl

_LONGEST = 200


def describe(exc: BaseException) -> str:
    """Return what happened, in one short line."""
    match exc:
        case ssl.SSLCertVerificationError():
            return f"certificate not accepted: {exc.verify_message}"
        case ssl.SSLError():
            # OpenSSL's reasons are constants: `WRONG_VERSION_NUMBER`.
            return f"TLS failed: {one_line(exc.reason or str(exc)).lower().replace('_', ' ')}"
        case socket.gaierror():
            return f"name not resolved: {exc.strerror}"
        case OSError() if exc.errno in (errno.EMFILE, errno.ENFILE):
            return "no file is left for a connection; raise the limit of open files with `ulimit -n`"
        case OSError() if exc.errno:
            return os.strerror(exc.errno).lower()
        case _:
            return one_line(str(exc)) or type(exc).__name__


def is_untrusted(exc: BaseException | None) -> bool:
    """Return whether the root cause is a certificate that wasn't accepted; httpx wraps it twice."""
    while exc is not None and not isinstance(exc, ssl.SSLCertVerificationError):
        exc = exc.__cause__ or exc.__context__
    return exc is not None


def one_line(text: str) -> str:
    """Return the text without line breaks, cut where it gets long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
