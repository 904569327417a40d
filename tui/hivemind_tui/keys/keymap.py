"""The table of keys, from which bindings, footer, help, palette and the manual are made, and which keys apply where."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

from msgspec import Struct
from textual.binding import Binding
from textual.keys import Keys, key_to_character

from hivemind.records import replace
from hivemind.scheduler.tasks import OPEN, RETRIED
from hivemind.world.alerts import unacknowledged
from hivemind.world.snapshot import HUNG, AgentView
from hivemind_tui.render.format import fit_name
from hivemind_tui.render.pen import Span, linked
from hivemind_tui.state.view import OF_AGENTS, View

ANYWHERE: frozenset[str] = frozenset()
LISTS = frozenset({"overview", "agents", "requests", "agent", "tasks"})
AGENTS = frozenset({"overview", "agents", "agent", "requests", "request"})
RANKED = AGENTS | {"tasks"}
TASKS = frozenset({"tasks"})
TREES = frozenset({"overview", "agents"})
TUNING = frozenset({"tuning"})
WHAT_IF = frozenset({"whatif"})
COST = frozenset({"cost"})
RECORDED = frozenset({"recorded"})
LOG = frozenset({"log"})
START = frozenset({"start"})
FLEET = frozenset({"fleet"})
SCROLLED = LISTS | FLEET | COST | {"tuning", "log", "request"} | START | WHAT_IF
SPANNED = SCROLLED - START - WHAT_IF
"""Pages with curves, or costs."""

_UNDONE = 32
"""Cells of what would be undone."""
_NO_WHAT_IF = SCROLLED - WHAT_IF

_SHOWN = {"escape": "esc", "backslash": "\\", "slash": "/", "plus": "+", "minus": "-"}


class Key(Struct, frozen=True):
    """A command: its keys, its action, and its texts in footer, help and palette."""

    id: str
    keys: str
    """Textual's names, separated by commas; the first is the one shown. Empty: the palette alone has it."""
    action: str
    label: str
    """Shown in the footer."""
    help: str
    group: str
    pages: frozenset[str] = ANYWHERE
    """Pages on which it applies; empty: all. :data:`RECORDED` has those of a recording."""
    live: bool | None = None
    """Whether only a live screen has it (True), or only a recording (False)."""
    listed: bool = True
    """Whether the palette has it; keys that only move the cursor aren't commands."""
    pair: str = ""
    """Keys that stand together in the footer, under this label."""

    @property
    def shown(self) -> str:
        """The key as users know it."""
        first = self.keys.partition(",")[0]
        character = key_to_character(first)
        if character is not None and character.isprintable() and character != " ":
            return character
        return _SHOWN.get(first, first)

    def applies(self, page: str, live: bool) -> bool:
        """Return whether the key means anything on this page, of a live screen or of a recording."""
        of_whole = page in WHAT_IF  # it is about a whole recording, so that nothing there moves in time
        listed = not self.pages or page in self.pages or (not live and not of_whole and self.pages >= RECORDED)
        return listed and self.live in (None, live) and not (of_whole and self.group == "time")


_time = partial(Key, group="time", live=False)
_what_if = partial(Key, group="what if", pages=WHAT_IF)
_page = partial(Key, group="pages")
_list = partial(Key, group="lists")
_cursor = partial(Key, group="lists", pages=SCROLLED, listed=False)
_agent = partial(Key, group="agents", pages=AGENTS, live=True)
_tree = partial(Key, group="agents", pages=TREES)
_lane = partial(Key, group="lane")
_steer = partial(Key, group="lane", live=True)
_turn = partial(Key, group="tuning", pages=TUNING | WHAT_IF | RECORDED)
_traffic = partial(Key, group="traffic", live=True)
_screen = partial(Key, group="screen")

KEYS: tuple[Key, ...] = (
    # Keys of a recording come first: Textual takes the first binding of a key that applies.
    _time("play", "space", "play", "play", "play, or stop"),
    _time("faster", "greater_than_sign", "speed(1)", "speed", "faster, up to x64", pair="< >"),
    _time("slower", "less_than_sign", "speed(-1)", "speed", "slower, down to x0.25"),
    _time("loop_from", "", "loop(0)", "loop", "begin a loop here"),
    _time("loop_to", "", "loop(1)", "loop", "end the loop here, and repeat it"),
    _time("unloop", "", "unloop", "no loop", "remove the loop"),
    _turn("turn_up", "right", "turn(1)", "turn", "turn it up; in a recording a second forward", pair="left right"),
    _turn("turn_down", "left", "turn(-1)", "turn", "turn it down; in a recording a second back"),
    _turn("turn_far_up", "", "turn(10)", "turn", "a large step up; in a recording ten seconds forward"),
    _turn("turn_far_down", "", "turn(-10)", "turn", "a large step down; in a recording ten seconds back"),
    # What-if
    _page("what_if", "w", "what_if", "what if", "simulate the recorded traffic with other settings"),
    _what_if("other", "", "other", "type", "type a value, or any setting as NAME=VALUE"),
    _what_if("scenario", "", "scenario", "from file", "take settings and questions from a scenario file"),
    _what_if("as_recorded", "", "as_recorded", "as recorded", "back to the recorded value"),
    _what_if("apply", "A", "apply", "apply", "apply these settings to the proxy; shows the change first"),
    # Pages
    _page("go_to", "g", "go_to", "journals", "the journals, to play one back; in one to a mark, or a time"),
    _page("overview", "1", "page('overview')", "overview", "slots, curve, windows, circuit, agents, events"),
    _page("agents", "2", "page('agents')", "agents", "every agent, and one of them closer"),
    _page("requests", "3", "page('requests')", "requests", "every request in memory"),
    _page("tuning", "4", "page('tuning')", "tuning", "change limits and retries while agents run"),
    _page("log", "5", "page('log')", "log", "the latest events, line by line"),
    _page("tasks", "6", "page('tasks')", "tasks", "the task graph: what runs, what waits for what"),
    _page("fleet", "7", "page('fleet')", "fleet", "the proxies that share a key: who has what of it", live=True),
    _page("cost", "8", "cost", "cost", "what agents cost; again: what models cost, and trees"),
    _page("start", "0", "page('start')", "connect", "how to point an agent here", live=True),
    _page("back", "escape", "out", "back", "clear the filter, then the marks, then leave the page"),
    # Lists
    _cursor("down", "j,down", "move(1)", "select", "next row (or down arrow)", pair="j k"),
    _cursor("up", "k,up", "move(-1)", "up", "row before (or up arrow)"),
    _cursor("page_down", "pagedown", "move(10)", "", "ten rows down"),
    _cursor("page_up", "pageup", "move(-10)", "", "ten rows up"),
    _cursor("first", "home", "edge(0)", "", "first row; of a recording its beginning"),
    _cursor("last", "end", "edge(-1)", "", "last row; of a recording its end, which it follows"),
    _list("first_row", "", "row(0)", "", "first row", pages=SCROLLED, live=False),
    _list("last_row", "", "row(-1)", "", "last row", pages=SCROLLED, live=False),
    _list("open", "enter", "open", "open", "open it; tuning: type a value; what if: simulate"),
    _list("filter", "slash", "filter", "filter", "filter the list, search the log: words, !not, state:retry"),
    _list("filter_log", "", "filter_log", "filter", "filter the log as you type: words, !not, who:ann", pages=LOG),
    _list("severity", "", "severity", "severity", "all lines, warnings, failures, or a day's changes", pages=LOG),
    _list("find", "n", "find(1)", "next", "to the next match in the log, or mark of a recording", pages=LOG | RECORDED),
    _list("find_newer", "N", "find(-1)", "", "to the match or mark before", pages=LOG | RECORDED),
    _list("sort", "s", "sort(1)", "sort", "sort by the next column", pages=LISTS | COST),
    _list("reverse", "", "reverse", "", "reverse the order", pages=LISTS | COST),
    _list("failing", "exclamation_mark", "jump('failing')", "trouble", "jump to the next in trouble", pages=LISTS),
    _list("slowest", "", "jump('slowest')", "slowest", "jump to the slowest", pages=LISTS),
    _list("dearest", "", "jump('dearest')", "costliest", "jump to the most expensive", pages=LISTS),
    _list("span", "H", "span", "span", "look back 10 min, 1 h, 8 h, 24 h; costs also all", pages=SPANNED),
    _list("by", "", "by", "by", "sum costs by agent, by model or by tree of agents", pages=COST),
    _list("copy", "y", "copy", "copy", "copy the line to export, a request's number, costs as CSV"),
    # Agents and tasks
    _agent("raise", "plus", "send('priority', -1)", "prio", "raise the priority", pages=RANKED, pair="+ -"),
    _agent("lower", "minus", "send('priority', 1)", "prio", "lower the priority", pages=RANKED),
    _agent("boost", "b", "send('boost')", "boost", "put it first for a minute, or end that"),
    _agent("hold", "h", "send('hold')", "hold", "hold its requests, or release them"),
    _agent("budget", "B", "budget", "budget", "set its budget: 500k, $5/day, +50k, none; pool 2M for all"),
    _agent("cut", "X", "cut", "cut", "cut a hung request, or send it again; cancel a task", pages=RANKED),
    _traffic("stop", "x", "stop", "stop", "stop it or all spending, or allow it; says what it costs"),
    _agent("mark", "space", "mark", "mark", "mark it: commands go to all marked agents", pages=TREES),
    _agent("mark_all", "", "mark_all", "", "mark all that are shown, or none", pages=TREES),
    _tree("pin_agent", "", "pin_agent", "keep on top", "keep it on top of the list; again: no longer"),
    _tree("tree", "", "tree", "tree", "show agents under those that started them, or as a flat list"),
    _tree("fold", "", "fold", "fold", "hide the agents below it and show their sums, or unfold"),
    _tree("everywhere", "", "everywhere", "all machines", "show all machines' agents, or this one's", live=True),
    _agent("retry", "", "send('retry')", "retry", "run a failed task again, and what it blocked", pages=TASKS),
    # Lane and knobs
    _steer(
        "less", "left_square_bracket", "send('ceiling', -1)", "max concurrency", "lower max concurrency", pair="[ ]"
    ),
    _steer("more", "right_square_bracket", "send('ceiling', 1)", "max concurrency", "raise max concurrency"),
    _steer("pin", "a", "send('pin')", "fix level", "keep the concurrency level as it is, or let AIMD move it"),
    _steer("circuit", "c", "circuit", "circuit", "set the circuit: automatic, open, closed, probe now"),
    _steer("release", "r", "send('release')", "end wait", "end the provider's wait (Retry-After) or used-up window"),
    _lane("lane", "tab", "lane(1)", "lane", "next lane: another upstream, or another of its credentials"),
    _lane("lane_back", "", "lane(-1)", "", "lane before"),
    _steer("write", "W", "write", "write", "write settings to hivemind.toml; shows the change first", group="tuning"),
    # All traffic
    Key("acknowledge", "A", "alerts", "alerts", "list the alerts, and acknowledge them", "traffic", _NO_WHAT_IF),
    _traffic("note", "", "note", "note", "write a note on the curve, into log, journal and report"),
    _traffic("undo", "u", "undo", "undo", "undo your last change"),
    _traffic("pause", "p", "send('pause')", "pause all", "pause everything, or resume; streams go on"),
    _traffic("drain", "D", "drain", "drain", "refuse requests and finish those in flight, or accept again"),
    Key("quit", "q,ctrl+q,ctrl+c", "leave", "quit", "quit; a proxy of this screen's own drains first", group="traffic"),
    # Screen
    _screen("help", "question_mark", "help", "help", "every key of this page, and the glyphs"),
    _screen("palette", "colon", "palette", "commands", "find a command, or type one: aimd.beta 0.7", listed=False),
    _screen("freeze", "v", "freeze", "freeze view", "freeze the view; the traffic goes on", live=True),
    _screen("theme", "", "theme", "theme", "next theme"),
    _screen("inside", "", "inside", "", "diagnostics of the screen: frames, event loop, memory"),
    _screen("repaint", "", "repaint", "", "repaint everything"),
    _screen("journals", "", "journals", "journals", "list the journals, and play one back"),
    _screen("report", "", "report", "report", "write the report of this run in this folder, as a page"),
    _screen("picture", "", "picture", "picture", "save a picture of the screen in this folder"),
    _screen("demo", "d", "demo", "start the demo", "mock agents on a provider's bad day", pages=START, live=True),
)
FORMER: Mapping[str, str] = {
    **dict.fromkeys(("later", "vary_up", "step_up"), "turn_up"),
    **dict.fromkeys(("earlier", "vary_down", "step_down"), "turn_down"),
    **dict.fromkeys(("far_later", "vary_far_up", "leap_up"), "turn_far_up"),
    **dict.fromkeys(("far_earlier", "vary_far_down", "leap_down"), "turn_far_down"),
    **{"notable": "find", "notable_before": "find_newer", "begin": "first", "finish": "last"},
    **{"longest": "slowest", "cancel": "cut"},
}
"""Ids of 0.4, by which a file may still give keys: what they stood for has one id on all pages now."""
BY_ID = {key.id: key for key in KEYS}
_USUAL = KEYS
_HELD = frozenset({"ctrl", "shift", "alt"})
_NAMED = frozenset(key.value for key in Keys)
_TEXTUALS = frozenset({"quit", "lane", "lane_back", "repaint", "palette"})
"""Keys to which Textual would give a meaning of its own."""


def bindings() -> list[Binding]:
    """Return an app's BINDINGS."""
    return [
        Binding(key.keys, key.action, key.help, id=f"hivemind.{key.id}", show=False, priority=key.id in _TEXTUALS)
        for key in KEYS
        if key.keys
    ]


def remap(keys: Mapping[str, str]) -> Sequence[str]:
    """Give commands, by their ids, other keys in this process's screens, and those that aren't named their usual ones.

    Return the former ids that have no effect any more, because of what else has their key now.
    Raises: ValueError: a key isn't one, or has two meanings on one page.
    """
    former = [name for name in keys if name in FORMER]
    try:
        _remap(keys)
    except ValueError:
        if not former:
            raise
        _remap({name: typed for name, typed in keys.items() if name not in FORMER})
        return former
    return ()


def _remap(keys: Mapping[str, str]) -> None:
    changed: dict[str, str] = {}
    for former, typed in keys.items():
        name, checked = FORMER.get(former, former), _checked(former, typed)
        before = changed.get(name, "").split(",") if name in changed else []
        changed[name] = ",".join(dict.fromkeys((*before, *checked.split(","))))
    free = {partner.id for partner in _USUAL if partner.pair and partner.id in changed}
    fresh = tuple(
        replace(
            key, keys=changed.get(key.id, key.keys), pair="" if key.id in free or _parted(key, changed) else key.pair
        )
        for key in _USUAL
    )
    for page, live in product(FOOTERS, (True, False)):
        taken: dict[str, str] = {}
        for key in fresh:
            for each in key.keys.split(",") if key.keys and key.applies(page, live) else ():
                other = taken.setdefault(each, key.id)
                if other != key.id:
                    name, other = (key.id, other) if key.id in changed else (other, key.id)
                    raise ValueError(
                        f"{name}: {each} is the key of {other} on the page {page}{'' if live else ' of a replay'}"
                    )
    global KEYS
    KEYS = fresh
    BY_ID.update((key.id, key) for key in fresh)


def _parted(key: Key, changed: Mapping[str, str]) -> bool:
    """Return whether one of the keys that the footer shows together has another place now."""
    shown = key.pair.split()
    return bool(shown) and any(each.id in changed and each.shown in shown for each in _USUAL)


def _checked(name: str, typed: str) -> str:
    """Return keys by Textual's names. Raises: ValueError."""
    found = []
    for each in typed.split(",") if typed != "," else [typed]:
        key = each.strip()
        *held, base = key.split("+") if len(key) > 1 else [key]
        known = len(base) == 1 or key_to_character(base) is not None or base in _NAMED
        if not known or not _HELD.issuperset(held):
            raise ValueError(f"{name}: there is no key {key[:20]!r}; write p, P, ctrl+p, f2, space or pagedown")
        found += [binding.key for binding in Binding.make_bindings([Binding(key, "")])]
    return ",".join(found)


def here(view: View) -> list[Key]:
    """Return the keys that mean something on this page."""
    return [key for key in KEYS if key.applies(view.page, view.live) and (key.id != "demo" or view.demo)]


def applies(action: str, arguments: tuple[object, ...], page: str, live: bool = True) -> bool:
    """Return whether an action means anything on this page; one that no key has always does."""
    keys = _BY_ACTION.get((action, arguments), ())
    return not keys or any(key.applies(page, live) for key in keys)


def steers(action: str, arguments: tuple[object, ...]) -> bool:
    """Return whether an action needs a running proxy."""
    keys = _BY_ACTION.get((action, arguments), ())
    return bool(keys) and all(key.live for key in keys)


def parsed(action: str) -> tuple[str, tuple[object, ...]]:
    """Return an action's name and arguments, as the table writes it."""
    name, _, arguments = action.partition("(")
    return name, tuple(literal_eval(f"({arguments.removesuffix(')')},)")) if arguments else ()


_BY_ACTION: dict[tuple[str, tuple[object, ...]], list[Key]] = {}
for _key in KEYS:
    _BY_ACTION.setdefault(parsed(_key.action), []).append(_key)


_FIRST = ("help", "quit")
_STEER = ("pause", "circuit", "less", "pin", "release", "drain")
_STEER_AGENT = ("raise", "boost", "hold", "stop", "cut", "budget")
_FIND = ("filter", "sort", "failing")
_REST = ("undo", "go_to", "what_if", "freeze")
FOOTERS: Mapping[str, Sequence[str]] = {
    "start": ("demo", "down", "copy", "overview"),
    "overview": (
        *("open", "raise", "stop", "hold", "pause", "circuit", "less", "filter", "boost", "cut", "undo", "go_to"),
        *("pin", "budget", "mark", "release", "lane", "drain", "what_if", "sort", "span", "freeze"),
    ),
    "agents": ("open", *_STEER_AGENT, "mark", *_FIND, "pause", "undo"),
    "requests": ("open", *_FIND, "stop", "cut", "hold", "raise", "boost", "budget", "copy", "pause", *_REST),
    "tuning": ("turn_up", "open", "what_if", "undo", "write", "down", *_STEER, "lane"),
    "tasks": ("open", "raise", "cut", "retry", *_FIND, "copy", "pause", *_REST),
    "log": ("filter", "find", "down", "copy", "acknowledge", "pause", *_REST),
    "agent": ("back", "open", *_STEER_AGENT, "undo", *_FIND, "pause"),
    "fleet": ("open", "down", "lane", "copy", *_STEER, *_REST),
    "whatif": ("turn_up", "open", "apply", "back", "write", "copy", "down", "undo", "pause"),
    "cost": ("span", "cost", "sort", "copy", "open", "filter", "stop", "down", "pause", *_REST),
    "request": ("back", "down", "copy", *_STEER_AGENT, "pause", *_REST),
}
"""Ids of keys that have a place on the page, the most needed first, behind those of every page."""
_TIME = ("play", "go_to", "find", "faster", "turn_up")


def footer(view: View) -> list[tuple[int, list[Span]]]:
    """Return chunks for :func:`hivemind_tui.render.pen.fitting`; a click on one does what its key does."""
    urgent = [name for name, ends in _URGENT.items() if ends(view)]
    time = () if view.live else _TIME
    chunks: list[tuple[int, list[Span]]] = []
    for name in dict.fromkeys((*_FIRST, *urgent, "palette", *time, *FOOTERS[view.page])):
        key = BY_ID[name]
        usable = key.keys and key.applies(view.page, view.live)
        if usable and (name not in _AVAILABLE or _AVAILABLE[name](view)):
            label = _LABELS[name](view) if name in _LABELS else key.label
            action = f"app.{key.action}"
            spans = [linked(key.pair or key.shown, "accent", action), linked(f" {label}", "dim", action)]
            chunks.append((len(chunks), spans))
            if name == "undo":  # what it would undo is told where there is room
                text = fit_name(view.undoable, min(_UNDONE, len(view.undoable)))
                chunks.append((len(chunks), [(text, "text")]))
    return chunks


def _chosen(view: View) -> bool:
    return view.page != "requests" or view.ticket != 0


def _hung(view: View) -> bool:
    if view.page in ("requests", "request"):
        return view.request is not None and view.request.state == HUNG
    return any(ticket.state == HUNG for ticket in view.snapshot.slots)


def _task_open(view: View) -> bool:
    return view.task is not None and view.task.state in OPEN


def _paused_by_provider(view: View) -> bool:
    return view.lane is not None and bool(view.lane.state.pauses)


def _searching(view: View) -> bool:
    return view.page == "log" and bool(view.log_search)


def _play(view: View) -> str:
    now = view.playback
    if now is None or not (now.playing or (now.at_end and not now.growing)):
        return "play"
    return "stop" if now.playing else "play again"


def _turned(view: View, on: str, off: str, state: Callable[[AgentView], bool]) -> str:
    return off if view.targets and all(map(state, view.targets)) else on


def _of_agent(view: View, label: str) -> str:
    return f"{label} agent" if view.page in ("requests", "request") else label


def _back(view: View) -> str:
    if view.page == "whatif" and view.what_if.trying:
        return "cancel"
    if view.order.filter:
        return "clear filter"
    if view.page == "log" and view.log_search:
        return "end search"
    return "unmark" if view.marked and view.page in OF_AGENTS else "back"


_LABELS: Mapping[str, Callable[[View], str]] = {
    "play": _play,
    "back": _back,
    "filter": lambda view: "search" if view.page == "log" else "filter",
    "open": lambda view: {"tuning": "type", "whatif": "simulate"}.get(view.page, "open"),
    "boost": lambda view: _turned(view, "boost", "unboost", lambda agent: agent.boosted_for_s > 0),
    "hold": lambda view: _of_agent(view, _turned(view, "hold", "release", lambda agent: agent.held)),
    "span": lambda view: view.back.words(view.page),
    "cost": lambda view: f"by {view.back.by}" if view.page == "cost" else "cost",
    "stop": lambda view: (
        "stop" if view.following else _of_agent(view, _turned(view, "stop", "allow", lambda agent: agent.stopped))
    ),
    "pin": lambda view: "free level" if view.lane is not None and view.lane.state.pinned else "fix level",
    "cut": lambda view: "cancel" if view.page == "tasks" else "cut",
    "go_to": lambda view: "journals" if view.live else "go to mark",
    "find": lambda view: "next match" if _searching(view) else "next mark",
    "turn_up": lambda view: "turn" if view.live or view.page == "whatif" else "step",
    "pause": lambda view: "resume all" if view.snapshot.mode == "paused" else "pause all",
    "drain": lambda view: "accept requests" if view.snapshot.mode == "draining" else "drain, refuse new",
    "freeze": lambda view: "unfreeze view" if view.frozen else "freeze view",
}
"""Labels of keys whose effect depends on the view."""
_AVAILABLE: Mapping[str, Callable[[View], bool]] = {
    "apply": lambda view: bool(view.what_if.changes),
    "raise": lambda view: _task_open(view) if view.page == "tasks" else _chosen(view),
    "boost": _chosen,
    "hold": _chosen,
    "budget": _chosen,
    "stop": _chosen,
    "cut": lambda view: _task_open(view) if view.page == "tasks" else _hung(view),
    "retry": lambda view: view.task is not None and view.task.state in RETRIED,
    "release": _paused_by_provider,
    "lane": lambda view: len(view.fleet.lanes if view.page == "fleet" else view.snapshot.lanes) > 1,
    "write": lambda view: bool(view.what_if.knobs if view.page == "whatif" else view.untuned),
    "acknowledge": lambda view: bool(unacknowledged(view.snapshot.alerts)),
    "find": lambda view: _searching(view) or (view.playback is not None and bool(view.playback.marks)),
    "undo": lambda view: bool(view.undoable),
    "demo": lambda view: view.demo,
}
"""Whether a key would have any effect now; those that aren't listed always have."""
_URGENT: Mapping[str, Callable[[View], bool]] = {
    "back": lambda view: _back(view) != "back",
    "release": _paused_by_provider,
    "pause": lambda view: view.snapshot.mode == "paused",
    "drain": lambda view: view.snapshot.mode == "draining",
    "acknowledge": lambda view: bool(unacknowledged(view.snapshot.alerts)),
    "cut": lambda view: view.page != "tasks" and _hung(view),
    "freeze": lambda view: view.frozen,
}
"""Whether a key ends something that holds requests up or hides something, and so comes first."""
