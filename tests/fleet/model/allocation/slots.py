"""How the allocator divides the slots of a lane between its members."""

from __future__ import annotations

from fleet.model.allocation.state import CLASSES, EPS, Member, State, ages, fill, level_of, weight

SLOT_MOVES_S = 1.0
"""Slot-seconds by which a member without a slot must be behind one that has it to get it instead."""
MOST_OWED_S = 60.0
"""Slot-seconds that a member can be behind or ahead at most."""


def share_slots(state: State, me: str, now: float, kick: set[str]) -> None:
    """Set the slots of a member: its part of the level, as far as the others have left it room.

    The part may be below what is in flight. What is in flight counts as held, and so does what was leased before, until
    the member's next report shows that it knows better. While a higher class waits for a slot, nobody may fill one
    again that becomes free in a lower class, wherever that is; otherwise the higher class would wait for one member's.
    """
    level = level_of(state)
    member = state.members[me]
    member.slots_before = member.slots
    if level is None:
        member.slots = 0
        return
    targets, urgent = slot_targets(state, int(level), now)
    flying = sum(member.flying)
    if now < state.learn_until:
        member.slots = flying
        return
    others = sum(held_slots(state.members[each]) for each in state.members if each != me)
    free = max(0, int(level) - others)
    member.slots = min(targets[me], free)
    unmet = sum(max(0, targets[each] - state.members[each].slots) for each in urgent)
    if unmet > 0 and me not in urgent:
        member.slots = min(member.slots, max(0, flying - unmet))
    free -= max(flying, member.slots, member.slots_before)
    for each in targets:
        other = state.members[each]
        waits = sum(other.waiting) > 0 if unmet <= 0 else each in urgent
        if free > 0 and waits and targets[each] > other.slots:
            kick.add(each)
        if unmet > 0 and each not in urgent and other.slots > max(0, sum(other.flying) - unmet):
            kick.add(each)
    waiting = [each for each in targets if sum(state.members[each].waiting) > 0]
    short = any(targets[each] > state.members[each].slots for each in waiting)
    for each in targets:
        if short and state.members[each].slots > targets[each]:
            kick.add(each)
    if short and held_slots(member) > max(flying, member.slots):
        kick.add(me)  # what it gives up is free only when it has said that it knows


def held_slots(member: Member) -> int:
    """Return the slots that a member may be using."""
    return max(sum(member.flying), member.slots, member.slots_before)


def slot_targets(state: State, level: int, now: float) -> tuple[dict[str, int], set[str]]:
    """Divide the level into whole slots: class by class; by weight in the one that doesn't fit; the rest evenly. Return
    the members' parts, and for whom requests of a higher class wait than the one that doesn't fit; these get slots
    beside all that is in flight there."""
    names = sorted(state.members)
    shift = slot_ages(state, now)
    part = dict.fromkeys(names, 0.0)
    rest = float(level)
    torn: dict[str, float] = {}  # the members of the class that doesn't fit, and their part of it
    above = dict.fromkeys(names, 0)  # waiting requests of higher classes
    for cls in range(CLASSES):
        caps = {each: slots_wanted(state.members[each], cls, shift) for each in names}
        caps = {each: cap for each, cap in caps.items() if cap > 0}
        total = sum(caps[each] for each in sorted(caps))
        if total > rest:
            torn = fill(rest, {each: weight(state, each, cls, shift) for each in caps}, caps)
            break
        for each, cap in caps.items():
            part[each] += cap
            above[each] += sum(state.members[each].waiting[own] for own in range(CLASSES) if shift[own] == cls)
        rest -= total
    for each, share in torn.items():
        part[each] += share
    count_owed(state, part, torn, now)
    if not torn:
        spare, more = divmod(int(rest), len(names))
        return {each: int(part[each]) + spare + (1 if index < more else 0) for index, each in enumerate(names)}, set()
    targets = rounded(state, part, level, torn)
    urgent = {each for each in names if above[each] > 0}
    for each in urgent:
        targets[each] = max(targets[each], sum(state.members[each].flying) + above[each])
    return targets, urgent


def slot_ages(state: State, now: float) -> list[int]:
    """Return the class that each class counts as."""
    for cls in range(CLASSES):
        waiting = sum(each.waiting[cls] for each in state.members.values())
        flying = sum(each.flying[cls] for each in state.members.values())
        if waiting == 0 or flying > 0:
            state.served_at[cls] = now
    return ages(state.served_at, now)


def slots_wanted(member: Member, cls: int, shift: list[int]) -> float:
    """Return the requests of a member that count as of a class."""
    return float(sum(member.flying[each] + member.waiting[each] for each in range(CLASSES) if shift[each] == cls))


def count_owed(state: State, part: dict[str, float], torn: dict[str, float], now: float) -> None:
    """Add up by how many slot-seconds each member that shares the marginal class is behind its part."""
    passed_s = now - state.owed_at
    state.owed_at = now
    for name in part:
        member = state.members[name]
        if name not in torn:
            member.owed = 0.0
        else:
            behind = member.owed + (part[name] - max(sum(member.flying), member.slots)) * passed_s
            member.owed = min(max(behind, -MOST_OWED_S), MOST_OWED_S)


def rounded(state: State, part: dict[str, float], level: int, torn: dict[str, float]) -> dict[str, int]:
    """Return whole slots that add up to the level: what is left of a rounding down goes to those most behind, and moves
    only if it is worth it."""
    targets = {name: int(part[name] + EPS) for name in part}
    rest = level - sum(targets.values())
    behind = []
    for name in sorted(torn):
        if part[name] - targets[name] > EPS:
            member = state.members[name]
            stays = SLOT_MOVES_S if member.slots > targets[name] else 0.0
            behind.append((-(member.owed + stays), targets[name] - part[name], name))
    for _, _, name in sorted(behind)[:rest]:
        targets[name] += 1
    return targets
