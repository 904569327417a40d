"""The keys of a replay: they go about in time, where those of a live screen steer."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind_tui.keys.key import LISTS, SCROLLED, Key
from hivemind_tui.keys.whatif_keys import REPLAY_FOOTER

REPLAY_KEYS = (
    Key("play", "space", "space", "play", "play", "play on, or stop", "time"),
    Key("later", "right", "right", "step(1)", "step", "a second on", "time"),
    Key("earlier", "left", "left", "step(-1)", "step", "a second back", "time"),
    Key("far_later", "shift+right", "shift+right", "step(10)", "", "ten seconds on", "time"),
    Key("far_earlier", "shift+left", "shift+left", "step(-10)", "", "ten seconds back", "time"),
    Key("event", "full_stop", ".", "event(1)", "event", "to the next thing that happened", "time"),
    Key("event_before", "comma", ",", "event(-1)", "event", "to the one before", "time"),
    Key("faster", "greater_than_sign", ">", "speed(1)", "speed", "faster, up to 64 times", "time"),
    Key("slower", "less_than_sign", "<", "speed(-1)", "speed", "slower, down to a quarter", "time"),
    Key("notable", "n", "n", "notable(1)", "next mark", "to the next mark of the timeline", "time"),
    Key("notable_before", "N", "N", "notable(-1)", "", "to the mark before", "time"),
    Key("play_to_mark", "m", "m", "play_to_mark", "play to mark", "play on to the next mark, and stop there", "time"),
    Key("kinds", "f", "f", "kinds", "marks", "choose which kinds of marks there are", "time"),
    Key("go_to", "g", "g", "go_to", "go to", "to a time: 14:02, 14:02:30, +90s, -2m, 50%", "time"),
    Key("begin", "home", "home", "begin", "", "to the beginning", "time"),
    Key("finish", "end", "end", "finish", "", "to the end; one still being written is followed", "time"),
    Key("loop_from", "left_square_bracket", "[", "loop(0)", "loop", "a loop begins here", "time"),
    Key("loop_to", "right_square_bracket", "]", "loop(1)", "loop", "and ends here: it is played over and over", "time"),
    Key("unloop", "backslash", "\\", "unloop", "no loop", "take the loop away", "time"),
    Key("picture", "e", "e", "picture", "picture", "write a picture of this moment into the folder here", "screen"),
    Key("first_row", "ctrl+home", "ctrl+home", "edge(0)", "", "first row", "lists", SCROLLED),
    Key("last_row", "G,ctrl+end", "G", "edge(-1)", "", "last row", "lists", SCROLLED),
    Key("longest", "L", "L", "jump('slowest')", "slowest", "jump to the slowest", "lists", LISTS),
)
"""The last ones have another key on a live screen, which here goes about in time."""

REPLAY_PAIRS: Mapping[str, str] = {
    "later": "left right",
    "event": ", .",
    "faster": "< >",
    "loop_from": "[ ]",
}
"""Keys that stand together in the footer, under the word of the first."""

_TIME = ("play", "notable", "later", "faster", "go_to", "what_if")
_MORE = ("play_to_mark", "loop_from", "unloop", "event", "kinds", "picture", "palette")
REPLAY_FOOTERS: Mapping[str, tuple[str, ...]] = {
    "overview": ("help", "quit", *_TIME, "open", "filter", *_MORE, "lane", "sort", "fold", "tree", "copy"),
    "agents": ("help", "quit", *_TIME, "open", "filter", "sort", "fold", *_MORE, "failing", "longest", "dearest"),
    "requests": ("help", "quit", *_TIME, "open", "filter", "sort", *_MORE, "failing", "longest", "dearest", "copy"),
    "tuning": ("help", "quit", *_TIME, "down", *_MORE, "lane"),
    "tasks": ("help", "quit", *_TIME, "open", "filter", "failing", *_MORE, "sort", "longest", "dearest", "copy"),
    "log": ("help", "quit", *_TIME, "filter", "down", *_MORE, "copy"),
    "agent": ("help", "quit", "back", *_TIME, "open", "filter", "sort", *_MORE, "failing", "longest", "dearest"),
    "request": ("help", "quit", "back", *_TIME, "down", *_MORE, "copy"),
    "whatif": REPLAY_FOOTER,
}
"""By page, the most needed first: a narrow footer drops the last."""
