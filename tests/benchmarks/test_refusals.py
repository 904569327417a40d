"""The forms of refusals in the manual."""

from __future__ import annotations

from pathlib import Path

from benchmarks.refusals.figures import forms_text


def test_the_manual_has_the_forms() -> None:
    """The manual's table of what each client is told is the one that the proxy goes by."""
    assert (Path(__file__).parents[2] / "docs/figures/refusals-forms.md").read_text("utf-8") == forms_text()
