"""How the allocator divides a rate window between the members that want some of it."""

from __future__ import annotations

import math

from fleet.model.allocation.state import (
    CLASSES,
    EPS,
    PERIOD_S,
    SPARE,
    MemberWindow,
    State,
    ages,
    fill,
    held,
    limit_of,
    used_in_minute,
    weight,
)

from hivemind.fleet.messages import SYNC_S

OVERDUE_S = 60.0
"""A member that waits for so long without being given anything is next in its class, as an agent in the local queue;
room for a large request gathers only so."""
MAX_SHARE = 0.9
"""A request larger than this share of a limit needs only so much, as locally, or it would never be sent."""
RESERVE = 0.01
"""Share of a limit that only CRITICAL is given, as long as there are such requests: a full window frees little in any
one second."""
RESERVED_FOR_S = 120.0
"""After the last CRITICAL request."""


def share_window(state: State, name: str, me: str, now: float, kick: set[str]) -> float:
    """Return the credits that a member gets of a window.

    Class by class: one whose unmet demand fits is met whole, whoever of it syncs. The first that doesn't (the marginal
    one) is shared through accounts (:func:`share_margin`), and nothing is left for those below.
    """
    window, mine = state.windows[name], state.members[me].windows[name]
    limit = limit_of(state, name)
    if limit is None:
        window.marginal = -1
        return max(0.0, sum(mine.wanted) - mine.left)
    shift = ages(window.served_at, now)
    needs = {each: needs_of(state.members[each].windows.get(name), shift) for each in sorted(state.members)}
    room = room_of(state, name, limit, now)
    closed = now < state.pause_until or now < state.learn_until
    give, marginal = 0.0, -1
    whole_until = SPARE + 1
    for cls in range(SPARE + 1):
        if cls == 1 and now - state.critical_at < RESERVED_FOR_S:
            room = max(0.0, room - RESERVE * limit)
        total = sum(need[cls] for need in needs.values())
        if total > room + EPS:
            marginal = whole_until = cls
            break
        room -= total
        give += needs[me][cls]
    if closed:
        return 0.0
    part = 0.0
    if marginal >= 0:
        part = share_margin(state, name, needs, marginal, room, give, limit, shift, me, now, kick)
    else:
        for each in state.members.values():
            if name in each.windows:
                each.windows[name].due = 0.0
    window.marginal = marginal
    give += part
    for other in needs:
        if other != me:
            ask_back_or_offer(state.members[other].windows.get(name), other, needs[other], whole_until, limit, kick)
    note_served(state, name, me, shift, whole_until if part <= EPS else whole_until + 1, now)
    if give > EPS or sum(needs[me][:SPARE]) <= EPS:
        mine.unmet_since = now
    return give


def room_of(state: State, name: str, limit: float, now: float) -> float:
    """Return what may still be given of a window."""
    window = state.windows[name]
    free = limit
    if window.limit is not None and now - window.stated_at < PERIOD_S:
        free = min(free, window.limit - window.foreign)
    return max(0.0, free - used_in_minute(window, now) - held(state, name))


def needs_of(mine: MemberWindow | None, shift: list[int]) -> list[float]:
    """Return what a member wants beyond what it holds, by the class that it counts as; higher classes use up first what
    it holds, and a debt is paid first."""
    need = [0.0] * (SPARE + 1)
    if mine is None:
        return need
    left = mine.left
    for cls in range(SPARE + 1):
        if mine.wanted[cls] > 0:
            lacks = mine.wanted[cls] - left
            left = max(-lacks, 0.0)
            need[shift[cls]] += max(lacks, 0.0)
    return need


def lack_of(mine: MemberWindow, base: float, limit: float) -> float:
    """Return what a member that holds `base` lacks for its next request; at most 0: nothing, or none waits."""
    return min(mine.first, MAX_SHARE * limit) - base if mine.first > 0 else 0.0


def share_margin(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    room: float,
    given: float,
    limit: float,
    shift: list[int],
    me: str,
    now: float,
    kick: set[str],
) -> float:
    """Return a member's part of the room that is left for the class that doesn't fit.

    Dividing what is there at each sync favours whoever syncs first. So what becomes free is divided at once between the
    accounts of all who want some, and each gets its account at its own sync. A part of a request doesn't help, so that
    with small limits or large requests one member at a time gets what the others' accounts hold, and its own goes below
    0 (deficit round robin, Shreedhar and Varghese 1995).
    """
    unmet = contenders(state, name, needs, cls, room, limit, shift, now)
    settle_accounts(state, name, needs, cls, room, unmet, shift)
    part = 0.0
    mine = state.members[me].windows[name]
    if me in unmet:
        base = mine.left + given
        lack = lack_of(mine, base, limit)
        account = min(mine.due, needs[me][cls], room)
        if lack > account + EPS:
            covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, me, now)
            if next_one == me and lack <= room - covered + EPS:
                part = lack
        elif account > 0:
            part = whole_requests(mine, name, base, account, needs[me][cls], limit)
        mine.due -= part
        room -= part
    covered, next_one = turns(state, name, needs, cls, unmet, limit, shift, "", now)
    for each in unmet:
        theirs = state.members[each].windows[name]
        above = sum(needs[each][:cls])
        lack = lack_of(theirs, theirs.left + above, limit)
        if lack > 0 and (lack <= min(theirs.due, room) + EPS or (each == next_one and lack <= room - covered + EPS)):
            kick.add(each)
    return part


def contenders(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    room: float,
    limit: float,
    shift: list[int],
    now: float,
) -> list[str]:
    """Return who shares the marginal class: all who want some; or the one whose turn it is, if it waits for too long
    and the room isn't enough for it: then room gathers."""
    unmet = [each for each, need in needs.items() if need[cls] > EPS]
    first, most, since = "", -math.inf, math.inf
    for each in unmet:
        member = state.members[each]
        theirs = member.windows[name]
        if theirs.first <= 0 or now - member.heard_at > 2 * SYNC_S:
            continue
        ratio = theirs.due / weight(state, each, cls, shift)
        if ratio > most + EPS or (ratio > most - EPS and theirs.unmet_since < since):
            first, most, since = each, ratio, theirs.unmet_since
    if now - since < OVERDUE_S:
        return unmet
    theirs = state.members[first].windows[name]
    return [first] if lack_of(theirs, theirs.left + sum(needs[first][:cls]), limit) > room + EPS else unmet


def settle_accounts(
    state: State, name: str, needs: dict[str, list[float]], cls: int, room: float, unmet: list[str], shift: list[int]
) -> None:
    """Make the accounts add up to the room: divide what was added to it by weight, but to none more than it wants; or
    take off in proportion what was lost."""
    taking_part = set(unmet)
    total = positive = 0.0
    for each in needs:
        theirs = state.members[each].windows.get(name)
        if theirs is None:
            continue
        if needs[each][cls] <= EPS or each not in taking_part:
            theirs.due = min(theirs.due, 0.0)  # a turn isn't forgotten while its request is in flight
        else:
            theirs.due = min(theirs.due, needs[each][cls])
            total += theirs.due
            positive += max(theirs.due, 0.0)
    if room > total:
        accounts = {each: state.members[each].windows[name] for each in unmet}
        caps = {each: needs[each][cls] - accounts[each].due for each in unmet}
        for each, share in fill(room - total, {each: weight(state, each, cls, shift) for each in unmet}, caps).items():
            accounts[each].due += share
    elif positive > 0:
        factor = max(0.0, positive + room - total) / positive
        for each in unmet:
            theirs = state.members[each].windows[name]
            if theirs.due > 0:
                theirs.due *= factor


def turns(
    state: State,
    name: str,
    needs: dict[str, list[float]],
    cls: int,
    unmet: list[str],
    limit: float,
    shift: list[int],
    me: str,
    now: float,
) -> tuple[float, str]:
    """Return what is in the accounts that suffice for their members' next request (but `me`'s), and whose turn it is of
    the others: who has most in relation to its weight. One that syncs late is passed over."""
    covered, next_one, most = 0.0, "", -math.inf
    for each in unmet:
        member = state.members[each]
        theirs = member.windows[name]
        lack = lack_of(theirs, theirs.left + sum(needs[each][:cls]), limit)
        if lack <= 0:
            continue
        if lack <= min(theirs.due, needs[each][cls]) + EPS:
            covered += theirs.due if each != me else 0.0
        elif now - member.heard_at <= 2 * SYNC_S:
            ratio = theirs.due / weight(state, each, cls, shift)
            if ratio > most + EPS or (each == me and ratio >= most - EPS):
                most, next_one = ratio, each
    return covered, next_one


def whole_requests(mine: MemberWindow, name: str, base: float, account: float, need: float, limit: float) -> float:
    """Return so much of an account as makes up whole requests; parts held by many would use up a small limit."""
    if account >= need - EPS:
        return account
    unit = min(mine.first, MAX_SHARE * limit)
    if unit <= 0 and name.endswith("|requests"):
        unit = 1.0
    if unit <= 0:
        return account
    return max(0.0, unit * math.floor((base + account) / unit + EPS) - base)


def ask_back_or_offer(
    theirs: MemberWindow | None, name: str, need: list[float], whole_until: int, limit: float, kick: set[str]
) -> None:
    """Kick a member whose waiting requests fit whole, or that keeps spare credits while there isn't enough."""
    if theirs is None:
        return
    tight = whole_until < SPARE
    if tight and theirs.left - sum(theirs.wanted[:SPARE]) > EPS:
        kick.add(name)
    above = sum(need[:whole_until])
    if theirs.first > 0 and above > EPS and lack_of(theirs, theirs.left, limit) > EPS:
        kick.add(name)


def note_served(state: State, name: str, me: str, shift: list[int], below: int, now: float) -> None:
    """Begin the ageing anew of the classes of which the member got something, and of those that nobody wants."""
    window = state.windows[name]
    mine = state.members[me].windows[name]
    for cls in range(CLASSES):
        wanted = sum(each.windows[name].wanted[cls] for each in state.members.values() if name in each.windows)
        if wanted <= EPS or (mine.wanted[cls] > EPS and shift[cls] < below):
            window.served_at[cls] = now
