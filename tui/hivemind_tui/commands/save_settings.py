"""Writing what was tuned to the settings file, after a look at the difference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from hivemind.scheduler.commands import Rejected
from hivemind.settings.write import Draft
from hivemind_tui.commands import dialogs
from hivemind_tui.render.dials import tuned
from hivemind_tui.render.format import clean

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom


async def write_down(app: ControlRoom) -> None:
    """Write what was turned, on the what-if page what is changed there, if the operator says so."""
    if app.view.page == "whatif":
        await offer(app, dict(app.view.sheet.knobs))
        return
    lane = app.view.lane
    if lane is None:
        app.complain("no lane yet: nothing was tuned")
        return
    await offer(app, tuned(app.view.untuned.get(lane.state.upstream, {}), dict(lane.state.knobs)), lane.state.upstream)


async def offer(app: ControlRoom, values: Mapping[str, float], upstream: str = "") -> None:
    """Draft, show the difference, and write it if the operator says so.

    `upstream`: whose knobs they are; empty: every upstream's.
    """
    if not values:
        app.complain("nothing was turned here, so there is nothing to write")
        return
    try:
        draft = await app.source.draft(values)
    except Rejected as rejected:
        app.complain(f"nothing to write to: {rejected}")
        return
    if not draft.diff:
        app.complain(f"{draft.path} says so already")
        return
    write = partial(_write, app, draft, frozenset(values), upstream)
    app.ask("Write the settings?", dialogs.write_question(draft), {"y": lambda: app.run_worker(write(), group="write")})


async def _write(app: ControlRoom, draft: Draft, knobs: frozenset[str], upstream: str) -> None:
    try:
        await app.source.write(draft)
    except Rejected as rejected:
        app.complain(f"not written: {rejected}")
        return
    turned = app.view.untuned
    for each in [upstream] if upstream else [name for name in turned if turned[name].keys() <= knobs]:
        app.wrote(each)
    app.notify(f"wrote {clean(str(draft.path))}", markup=False)
