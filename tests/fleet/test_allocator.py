from __future__ import annotations

from typing import Any

import pytest
from fleet.lua import FRESH_S, OtherProtocol, State, sync

from hivemind.fleet.messages import CREDITS_TTL_S, PROTOCOL, SLOTS_TTL_S, Stated, SyncReply, SyncReport, WindowDemand

REQUESTS = "default|requests"
START = 1_700_000_000.0


class Lane:
    """One lane in the store, members that report about it as they are told to, and the time."""

    def __init__(self, *, learnt: bool = True) -> None:
        self.state: State | None = None
        self.now = START
        self.seq: dict[str, int] = {}
        self.last: dict[str, SyncReport] = {}
        self.known: dict[str, SyncReply] = {}
        if learnt:
            self.report("first", leaving=True)
            self.now += FRESH_S

    def report(self, member: str, **fields: Any) -> SyncReply:
        self.seq[member] = self.seq.get(member, 0) + 1
        if (known := self.known.get(member)) is not None:
            fields = {"epoch": known.epoch, "version": known.version} | fields
        self.last[member] = SyncReport(PROTOCOL, member, self.seq[member], **fields)
        return self.repeat(member)

    def repeat(self, member: str) -> SyncReply:
        self.state, reply = sync(self.state, self.last[member], self.now, "seed")
        self.known[member] = reply
        return reply

    def wait(self, for_s: float) -> None:
        """Pass time in which another member syncs, so that the store wasn't away."""
        ends_at = self.now + for_s
        while self.now < ends_at:
            self.now = min(ends_at, self.now + 1)
            self.report("other")

    def wants(self, member: str, amount: float, cls: int = 2, **fields: Any) -> float:
        """Report a demand of a window of 60 requests a minute; return the credits given."""
        wanted = [0.0] * 5
        wanted[cls] = amount
        fields.setdefault("agents", [1.0] * 4)
        told = {"first": 1.0, "limit": 60.0} | fields.pop("demand", {})
        demand = WindowDemand(wanted=wanted, rank=2, **told)
        return self.report(member, windows={REQUESTS: demand}, **fields).windows[REQUESTS].give


def test_credits_count_until_they_are_used_and_for_a_minute_after() -> None:
    """Two members get no more than the limit between them, until what they used is older than a minute."""
    lane = Lane()
    assert lane.wants("a", 40) == 40
    assert lane.wants("b", 40) == 20
    lane.now += 1
    assert lane.wants("a", 40, demand={"used": [(0, 40.0)]}) == 0
    lane.wants("b", 0, demand={"used": [(0, 20.0)], "first": 0.0})
    lane.wait(59)
    for member in ("a", "b"):
        assert lane.wants(member, 40) == 0
    lane.wait(2)
    assert lane.wants("a", 60) + lane.wants("b", 60) == 60


def test_a_repeated_report_changes_nothing() -> None:
    """It is answered as it was the first time, however often it comes, and what it tells counts once."""
    lane = Lane()
    first = lane.wants("a", 5, demand={"used": [(0, 3.0)]})
    assert lane.state is not None
    state = lane.state.plain()
    for _ in range(3):
        assert lane.repeat("a").windows[REQUESTS].give == first == 5
        assert lane.state.plain() == state


def test_a_new_state_gives_nothing_until_others_had_time_to_tell() -> None:
    """A fresh fleet waits for a second; one whose state was lost for as long as credits may be spent."""
    lane = Lane(learnt=False)
    assert lane.wants("a", 5) == 0
    lane.now += FRESH_S
    assert lane.wants("a", 5) == 5
    lane.state = None
    assert lane.wants("a", 9) == 0
    lane.now += FRESH_S
    assert lane.wants("a", 9, minute={REQUESTS: [(2, 30.0)]}) == 0
    lane.wait(CREDITS_TTL_S)
    assert lane.wants("b", 60) == 30


def test_an_old_state_is_known_by_its_version_and_its_epoch() -> None:
    """After a failover to a replica that was behind, and back to a store that was away, a new epoch begins."""
    lane = Lane()
    lane.wants("a", 5)
    assert lane.state is not None
    old = lane.state.copied()
    lane.wants("a", 5)
    lane.state = old.copied()
    assert lane.wants("a", 5) == 0
    assert lane.state["epoch"] > old["epoch"]
    lane.state = old
    epoch = lane.known["a"].epoch
    lane.wants("a", 5)
    assert lane.state["epoch"] > epoch


def test_the_silent_have_spent_what_they_hold_and_lose_their_slots_later() -> None:
    """Credits of a dead member count as spent, until it comes back and tells; later it is forgotten."""
    lane = Lane()
    assert lane.wants("a", 50, ceiling=4.0, in_flight=[0, 0, 4]) == 50
    lane.wait(CREDITS_TTL_S)
    reply = lane.report("b", waiting=[0, 0, 4], ceiling=4.0, agents=[1.0] * 4)
    assert (reply.windows[REQUESTS].used, reply.members, reply.slots) == (50, 3, 0)
    assert lane.wants("a", 0, demand={"used": [(2, 20.0)], "first": 0.0}, in_flight=[0, 0, 4], ceiling=4.0) == 0
    assert lane.report("b", waiting=[0, 0, 4], ceiling=4.0).windows[REQUESTS].used == 20
    lane.wait(SLOTS_TTL_S)
    reply = lane.report("b", waiting=[0, 0, 4], ceiling=4.0)
    assert (reply.members, reply.slots) == (2, 4)


def test_a_store_that_was_away_for_all_learns_first() -> None:
    """All have used a safe share meanwhile, of which it knows nothing yet."""
    lane = Lane()
    lane.wants("a", 5)
    lane.wants("b", 5)
    lane.now += CREDITS_TTL_S
    assert lane.wants("a", 60) == 0
    lane.now += 1
    lane.wants("b", 0, demand={"used": [(2, 30.0)], "first": 0.0})
    lane.now += CREDITS_TTL_S - 1
    assert lane.wants("a", 60) == 30
    lane.wants("a", 5)
    lane.report("b", leaving=True)
    lane.now += CREDITS_TTL_S  # one that is alone has told everything itself
    assert lane.wants("a", 60) > 0


def test_a_window_that_is_not_told_of_keeps_its_limit() -> None:
    """A member without news of a window wants and holds nothing of it; the limit that it told before holds."""
    lane = Lane()
    assert lane.wants("a", 40) == 40
    reply = lane.report("a")
    assert (reply.windows[REQUESTS].limit, reply.windows[REQUESTS].give) == (60, 0)
    assert lane.wants("b", 100, demand={"limit": None}) == 60


def test_who_leaves_holds_nothing_more() -> None:
    """What a leaving member held is free at once, but for what it used."""
    lane = Lane()
    lane.wants("a", 50)
    demand = WindowDemand(used=[(0, 10.0)], left=40.0, limit=60.0, rank=2)
    assert lane.report("a", windows={REQUESTS: demand}, leaving=True).members == 0
    assert lane.wants("b", 60) == 50


def test_other_clients_of_the_key_are_seen_in_headers() -> None:
    """What the provider counts beyond what members used or hold isn't given, until headers state otherwise."""
    lane = Lane()
    lane.wants("a", 10, demand={"stated": Stated(60.0, 20.0)})
    assert lane.wants("b", 60) == 10
    lane.wants("a", 0, demand={"left": 10.0, "stated": Stated(60.0, 45.0)})
    assert lane.wants("b", 60, demand={"left": 10.0}) == 40


@pytest.mark.parametrize("large", [54.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (30.0, 100.0))])
def test_a_large_request_gets_through(large: float) -> None:
    """Room gathers for a request that is nearly as large as the window, beside others that take every crumb."""
    lane = Lane()
    used: list[tuple[float, float]] = []
    got = 0.0
    for step in range(4 * 240):
        lane.now = START + 10 + step / 4
        for small in ("a", "b", "c"):
            amount = lane.wants(small, 5)
            lane.wants(small, 5, demand={"used": [(0, amount)]})
            used.append((lane.now, amount))
        got += lane.wants("large", large - got, demand={"first": large, "left": got})
        if got >= min(large, 54.0) - 1e-6:
            break
    assert got >= min(large, 54.0) - 1e-6


def test_one_congestion_cuts_once() -> None:
    """Members that meet the same congestion cut the level once; without a level the cut begins at what flies."""
    lane = Lane()
    lane.report("a", in_flight=[0, 0, 6])
    lane.report("b", in_flight=[0, 0, 4])
    assert lane.report("a", in_flight=[0, 0, 6], cut=0.5).level == 5
    assert lane.report("b", in_flight=[0, 0, 4], cut=0.5).level == 5
    assert lane.report("b", in_flight=[0, 0, 4], cut=0.5, cuts=1, floor=3.0).level == 3
    assert lane.report("a", grow=1.0, settle_s=2.0).level == 3
    lane.now += 2
    assert lane.report("a", grow=1.0, settle_s=2.0).level == 4
    assert lane.report("a", pin=7.0).level == 7
    assert lane.report("a", cut=0.5, cuts=2).level == 7


def test_an_assumed_level_is_where_all_begin() -> None:
    """It is one for all, grows and is cut; what a member states is its ceiling, at which it stays; once no member
    assumes anything any more, there is no limit."""
    lane = Lane()

    def level(member: str, **about: Any) -> float | None:
        lane.now += 1
        return lane.report(member, **about).level

    assert level("a", begin=5.0) == level("b", begin=5.0) == 5
    assert level("a", begin=5.0, grow=1.0) == level("b", begin=5.0) == 6
    assert level("b", begin=5.0, cut=0.5) == 3
    assert level("b", ceiling=4.0, grow=1.0) == 4, "b turned out to be something else"
    assert level("a", begin=5.0, grow=1.0) == 4
    assert level("b", begin=3.0) == 3
    assert [level("b", begin=3.0, ceiling=4.0, grow=1.0) for _ in range(3)] == [4, 4, 4]
    assert (level("b"), level("a")) == (5, None)


def test_slots_move_to_the_higher_class_and_never_exceed_the_level() -> None:
    """A slot that is taken from one member is given to another only after the one has said that it knows."""
    lane = Lane()
    busy: dict[str, Any] = {"in_flight": [0, 0, 2], "waiting": [0, 0, 9], "agents": [0, 0, 9.0], "ceiling": 4.0}
    critical: dict[str, Any] = {"waiting": [2], "agents": [1.0], "ceiling": 4.0}
    assert lane.report("a", **busy).slots == 4
    assert lane.report("b", **critical).slots == 0
    lane.now += 0.1
    reply = lane.report("a", **busy)
    assert (reply.slots, reply.kick) == (0, ["a"])
    assert lane.report("b", **critical).slots == 0
    assert lane.report("a", **busy | {"in_flight": [0, 0, 3]}).slots == 1
    assert lane.report("b", **critical).slots == 1
    assert lane.report("a", **busy).slots == 1
    assert lane.report("b", **critical).slots == 2
    assert lane.report("a", **busy).slots == 2


def test_a_pause_holds_for_all_until_an_operator_ends_it() -> None:
    """The longest counts; nothing is given; a member that hasn't heard of its end can't begin it again."""
    lane = Lane()
    lane.wants("b", 0)
    assert lane.wants("a", 5, pauses={"*": 20.0}) == 0
    assert lane.report("b", pauses={"*": 10.0}).pauses == {"*": 20}
    behind = lane.known["b"]
    assert not lane.report("a", resumed=True).pauses
    lane.known["b"] = behind
    assert not lane.report("b", pauses={"*": 10.0}).pauses
    assert lane.report("b", pauses={"*": 10.0}).pauses == {"*": 10}


def test_a_pause_of_a_family_is_its_own() -> None:
    """The others' windows are given from as before; it is forgotten when it is over."""
    lane = Lane()
    assert lane.wants("a", 5, pauses={"opus": 20.0}) == 5
    assert lane.wants("b", 5, pauses={"default": 5.0}) == 0
    assert lane.report("a").pauses == {"opus": 20, "default": 5}
    lane.wait(6)
    assert lane.report("a").pauses == {"opus": 14}
    assert lane.wants("b", 5) == 5


def test_a_circuit_of_a_family_is_probed_by_who_has_it_waiting() -> None:
    """It closes for all, or opens for all families, of which it keeps none apart then."""
    lane = Lane()
    reply = lane.report("a", opened_for_s=5.0, opened_family="opus")
    assert (reply.circuit, reply.family) == ("open", "opus")
    lane.now += 5
    assert lane.report("b", waiting=[1], in_flight=[1]).circuit == "open"
    assert lane.report("a", can_probe=True).circuit == "probe"
    assert lane.report("a", in_flight=[1]).circuit == "open"  # the one that waited is gone
    reply = lane.report("b", can_probe=True)
    assert (reply.circuit, reply.family) == ("probe", "opus")
    reply = lane.report("b", trips=1, opened_for_s=5.0)
    assert (reply.circuit, reply.family, reply.trips) == ("open", None, 2)


def test_one_member_probes_an_open_circuit() -> None:
    """A circuit that opens is open for all; one that has something waiting probes it, and its result counts for all."""
    lane = Lane()
    assert lane.report("a", opened_for_s=5.0).circuit == "open"
    reply = lane.report("b", can_probe=True)
    assert (reply.circuit, reply.trips, reply.reopens_in_s) == ("open", 1, 5)
    lane.now += 5
    assert lane.report("a").circuit == "open"
    assert lane.report("b", can_probe=True).circuit == "probe"
    assert lane.report("a", can_probe=True).circuit == "open"
    assert lane.report("b", trips=1, probe_ok=False).reopens_in_s == 5
    lane.now += 5
    assert lane.report("b", can_probe=True).circuit == "probe"
    assert lane.report("b", leaving=True).circuit == "open"
    assert lane.report("a", can_probe=True).circuit == "probe"
    assert lane.report("a", trips=2, probe_ok=True).circuit == "closed"
    assert lane.report("a", forced="open").forced == "open"
    assert lane.report("a", forced="auto").circuit == "closed"


def test_another_protocol_is_refused() -> None:
    """A state in use by another version is left alone, one that nobody uses is replaced."""
    lane = Lane()
    lane.report("a")
    assert lane.state is not None
    lane.state["protocol"] = PROTOCOL + 1
    with pytest.raises(OtherProtocol, match="state is of protocol 3"):
        lane.report("a")
    lane.now += 61
    lane.report("a")
    assert lane.state["protocol"] == PROTOCOL
    with pytest.raises(OtherProtocol, match="report is of protocol 9"):
        sync(None, SyncReport(9, "a", 1), START, "")


def test_an_assumed_limit_grows_and_is_cut_for_all() -> None:
    """By a quarter while requests wait and are answered, once for each number of changes whoever tells; a refusal cuts
    it to what was answered, and from then on it grows a tenth a minute. What is stated counts instead."""
    lane = Lane()

    def told(member: str, changes: int, *, used: float = 0.0, **about: Any) -> tuple[float | None, int, bool]:
        demand = WindowDemand([(0.0, used)], wanted=[0.0, 0.0, 200.0, 0.0, 0.0], limit=60.0, changes=changes, **about)
        found = lane.report(member, windows={REQUESTS: demand}, agents=[1.0] * 4, settle_s=1.0).windows[REQUESTS]
        return found.limit, found.changes, found.refused

    lane.report("a"), lane.report("b")
    assert told("a", 0, used=30.0) == (60, 0, False)
    assert told("b", 0, used=30.0, grow=True) == (75, 1, False)
    assert told("a", 0, grow=True) == (75, 1, False), "it belongs to the limit before"
    assert told("a", 1, grow=True) == (75, 1, False), "too soon"
    lane.now += 1
    assert told("a", 1, grow=True) == (75, 1, False), "there is room"
    assert told("a", 1, used=15.0, grow=True) == (94, 2, False)
    assert told("b", 2, used=20.0, open=10.0, refused=True) == (85, 3, True)
    assert told("a", 2, refused=True) == (85, 3, True)
    lane.wait(30)
    assert told("a", 3, grow=True) == (85, 3, True)
    lane.wait(31)
    assert told("a", 3, used=80.0, grow=True) == (94, 4, True)
    assert told("a", 4, stated=Stated(50.0, 50.0)) == (50, 4, True)
    lane.wait(61)
    assert told("a", 4, used=50.0, grow=True) == (50, 4, True)
