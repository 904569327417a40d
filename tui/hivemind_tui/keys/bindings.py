"""What the keys mean at this moment: which of them mean nothing, which matter most, and what each would do now."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.scheduler.tasks.graph import OPEN, SPOILED
from hivemind_tui.state.view import OF_AGENTS, View

OF_ONE_REQUEST = frozenset({"requests", "request"})
"""Pages on which a command on agents is for the agent of the selected request."""


def absent(view: View) -> frozenset[str]:
    """Keys that the help needn't tell of: what they stand for isn't there."""
    return frozenset() if view.demo else frozenset({"demo"})


def idle(view: View) -> frozenset[str]:
    """Keys that would do nothing now; those of :func:`absent` among them."""
    lane = view.lane
    chosen = view.page != "requests" or view.ticket != 0
    conditions = {
        **dict.fromkeys(("raise", "boost", "hold", "stop", "budget"), chosen),
        "release": lane is not None and lane.state.parked_for_s > 0,
        "lane": len(view.snapshot.lanes) > 1,
        "undo": view.undoable,
        "tree": any(agent.parent for agent in view.snapshot.agents),
        "fold": bool(view.branches),
        "write": bool(view.untuned),
    }
    now = view.playback
    if now is not None:
        conditions["unloop"] = now.loop_from is not None or now.loop_to is not None
        conditions["notable"] = bool(now.marks)
    if view.page == "whatif":
        changed = bool(view.sheet.changes)
        conditions |= {"apply": changed, "as_recorded": changed, "write": bool(view.sheet.knobs)}
    if view.page == "tasks":
        task = view.task
        open_ = task is not None and task.state in OPEN
        conditions |= {"raise": open_, "cancel": open_, "retry": task is not None and task.state in SPOILED}
    return absent(view) | {name for name, applies in conditions.items() if not applies}


def pressing(view: View) -> tuple[str, ...]:
    """Keys that take back what holds everything up, or what hides something: they come before all others."""
    lane = view.lane
    conditions = {
        "pause": view.snapshot.mode == "paused",
        "drain": view.snapshot.mode == "draining",
        "freeze": view.frozen,
        "release": lane is not None and lane.state.parked_for_s > 0,
        "back": bool(_peeled(view)),
    }
    return tuple(name for name, applies in conditions.items() if applies)


def words(view: View) -> Mapping[str, str]:
    """By key, what it would do now, where that isn't what it usually does."""
    targets, lane = view.targets, view.lane
    whose = " agent" if view.page in OF_ONE_REQUEST else ""
    now = view.playback
    return {
        "play": "stop"
        if now is not None and now.playing
        else "again"
        if now is not None and now.at_end and not now.growing
        else "play",
        "pause": "resume all" if view.snapshot.mode == "paused" else "freeze all",
        "drain": "take requests" if view.snapshot.mode == "draining" else "drain",
        "freeze": "move on" if view.frozen else "still view",
        "hold": ("let go" if targets and all(agent.paused for agent in targets) else "hold") + whose,
        "stop": ("allow" if targets and all(agent.stopped for agent in targets) else "stop") + whose,
        "boost": "unboost" if targets and all(agent.boosted_for_s > 0 for agent in targets) else "boost",
        "pin": "give to AIMD" if lane is not None and lane.state.pinned else "pin level",
        "tree": "flat list" if view.branches else "tree",
        "fold": "unfold" if view.agent is not None and view.agent.name in view.folded else "fold",
        "open": {"tuning": "type", "whatif": "simulate"}.get(view.page, "open"),
        "back": _peeled(view) or "back",
    }


def _peeled(view: View) -> str:
    """What escape would take away before it leaves the page."""
    if view.page == "whatif" and view.sheet.trying:
        return "cancel"
    if view.filter:
        return "clear filter"
    if view.marked and view.page in OF_AGENTS:
        return "unmark"
    return ""
