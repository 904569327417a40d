"""TLS settings for upstreams."""

from __future__ import annotations

import os
import ssl

import certifi


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that verifies certificate and host name.

    Trusted are the system's authorities and certifi's (some systems have none where OpenSSL looks), or only those that
    `SSL_CERT_FILE` or `SSL_CERT_DIR` name where one is set; and those of `ca_file`, in PEM, in any case.

    Raises: ValueError, where `ca_file` can't be read.
    """
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError as exc:
            raise ValueError(f"CA file {ca_file!r} holds no certificate in PEM form") from exc
        except OSError as exc:
            raise ValueError(f"CA file {ca_file!r} can't be read: {exc.strerror}") from exc
    context.set_alpn_protocols(["http/1.1"])
    return context
