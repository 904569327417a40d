"""`hivemind fleet`: the proxies that share a key, and who has what of it."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from hivemind.cli import client
from hivemind.cli.plugin import Command
from hivemind.console import printable
from hivemind.errors import HiveMindError
from hivemind.text.humanise import count, duration, plural
from hivemind.text.table import Cell, TextColumn, lines, styled, width, wrapped
from hivemind.world.fleet import Fleet, FleetLane, Member, Taken

NONE = "this proxy is in no fleet; proxies that share a key join one with --fleet redis://HOST"
_MEMBERS = (
    TextColumn("PROXY", cut=True),
    TextColumn("STATE"),
    TextColumn("AGENTS", right=True, spare=3),
    TextColumn("IN FLIGHT", right=True),
    TextColumn("WAITING", right=True, spare=1),
    TextColumn("LEASE", right=True, spare=2),
    TextColumn("SEEN", right=True, spare=5),
    TextColumn("VERSION", spare=6),
    TextColumn("ADDRESS", cut=True, spare=4),
)
_STATES = {"leased": "good", "idle": "dim", "alone": "bad", "silent": "bad", "unknown": "dim"}
_KINDS = {"requests": "REQUESTS", "input": "INPUT", "output": "OUTPUT", "tokens": "TOKENS"}


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fleet", metavar="URL", help="ask this store, as redis://HOST, in place of a proxy")
    client.add_flags(parser)


def _run(namespace: argparse.Namespace) -> int:
    fleet = _asked(namespace.fleet) if namespace.fleet else client.find_proxy(namespace).get("/fleet", Fleet)
    if not fleet.store and not client.wants_json(namespace):
        raise HiveMindError(NONE)
    return client.print_answer(namespace, fleet, shown(fleet, width()))


def _asked(url: str) -> Fleet:
    """Return what the store knows. Raises: UsageError: the URL can't be one; StoreError: the store doesn't answer."""
    from hivemind.fleet.presence import Viewer
    from hivemind.fleet.store import FleetStore
    from hivemind.world.fleet import gathered

    async def ask() -> Fleet:
        store = FleetStore(url, name="hivemind-fleet")
        try:
            return gathered(await Viewer(store).members(), store=store.shown)
        finally:
            await store.aclose()

    return asyncio.run(ask())


def shown(fleet: Fleet, room: int | None) -> list[str]:
    """Return the lines that are shown."""
    head = f"fleet at {printable(fleet.store)}: {plural(len(fleet.members), 'proxy', 'proxies')}"
    text = wrapped(head, room)
    if fleet.me:
        text.append(f"this one is {styled(fleet.state, _STATES.get(fleet.state, 'warn'))}")
    if fleet.away:
        text.append(styled(printable(fleet.away), "bad"))
    if not fleet.members:
        return [*text, "no proxy is there; one joins with hivemind proxy --fleet, and this URL"]
    text += ["", *lines(_MEMBERS, [_member(each, fleet) for each in fleet.members], room)]
    for lane in fleet.lanes:
        text += ["", *_lane(lane, room)]
    return text


def _member(member: Member, fleet: Fleet) -> list[Cell | str]:
    state = fleet.state_of(member)
    age = member.lease_age_s
    return [
        Cell(member.label, "bold" if member.id == fleet.me else ""),
        Cell(state, _STATES.get(state, "warn")),
        str(member.agents),
        str(member.in_flight),
        str(member.waiting),
        "" if age is None else duration(age),
        duration(member.seen_s),
        member.version,
        member.address,
    ]


def _lane(lane: FleetLane, room: int | None) -> list[str]:
    of = "no limit of slots" if lane.level is None else f"{lane.in_flight} of {int(lane.level)} slots"
    head = f"key {printable(lane.shown)}: {of}, {lane.waiting} waiting; used in the last minute"
    several = len({window.family for window in lane.windows}) > 1
    columns = [
        TextColumn("PROXY", cut=True),
        TextColumn("IN FLIGHT", right=True, spare=2),
        TextColumn("SLOTS", right=True, spare=3),
        TextColumn("WAITING", right=True, spare=4),
        TextColumn("DEMAND", right=True),
        TextColumn("SHARE", right=True),
        *(
            TextColumn(
                _KINDS.get(each.kind, each.kind.upper()) + (f" {each.family}" if several else ""), right=True, spare=1
            )
            for each in lane.windows
        ),
    ]
    rows: list[Sequence[Cell | str]] = [_taken(each) for each in lane.taken]
    if len(rows) > 1:
        rows.append(_sum(lane))
    return [*wrapped(head, room), *lines(columns, rows, room)]


def _taken(taken: Taken) -> list[Cell | str]:
    return [
        taken.label,
        str(taken.in_flight),
        "" if taken.slots is None else f"{int(taken.slots)}",
        str(taken.waiting),
        _percent(taken.demand),
        _percent(taken.share),
        *(count(used) for used in taken.used),
    ]


def _percent(part: float) -> str:
    return f"{part:.0%}".replace("%", " %")


def _sum(lane: FleetLane) -> list[Cell | str]:
    used = [
        count(each.used) if each.limit is None else f"{count(each.used)}/{count(each.limit)}" for each in lane.windows
    ]
    level = "" if lane.level is None else f"{int(lane.level)}"
    row = ["all", str(lane.in_flight), level, str(lane.waiting), "", "", *used]
    return [Cell(each, "bold") for each in row]


command = Command(_configure, _run)
