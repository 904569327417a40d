"""What the official SDKs are given in tests."""

from __future__ import annotations

import httpx2


def sdk_http() -> httpx2.AsyncClient:
    """An HTTP client that reads no certificates, which takes longer than a request."""
    return httpx2.AsyncClient(trust_env=False, verify=False, timeout=60, follow_redirects=True)
