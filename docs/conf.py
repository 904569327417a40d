"""Settings of Sphinx, which builds the manual: `make docs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hivemind import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ["COLUMNS"] = "100"  # the width at which argparse prints help

import reference  # noqa: E402 - found by the path above

reference.write(HERE / "reference")

project = "HiveMind"
version = release = __version__
author = "the HiveMind authors"
copyright = "the HiveMind authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "figures"]  # programs write the figures, pages include them
nitpicky = True
html_theme = "furo"
html_title = f"HiveMind {__version__}"
html_show_sphinx = False
