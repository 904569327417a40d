"""The keys that the footer of each page shows, the most needed first: a narrow footer drops the last."""

from __future__ import annotations

from hivemind_tui.keys.table import BY_ID

_STEER = ("pause", "circuit", "less", "pin", "release", "drain")
_STEER_AGENT = ("raise", "boost", "hold", "stop", "budget")
_FIND = ("filter", "sort", "failing", "slowest", "dearest")
FOOTERS = {
    "start": ("help", "quit", "demo", "down", "copy", "overview", "theme"),
    "overview": (
        *("help", "quit", "open", "raise", "hold", "pause", "circuit", "less", "filter", "boost", "stop", "undo"),
        *("pin", "budget", "mark", "release", "lane", "drain", "what_if", "sort", "palette", "freeze"),
    ),
    "agents": ("help", "quit", "open", *_STEER_AGENT, "mark", "fold", *_FIND, "tree", "undo", "pause", "palette"),
    "requests": (
        *("help", "quit", "open", *_FIND, "stop", "hold", "raise", "boost", "budget", "copy", "pause", "undo"),
        *("palette", "freeze"),
    ),
    "tuning": ("help", "quit", "step_up", "open", "what_if", "undo", "write", "down", *_STEER, "lane", "palette"),
    "tasks": (
        *("help", "quit", "open", "raise", "cancel", "retry", "failing", "filter", "sort", "slowest", "dearest"),
        *("copy", "pause", "undo", "palette", "what_if", "freeze"),
    ),
    "log": ("help", "quit", "filter", "down", "copy", "pause", "undo", "palette", "freeze"),
    "agent": ("help", "quit", "back", "open", *_STEER_AGENT, "undo", *_FIND, "pause"),
    "whatif": (
        *("help", "quit", "vary_up", "open", "other", "apply", "back", "as_recorded", "write", "copy", "down"),
        *("undo", "pause", "palette"),
    ),
    "request": (
        *("help", "quit", "back", "down", "copy", "stop", "hold", "raise", "boost", "budget"),
        *("pause", "undo", "palette", "freeze"),
    ),
}
"""By page of a live screen."""

_TIME = ("help", "quit", "play", "notable", "later", "faster", "go_to", "what_if")
_TIME_BACK = (*_TIME[:2], "back", *_TIME[2:])
_MORE = ("play_to_mark", "loop_from", "unloop", "event", "kinds", "picture", "palette")
_JUMPS = ("failing", "longest", "dearest")
REPLAY_FOOTERS = {
    "overview": (*_TIME, "open", "filter", *_MORE, "lane", "sort", "fold", "tree", "copy"),
    "agents": (*_TIME, "open", "filter", "sort", "fold", *_MORE, *_JUMPS),
    "requests": (*_TIME, "open", "filter", "sort", *_MORE, *_JUMPS, "copy"),
    "tuning": (*_TIME, "down", *_MORE, "lane"),
    "tasks": (*_TIME, "open", "filter", "failing", *_MORE, "sort", "longest", "dearest", "copy"),
    "log": (*_TIME, "filter", "down", *_MORE, "copy"),
    "agent": (*_TIME_BACK, "open", "filter", "sort", *_MORE, *_JUMPS),
    "request": (*_TIME_BACK, "down", *_MORE, "copy"),
    "whatif": tuple(name for name in FOOTERS["whatif"] if BY_ID[name].live is None),
}
"""By page of a recording."""
