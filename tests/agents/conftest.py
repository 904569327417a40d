"""No test leaves a proxy behind that its runs started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from detached import detached_in, end_all


@pytest.fixture(autouse=True)
def _no_proxy_left(request: pytest.FixtureRequest) -> Iterator[None]:
    folder: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        end_all(detached_in(folder))
