"""The keys of the what-if page, and the one that leads there."""

from __future__ import annotations

from hivemind_tui.keys.key import WHAT_IF, Key

WHAT_IF_KEYS = (
    Key("what_if", "w", "w", "what_if", "what if", "simulate the recorded traffic with other settings", "pages"),
    Key("vary_up", "right", "right", "vary(1)", "more", "turn the setting up", "what if", WHAT_IF),
    Key("vary_down", "left", "left", "vary(-1)", "less", "turn it down", "what if", WHAT_IF),
    Key("vary_far_up", "shift+right", "shift+right", "vary(10)", "", "up by a large step", "what if", WHAT_IF),
    Key("vary_far_down", "shift+left", "shift+left", "vary(-10)", "", "down by one", "what if", WHAT_IF),
    Key("other", "o", "o", "other", "type", "type a value, or any setting as NAME=VALUE", "what if", WHAT_IF),
    Key(
        "as_recorded",
        "backspace,delete",
        "backspace",
        "as_recorded",
        "as recorded",
        "as recorded again",
        "what if",
        WHAT_IF,
    ),
    Key(
        "apply",
        "A",
        "A",
        "apply",
        "apply",
        "have the running proxy take these settings, after a look",
        "what if",
        WHAT_IF,
    ),
)
FOOTER = (
    *("help", "quit", "vary_up", "open", "other", "apply", "back", "as_recorded", "write", "copy", "down"),
    *("undo", "pause", "palette"),
)
REPLAY_FOOTER = ("help", "quit", "vary_up", "open", "other", "apply", "back", "as_recorded", "copy", "down", "palette")
PAIRS = {"vary_up": "left right"}
WORDS = {"vary_up": "turn"}
