"""Textual style sheets and themes, nothing else."""

from __future__ import annotations

from importlib.resources import files

STYLE_SHEETS = [str(files(__name__).joinpath("base.tcss"))]
"""Paths for an app's CSS_PATH."""
