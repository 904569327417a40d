"""Every key, once: bindings, footer, help and the palette are made from this table."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from textual.binding import Binding

from hivemind_tui.keys import whatif_keys as what_if
from hivemind_tui.keys.key import AGENTS, LISTS, MARKED, RANKED, SCROLLED, TASKS, WHAT_IF, Key
from hivemind_tui.keys.replay_keys import REPLAY_FOOTERS, REPLAY_KEYS, REPLAY_PAIRS
from hivemind_tui.render.pen import Span, linked

_LIVE_KEYS = (
    Key(
        "overview", "1", "1", "page('overview')", "overview", "slots, curve, windows, circuit, agents, events", "pages"
    ),
    Key("agents", "2", "2", "page('agents')", "agents", "every agent, and one of them closer", "pages"),
    Key("requests", "3", "3", "page('requests')", "requests", "every request remembered", "pages"),
    Key("tuning", "4", "4", "page('tuning')", "tuning", "turn the knobs while agents run", "pages"),
    Key("log", "5", "5", "page('log')", "log", "what happened lately, line by line", "pages"),
    Key("tasks", "6", "6", "page('tasks')", "tasks", "the task graph: what runs, what waits for what", "pages"),
    Key("start", "0", "0", "page('start')", "connect", "how to point an agent here", "pages"),
    Key("back", "escape", "esc", "out", "back", "undo one layer: filter, marks, page", "pages"),
    Key("down", "j,down", "j", "move(1)", "down", "next row (or down arrow)", "lists", SCROLLED),
    Key("up", "k,up", "k", "move(-1)", "up", "row before (or up arrow)", "lists", SCROLLED),
    Key("page_down", "ctrl+d,pagedown", "ctrl+d", "move(10)", "", "ten rows on", "lists", SCROLLED),
    Key("page_up", "ctrl+u,pageup", "ctrl+u", "move(-10)", "", "ten rows back", "lists", SCROLLED),
    Key("first", "g,home", "g", "edge(0)", "", "first row", "lists", SCROLLED),
    Key("last", "G,end", "G", "edge(-1)", "", "last row", "lists", SCROLLED),
    Key("open", "enter", "enter", "open", "open", "look closer; tuning: type a value; what if: simulate", "lists"),
    Key(
        "filter",
        "slash",
        "/",
        "filter",
        "filter",
        "show only what fits, as you type: words, !not, state:retry",
        "lists",
    ),
    Key("sort", "s", "s", "sort(1)", "sort", "sort by the next column", "lists", LISTS),
    Key("reverse", "S", "S", "reverse", "", "turn the order round", "lists", LISTS),
    Key(
        "failing",
        "exclamation_mark",
        "!",
        "jump('failing')",
        "failing",
        "jump to the next one in trouble",
        "lists",
        LISTS,
    ),
    Key("slowest", "greater_than_sign", ">", "jump('slowest')", "slowest", "jump to the slowest", "lists", LISTS),
    Key("dearest", "dollar_sign", "$", "jump('dearest')", "dearest", "jump to the most expensive", "lists", LISTS),
    Key("copy", "y", "y", "copy", "copy", "copy: the line to export, a request's number", "lists"),
    Key("raise", "plus,equals_sign", "+", "send('priority', -1)", "priority", "more urgent", "agents", RANKED),
    Key("lower", "minus", "-", "send('priority', 1)", "priority", "less urgent", "agents", RANKED),
    Key("boost", "b", "b", "send('boost')", "boost", "ahead of everybody for a minute, or no longer", "agents", AGENTS),
    Key("hold", "h", "h", "send('hold')", "hold", "hold its requests, or let them go", "agents", AGENTS),
    Key(
        "budget",
        "B",
        "B",
        "budget",
        "budget",
        "give it a budget: 500k, $5/day, +50k, none; pool 2M for all",
        "agents",
        AGENTS,
    ),
    Key("stop", "x", "x", "stop", "stop", "cut it off, or let it ask again; says first what is lost", "agents", AGENTS),
    Key("mark", "space", "space", "mark", "mark", "mark it: commands go to all marked together", "agents", MARKED),
    Key("mark_all", "asterisk", "*", "mark_all", "", "mark all that are shown, or none", "agents", MARKED),
    Key("tree", "T", "T", "tree", "tree", "agents under those that started them, or all in one list", "agents", MARKED),
    Key("fold", "z", "z", "fold", "fold", "hide the agents below it and show their sums, or unfold", "agents", MARKED),
    Key("cancel", "X", "X", "cancel", "cancel", "cancel the task; says first what else won't run", "tasks", TASKS),
    Key(
        "retry", "R", "R", "send('retry')", "retry", "try a task that failed again, and what it blocked", "tasks", TASKS
    ),
    Key("less", "left_square_bracket", "[", "send('ceiling', -1)", "ceiling", "lower the concurrency ceiling", "lane"),
    Key("more", "right_square_bracket", "]", "send('ceiling', 1)", "ceiling", "raise it", "lane"),
    Key("pin", "a", "a", "send('pin')", "auto/pin", "pin the level where it is, or give it back to AIMD", "lane"),
    Key("circuit", "c", "c", "circuit", "circuit", "steer the circuit: automatic, open, closed, probe now", "lane"),
    Key("release", "r", "r", "send('release')", "release", "end the provider's pause or used-up window", "lane"),
    Key("lane", "tab", "tab", "lane(1)", "lane", "next lane", "lane"),
    Key("lane_back", "shift+tab", "shift+tab", "lane(-1)", "", "lane before", "lane"),
    Key("step_up", "right", "right", "send('turn', 1)", "more", "turn the knob up", "tuning", frozenset({"tuning"})),
    Key("step_down", "left", "left", "send('turn', -1)", "less", "turn it down", "tuning", frozenset({"tuning"})),
    Key(
        "leap_up",
        "shift+right",
        "shift+right",
        "send('turn', 10)",
        "",
        "up by a large step",
        "tuning",
        frozenset({"tuning"}),
    ),
    Key(
        "leap_down", "shift+left", "shift+left", "send('turn', -10)", "", "down by one", "tuning", frozenset({"tuning"})
    ),
    Key(
        "write",
        "W",
        "W",
        "write",
        "write",
        "write what was tuned to hivemind.toml, after a look",
        "tuning",
    ),
    Key("undo", "u", "u", "undo", "undo", "take your last change back", "traffic"),
    Key(
        "pause", "p", "p", "send('pause')", "freeze all", "nothing more is sent, or on again; streams go on", "traffic"
    ),
    Key(
        "drain",
        "D",
        "D",
        "drain",
        "drain",
        "refuse who waits and comes, finish what flies, or go on",
        "traffic",
    ),
    Key("quit", "q,ctrl+q,ctrl+c", "q", "leave", "quit", "leave; a proxy of this screen's own drains first", "traffic"),
    Key("help", "question_mark", "?", "help", "help", "keys and glyphs", "screen"),
    Key(
        "palette",
        "colon,ctrl+p",
        ":",
        "palette",
        "commands",
        "find any command by its words, or type one: aimd.beta 0.7",
        "screen",
    ),
    Key("freeze", "v", "v", "freeze", "still view", "the view stands still; the traffic goes on", "screen"),
    Key("theme", "t", "t", "theme", "theme", "next theme", "screen"),
    Key("inside", "i", "i", "inside", "", "how the screen itself is doing: frames, loop, memory", "screen"),
    Key("repaint", "ctrl+l", "ctrl+l", "repaint", "", "repaint everything", "screen"),
    Key(
        "demo",
        "d",
        "d",
        "demo",
        "start the demo",
        "mock agents on a provider's bad day",
        "screen",
        frozenset({"start"}),
    ),
)
_ONLY_LIVE = frozenset(
    {
        *("start", "first", "last", "slowest", "mark", "mark_all", "freeze", "demo"),
        *("raise", "lower", "boost", "hold", "budget", "stop", "cancel", "retry", "undo", "pause", "drain"),
        *("less", "more", "pin", "circuit", "release", "step_up", "step_down", "leap_up", "leap_down", "write"),
    }
)
"""Keys that steer, and those that a replay has a key of its own for."""
KEYS = (*REPLAY_KEYS, *what_if.WHAT_IF_KEYS, *_LIVE_KEYS)
"""Those of a replay first: Textual asks them in this order, where a key has a meaning on either."""
_OF_TIME = frozenset(key.id for key in REPLAY_KEYS if not key.pages)
"""Keys of a replay that mean something wherever its time is shown."""
BY_ID = {key.id: key for key in KEYS}
_LIVE = {**dict.fromkeys(_ONLY_LIVE, True), **{key.id: False for key in REPLAY_KEYS}}
"""Keys that only a live screen has, or (False) only a recording."""

_PAIRS = {
    **REPLAY_PAIRS,
    **what_if.PAIRS,
    "raise": "+ -",
    "less": "[ ]",
    "down": "j k",
    "step_up": "left right",
}
"""Keys that stand together in the footer, under the word of the first."""
_WORDS = {"down": "select", "step_up": "turn", **what_if.WORDS}

_STEER = ("pause", "circuit", "less", "pin", "release", "drain")
_STEER_AGENT = ("raise", "boost", "hold", "stop", "budget")
_FIND = ("filter", "sort", "failing", "slowest", "dearest")
_REST = ("sort", "slowest", "dearest", "copy", "pause", "undo", "palette", "what_if", "freeze")
FOOTERS: Mapping[str, tuple[str, ...]] = {
    "start": ("help", "quit", "demo", "down", "copy", "overview", "theme"),
    "overview": (
        *("help", "quit", "open", "raise", "hold", "pause", "circuit", "less", "filter", "boost", "stop", "undo"),
        *("pin", "budget", "mark", "release", "lane", "drain", "what_if", "sort", "palette", "freeze"),
    ),
    "agents": ("help", "quit", "open", *_STEER_AGENT, "mark", "fold", *_FIND, "tree", "undo", "pause", "palette"),
    "requests": (
        *("help", "quit", "open", "filter", "sort", "failing", "slowest", "dearest", "stop", "hold", "raise"),
        *("boost", "budget", "copy", "pause", "undo", "palette", "freeze"),
    ),
    "tuning": ("help", "quit", "step_up", "open", "what_if", "undo", "write", "down", *_STEER, "lane", "palette"),
    "tasks": ("help", "quit", "open", "raise", "cancel", "retry", "failing", "filter", *_REST),
    "log": ("help", "quit", "filter", "down", "copy", "pause", "undo", "palette", "freeze"),
    "agent": ("help", "quit", "back", "open", *_STEER_AGENT, "undo", *_FIND, "pause"),
    "whatif": what_if.FOOTER,
    "request": (
        *("help", "quit", "back", "down", "copy", "stop", "hold", "raise", "boost", "budget"),
        *("pause", "undo", "palette", "freeze"),
    ),
}
"""By page, the most needed first: a narrow footer drops the last."""


def bindings() -> list[Binding]:
    """For an app's BINDINGS."""
    return [
        Binding(key.keys, key.action, key.help, id=f"hivemind.{key.id}", show=False, priority=key.id in _OURS)
        for key in KEYS
    ]


_OURS = frozenset({"quit", "lane", "lane_back", "repaint", "palette"})
"""Keys to which Textual would give a meaning of its own."""


def footer(
    page: str,
    without: frozenset[str] = frozenset(),
    words: Mapping[str, str] = MappingProxyType({}),
    first: Sequence[str] = (),
    live: bool = True,
) -> list[tuple[int, list[Span]]]:
    """Chunks for :func:`hivemind_tui.render.pen.fitting`; a click on one does what its key does.

    `without` names keys that mean nothing at the moment, `words` says what some would do now, and those in `first` come
    before all but help and quit.
    """
    names = FOOTERS[page] if live else REPLAY_FOOTERS[page]
    first = [name for name in first if _LIVE.get(name, live) == live]
    names = (*names[:2], *first, *(name for name in names[2:] if name not in first))
    chunks: list[tuple[int, list[Span]]] = []
    for rank, name in enumerate(name for name in names if name not in without):
        key = BY_ID[name]
        shown = _PAIRS.get(name, key.shown)
        word = words.get(name) or _WORDS.get(name, key.short)
        action = f"app.{key.action}"
        chunks.append((rank, [linked(shown, "accent", action), linked(f" {word}", "dim", action)]))
    return chunks


def here(page: str, without: frozenset[str] = frozenset(), live: bool = True) -> list[Key]:
    """The keys that mean something on this page of a screen on that, but for some."""
    return [key for key in KEYS if _holds(key, page, live) and key.id not in without]


def applies(action: str, arguments: tuple[object, ...], page: str, live: bool = True) -> bool:
    """Whether what a key does means anything on this page; what no key does always does."""
    keys = _BY_ACTION.get((action, arguments), ())
    return not keys or any(_holds(key, page, live) for key in keys)


def _holds(key: Key, page: str, live: bool) -> bool:
    return key.applies(page) and _LIVE.get(key.id, live) == live and not (page in WHAT_IF and key.id in _OF_TIME)


def steers(action: str, arguments: tuple[object, ...]) -> bool:
    """Whether only a proxy that runs can be told this."""
    keys = _BY_ACTION.get((action, arguments), ())
    return bool(keys) and all(_LIVE.get(key.id, False) for key in keys)


def parsed(action: str) -> tuple[str, tuple[object, ...]]:
    """An action of the table: what it is called, and its arguments."""
    name, _, arguments = action.partition("(")
    return name, tuple(literal_eval(f"({arguments.removesuffix(')')},)")) if arguments else ()


_BY_ACTION: dict[tuple[str, tuple[object, ...]], list[Key]] = {}
for _key in KEYS:
    _BY_ACTION.setdefault(parsed(_key.action), []).append(_key)
