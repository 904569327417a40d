"""Golden files of any test: `pytest --update-golden` with the tests' paths writes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """For the conftest of all tests."""
    parser.addoption("--update-golden", action="store_true", default=False, help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name, which is in the folder `golden` beside the test."""
    folder = request.path.parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / (name if name.endswith(".svg") else f"{name}.txt")
        # Rows end in blanks that editors take away.
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path.name}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
