"""The keys that the footer of each page shows, the most needed first: a narrow footer drops the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hivemind.scheduler.tasks import OPEN, SPOILED
from hivemind.world.snapshot import AgentView
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.render.pen import Span, linked
from hivemind_tui.state.view import OF_AGENTS, View

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
"""Ids of keys, by page of a live screen."""

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
"""Ids of keys, by page of a recording."""


def footer(view: View) -> list[tuple[int, list[Span]]]:
    """Return chunks for :func:`hivemind_tui.render.pen.fitting`; a click on one does what its key does."""
    help_, quit_, *names = (FOOTERS if view.live else REPLAY_FOOTERS)[view.page]
    urgent = [name for name, ends in _URGENT.items() if BY_ID[name].applies(view.page, view.live) and ends(view)]
    chunks: list[tuple[int, list[Span]]] = []
    for name in (help_, quit_, *urgent, *(name for name in names if name not in urgent)):
        if name not in _AVAILABLE or _AVAILABLE[name](view):
            key = BY_ID[name]
            label = _LABELS[name](view) if name in _LABELS else key.label
            action = f"app.{key.action}"
            spans = [linked(key.pair or key.shown, "accent", action), linked(f" {label}", "dim", action)]
            chunks.append((len(chunks), spans))
    return chunks


def _chosen(view: View) -> bool:
    return view.page != "requests" or view.ticket != 0


def _task_open(view: View) -> bool:
    return view.task is not None and view.task.state in OPEN


def _paused_by_provider(view: View) -> bool:
    return view.lane is not None and view.lane.state.parked_for_s > 0


def _looped(view: View) -> bool:
    now = view.playback
    return now is not None and (now.loop_from is not None or now.loop_to is not None)


def _play(view: View) -> str:
    now = view.playback
    if now is None or not (now.playing or (now.at_end and not now.growing)):
        return "play"
    return "stop" if now.playing else "play again"


def _turned(view: View, on: str, off: str, state: Callable[[AgentView], bool]) -> str:
    """Return what a key does to the agents: turn a state off where all have it, else on."""
    return off if view.targets and all(map(state, view.targets)) else on


def _of_agent(view: View, label: str) -> str:
    return f"{label} agent" if view.page in ("requests", "request") else label


def _back(view: View) -> str:
    if view.page == "whatif" and view.what_if.trying:
        return "cancel"
    if view.filter:
        return "clear filter"
    return "unmark" if view.marked and view.page in OF_AGENTS else "back"


_LABELS: Mapping[str, Callable[[View], str]] = {
    "play": _play,
    "back": _back,
    "open": lambda view: {"tuning": "type", "whatif": "simulate"}.get(view.page, "open"),
    "boost": lambda view: _turned(view, "boost", "unboost", lambda agent: agent.boosted_for_s > 0),
    "hold": lambda view: _of_agent(view, _turned(view, "hold", "release", lambda agent: agent.paused)),
    "stop": lambda view: _of_agent(view, _turned(view, "stop", "allow", lambda agent: agent.stopped)),
    "tree": lambda view: "flat list" if view.branches else "tree",
    "fold": lambda view: "unfold" if view.agent is not None and view.agent.name in view.folded else "fold",
    "pin": lambda view: "unpin limit" if view.lane is not None and view.lane.state.pinned else "pin limit",
    "pause": lambda view: "resume all" if view.snapshot.mode == "paused" else "pause all",
    "drain": lambda view: "accept requests" if view.snapshot.mode == "draining" else "drain",
    "freeze": lambda view: "unfreeze view" if view.frozen else "freeze view",
}
"""Labels of keys whose effect depends on the view."""
_AVAILABLE: Mapping[str, Callable[[View], bool]] = {
    "notable": lambda view: view.playback is None or bool(view.playback.marks),
    "unloop": _looped,
    "as_recorded": lambda view: bool(view.what_if.changes),
    "apply": lambda view: bool(view.what_if.changes),
    "raise": lambda view: _task_open(view) if view.page == "tasks" else _chosen(view),
    "boost": _chosen,
    "hold": _chosen,
    "budget": _chosen,
    "stop": _chosen,
    "tree": lambda view: any(agent.parent for agent in view.snapshot.agents),
    "fold": lambda view: bool(view.branches),
    "cancel": _task_open,
    "retry": lambda view: view.task is not None and view.task.state in SPOILED,
    "release": _paused_by_provider,
    "lane": lambda view: len(view.snapshot.lanes) > 1,
    "write": lambda view: bool(view.what_if.knobs if view.page == "whatif" else view.untuned),
    "undo": lambda view: view.undoable,
    "demo": lambda view: view.demo,
}
"""Whether a key would have any effect now; those that aren't listed always have."""
_URGENT: Mapping[str, Callable[[View], bool]] = {
    "back": lambda view: _back(view) != "back",
    "release": _paused_by_provider,
    "pause": lambda view: view.snapshot.mode == "paused",
    "drain": lambda view: view.snapshot.mode == "draining",
    "freeze": lambda view: view.frozen,
}
"""Whether a key ends something that holds requests up or hides something, and so comes first."""
