"""Every key, once: bindings, footer, help, palette and the manual are made from this table."""

from __future__ import annotations

from hivemind.scheduler.tasks.graph import OPEN, SPOILED
from hivemind_tui.keys.key import AGENTS, LISTS, RANKED, SCROLLED, TASKS, TREES, TUNING, WHAT_IF, Key
from hivemind_tui.state.view import OF_AGENTS, View

# --- What keys do at the moment ------------------------------------------------------------------------------------


def _chosen(view: View) -> bool:
    return view.page != "requests" or view.ticket != 0


def _task_open(view: View) -> bool:
    return view.task is not None and view.task.state in OPEN


def _priority_applies(view: View) -> bool:
    return _task_open(view) if view.page == "tasks" else _chosen(view)


def _paused_by_provider(view: View) -> bool:
    return view.lane is not None and view.lane.state.parked_for_s > 0


def _to_write(view: View) -> bool:
    return bool(view.what_if.knobs if view.page == "whatif" else view.untuned)


def _looped(view: View) -> bool:
    now = view.playback
    return now is not None and (now.loop_from is not None or now.loop_to is not None)


def _of_agent(label: str, view: View) -> str:
    return f"{label} agent" if view.page in ("requests", "request") else label


def _hold(view: View) -> str:
    return _of_agent("release" if view.targets and all(agent.paused for agent in view.targets) else "hold", view)


def _stop(view: View) -> str:
    return _of_agent("allow" if view.targets and all(agent.stopped for agent in view.targets) else "stop", view)


def _boost(view: View) -> str:
    return "unboost" if view.targets and all(agent.boosted_for_s > 0 for agent in view.targets) else "boost"


def _pin(view: View) -> str:
    return "unpin limit" if view.lane is not None and view.lane.state.pinned else "pin limit"


def _play(view: View) -> str:
    now = view.playback
    if now is None or not (now.playing or (now.at_end and not now.growing)):
        return "play"
    return "stop" if now.playing else "play again"


def _fold(view: View) -> str:
    return "unfold" if view.agent is not None and view.agent.name in view.folded else "fold"


def _open(view: View) -> str:
    return {"tuning": "type", "whatif": "simulate"}.get(view.page, "open")


def _back(view: View) -> str:
    if view.page == "whatif" and view.what_if.trying:
        return "cancel"
    if view.filter:
        return "clear filter"
    return "unmark" if view.marked and view.page in OF_AGENTS else "back"


# --- The table -----------------------------------------------------------------------------------------------------

_RECORDING = (
    Key("play", "space", "play", "play", "play, or stop", "time", live=False, label_now=_play),
    Key("later", "right", "step(1)", "step", "a second forward", "time", live=False, pair="left right"),
    Key("earlier", "left", "step(-1)", "step", "a second back", "time", live=False),
    Key("far_later", "shift+right", "step(10)", "", "ten seconds forward", "time", live=False),
    Key("far_earlier", "shift+left", "step(-10)", "", "ten seconds back", "time", live=False),
    Key("event", "full_stop", "event(1)", "event", "to the next event", "time", live=False, pair=", ."),
    Key("event_before", "comma", "event(-1)", "event", "to the event before", "time", live=False),
    Key("faster", "greater_than_sign", "speed(1)", "speed", "faster, up to x64", "time", live=False, pair="< >"),
    Key("slower", "less_than_sign", "speed(-1)", "speed", "slower, down to x0.25", "time", live=False),
    Key(
        *("notable", "n", "notable(1)", "next mark", "to the next mark of the timeline", "time"),
        live=False,
        available=lambda view: view.playback is None or bool(view.playback.marks),
    ),
    Key("notable_before", "N", "notable(-1)", "", "to the mark before", "time", live=False),
    Key("play_to_mark", "m", "play_to_mark", "play to mark", "play to the next mark and stop", "time", live=False),
    Key("kinds", "f", "kinds", "marks", "choose the kinds of marks to show", "time", live=False),
    Key("go_to", "g", "go_to", "go to", "to a time: 14:02, 14:02:30, +90s, -2m, 50%", "time", live=False),
    Key("begin", "home", "begin", "", "to the beginning", "time", live=False),
    Key("finish", "end", "finish", "", "to the end; follow a recording that grows", "time", live=False),
    Key("loop_from", "left_square_bracket", "loop(0)", "loop", "begin a loop here", "time", live=False, pair="[ ]"),
    Key("loop_to", "right_square_bracket", "loop(1)", "loop", "end the loop here, and repeat it", "time", live=False),
    Key("unloop", "backslash", "unloop", "no loop", "remove the loop", "time", live=False, available=_looped),
    Key("picture", "e", "picture", "picture", "save a picture of this moment in this folder", "screen", live=False),
    Key("first_row", "ctrl+home", "edge(0)", "", "first row", "lists", SCROLLED, live=False),
    Key("last_row", "G,ctrl+end", "edge(-1)", "", "last row", "lists", SCROLLED, live=False),
    Key("longest", "L", "jump('slowest')", "slowest", "jump to the slowest", "lists", LISTS, live=False),
)
"""The last ones have another key on a live screen, which on a recording moves in time."""

_WHAT_IF = (
    Key("what_if", "w", "what_if", "what if", "simulate the recorded traffic with other settings", "pages"),
    Key("vary_up", "right", "vary(1)", "turn", "turn the setting up", "what if", WHAT_IF, pair="left right"),
    Key("vary_down", "left", "vary(-1)", "less", "turn the setting down", "what if", WHAT_IF),
    Key("vary_far_up", "shift+right", "vary(10)", "", "turn it up by a large step", "what if", WHAT_IF),
    Key("vary_far_down", "shift+left", "vary(-10)", "", "turn it down by a large step", "what if", WHAT_IF),
    Key("other", "o", "other", "type", "type a value, or any setting as NAME=VALUE", "what if", WHAT_IF),
    Key(
        *("as_recorded", "backspace,delete", "as_recorded", "as recorded", "back to the recorded value", "what if"),
        WHAT_IF,
        available=lambda view: bool(view.what_if.changes),
    ),
    Key(
        *("apply", "A", "apply", "apply", "apply these settings to the proxy; shows the change first", "what if"),
        WHAT_IF,
        available=lambda view: bool(view.what_if.changes),
    ),
)

_PAGES = (
    Key("overview", "1", "page('overview')", "overview", "slots, curve, windows, circuit, agents, events", "pages"),
    Key("agents", "2", "page('agents')", "agents", "every agent, and one of them closer", "pages"),
    Key("requests", "3", "page('requests')", "requests", "every request in memory", "pages"),
    Key("tuning", "4", "page('tuning')", "tuning", "change limits and retries while agents run", "pages"),
    Key("log", "5", "page('log')", "log", "the latest events, line by line", "pages"),
    Key("tasks", "6", "page('tasks')", "tasks", "the task graph: what runs, what waits for what", "pages"),
    Key(
        *("start", "0", "page('start')", "connect", "how to point an agent here", "pages"),
        live=True,
        name="connect",
        words="url export setup",
    ),
    Key(
        *("back", "escape", "out", "back", "clear the filter, then the marks, then leave the page", "pages"),
        label_now=_back,
        urgent=lambda view: _back(view) != "back",
    ),
)
_LISTS = (
    Key("down", "j,down", "move(1)", "select", "next row (or down arrow)", "lists", SCROLLED, listed=False, pair="j k"),
    Key("up", "k,up", "move(-1)", "up", "row before (or up arrow)", "lists", SCROLLED, listed=False),
    Key("page_down", "ctrl+d,pagedown", "move(10)", "", "ten rows down", "lists", SCROLLED, listed=False),
    Key("page_up", "ctrl+u,pageup", "move(-10)", "", "ten rows up", "lists", SCROLLED, listed=False),
    Key("first", "g,home", "edge(0)", "", "first row", "lists", SCROLLED, live=True, listed=False),
    Key("last", "G,end", "edge(-1)", "", "last row", "lists", SCROLLED, live=True, listed=False),
    Key(
        *("open", "enter", "open", "open", "open it; tuning: type a value; what if: simulate", "lists"),
        label_now=_open,
    ),
    Key("filter", "slash", "filter", "filter", "filter the list as you type: words, !not, state:retry", "lists"),
    Key("sort", "s", "sort(1)", "sort", "sort by the next column", "lists", LISTS),
    Key("reverse", "S", "reverse", "", "reverse the order", "lists", LISTS),
    Key("failing", "exclamation_mark", "jump('failing')", "failing", "jump to the next failure", "lists", LISTS),
    Key(
        *("slowest", "greater_than_sign", "jump('slowest')", "slowest", "jump to the slowest", "lists", LISTS),
        live=True,
    ),
    Key(
        *("dearest", "dollar_sign", "jump('dearest')", "costliest", "jump to the most expensive", "lists", LISTS),
        name="most expensive",
        words="dearest cost",
    ),
    Key("copy", "y", "copy", "copy", "copy the line to export, or a request's number", "lists"),
)
_OF_AGENTS = (
    Key(
        *("raise", "plus,equals_sign", "send('priority', -1)", "priority", "raise the priority", "agents", RANKED),
        live=True,
        name="priority up",
        words="nice urgent",
        pair="+ -",
        available=_priority_applies,
    ),
    Key(
        *("lower", "minus", "send('priority', 1)", "priority", "lower the priority", "agents", RANKED),
        live=True,
        name="priority down",
        words="nice",
    ),
    Key(
        *("boost", "b", "send('boost')", "boost", "put it first for a minute, or end that", "agents", AGENTS),
        live=True,
        label_now=_boost,
        available=_chosen,
    ),
    Key(
        *("hold", "h", "send('hold')", "hold", "hold its requests, or release them", "agents", AGENTS),
        live=True,
        words="pause resume agent let go",
        label_now=_hold,
        available=_chosen,
    ),
    Key(
        *("budget", "B", "budget", "budget", "set its budget: 500k, $5/day, +50k, none; pool 2M for all", "agents"),
        AGENTS,
        live=True,
        available=_chosen,
    ),
    Key(
        *("stop", "x", "stop", "stop", "stop it, or allow it again; says first what is lost", "agents", AGENTS),
        live=True,
        words="kill allow agent",
        label_now=_stop,
        available=_chosen,
    ),
    Key("mark", "space", "mark", "mark", "mark it: commands go to all marked agents", "agents", TREES, live=True),
    Key("mark_all", "asterisk", "mark_all", "", "mark all that are shown, or none", "agents", TREES, live=True),
    Key(
        *("tree", "T", "tree", "tree", "show agents under those that started them, or as a flat list", "agents", TREES),
        label_now=lambda view: "flat list" if view.branches else "tree",
        available=lambda view: any(agent.parent for agent in view.snapshot.agents),
    ),
    Key(
        *("fold", "z", "fold", "fold", "hide the agents below it and show their sums, or unfold", "agents", TREES),
        label_now=_fold,
        available=lambda view: bool(view.branches),
    ),
    Key(
        *("cancel", "X", "cancel", "cancel", "cancel the task; says first what can't run without it", "tasks", TASKS),
        live=True,
        available=_task_open,
    ),
    Key(
        *("retry", "R", "send('retry')", "retry", "run a failed task again, and what it blocked", "tasks", TASKS),
        live=True,
        available=lambda view: view.task is not None and view.task.state in SPOILED,
    ),
)
_LANE = (
    Key(
        *("less", "left_square_bracket", "send('ceiling', -1)", "ceiling", "lower the concurrency ceiling", "lane"),
        live=True,
        name="ceiling down",
        pair="[ ]",
    ),
    Key(
        *("more", "right_square_bracket", "send('ceiling', 1)", "ceiling", "raise the concurrency ceiling", "lane"),
        live=True,
        name="ceiling up",
    ),
    Key(
        *("pin", "a", "send('pin')", "pin limit", "pin the concurrency limit, or give it back to AIMD", "lane"),
        live=True,
        name="pin limit",
        words="auto aimd level unpin",
        label_now=_pin,
    ),
    Key(
        *("circuit", "c", "circuit", "circuit", "set the circuit: automatic, open, closed, probe now", "lane"),
        live=True,
    ),
    Key(
        *("release", "r", "send('release')", "end pause", "end the provider's pause or used-up window", "lane"),
        live=True,
        name="end pause",
        words="release",
        available=_paused_by_provider,
        urgent=_paused_by_provider,
    ),
    Key(
        *("lane", "tab", "lane(1)", "lane", "next lane", "lane"),
        name="next lane",
        available=lambda view: len(view.snapshot.lanes) > 1,
    ),
    Key("lane_back", "shift+tab", "lane(-1)", "", "lane before", "lane", name="lane before"),
    Key(
        *("step_up", "right", "send('turn', 1)", "turn", "turn the knob up", "tuning", TUNING),
        live=True,
        name="knob up",
        pair="left right",
    ),
    Key(
        "step_down",
        "left",
        "send('turn', -1)",
        "less",
        "turn the knob down",
        "tuning",
        TUNING,
        live=True,
        name="knob down",
    ),
    Key(
        *("leap_up", "shift+right", "send('turn', 10)", "", "turn it up by a large step", "tuning", TUNING),
        live=True,
        name="knob far up",
    ),
    Key(
        *("leap_down", "shift+left", "send('turn', -10)", "", "turn it down by a large step", "tuning", TUNING),
        live=True,
        name="knob far down",
    ),
    Key(
        *("write", "W", "write", "write", "write tuned knobs to hivemind.toml; shows the change first", "tuning"),
        live=True,
        available=_to_write,
    ),
)
_TRAFFIC = (
    Key("undo", "u", "undo", "undo", "undo your last change", "traffic", live=True, available=lambda v: v.undoable),
    Key(
        *("pause", "p", "send('pause')", "pause all", "pause admissions, or resume; streams go on", "traffic"),
        live=True,
        name="pause all",
        words="freeze all resume admissions",
        label_now=lambda view: "resume all" if view.snapshot.mode == "paused" else "pause all",
        urgent=lambda view: view.snapshot.mode == "paused",
    ),
    Key(
        *("drain", "D", "drain", "drain", "refuse requests and finish those in flight, or accept again", "traffic"),
        live=True,
        words="accept take requests",
        label_now=lambda view: "accept requests" if view.snapshot.mode == "draining" else "drain",
        urgent=lambda view: view.snapshot.mode == "draining",
    ),
    Key(
        *("quit", "q,ctrl+q,ctrl+c", "leave", "quit", "quit; a proxy of this screen's own drains first", "traffic"),
        words="exit leave",
    ),
)
_SCREEN = (
    Key("help", "question_mark", "help", "help", "every key of this page, and the glyphs", "screen"),
    Key(
        *("palette", "colon,ctrl+p", "palette", "commands", "find a command, or type one: aimd.beta 0.7", "screen"),
        listed=False,
    ),
    Key(
        *("freeze", "v", "freeze", "freeze view", "freeze the view; the traffic goes on", "screen"),
        live=True,
        name="freeze view",
        words="still unfreeze",
        label_now=lambda view: "unfreeze view" if view.frozen else "freeze view",
        urgent=lambda view: view.frozen,
    ),
    Key("theme", "t", "theme", "theme", "next theme", "screen"),
    Key(
        *("inside", "i", "inside", "", "diagnostics of the screen: frames, event loop, memory", "screen"),
        name="diagnostics",
        words="inside the screen",
    ),
    Key("repaint", "ctrl+l", "repaint", "", "repaint everything", "screen"),
    Key(
        *("demo", "d", "demo", "start the demo", "mock agents on a provider's bad day", "screen"),
        frozenset({"start"}),
        live=True,
        available=lambda view: view.demo,
    ),
)
KEYS = (*_RECORDING, *_WHAT_IF, *_PAGES, *_LISTS, *_OF_AGENTS, *_LANE, *_TRAFFIC, *_SCREEN)
"""Those of a recording first: Textual asks them in this order, where a key has a meaning on either screen."""
BY_ID = {key.id: key for key in KEYS}
