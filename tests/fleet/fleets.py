"""Made-up fleets: as varied as a busy afternoon, and the same each time."""

from __future__ import annotations

from hivemind.records import replace
from hivemind.world.fleet import Fleet, Member, MemberLane, MemberWindow, gathered

STORE = "redis://10.0.0.5:6379"
SHOWN = "anthropic:1f2e3d4c"
_LIMITS = {"requests": 600.0, "input": 400_000.0, "output": 80_000.0}
_FLEETS_LANES = ("8c" * 16, "d1" * 16)


class Watched:
    """What a proxy knows of its fleet."""

    def __init__(self, known: Fleet) -> None:
        self._known = known

    async def fresh(self) -> Fleet:
        return self._known


def fleet(count: int = 3, *, keys: int = 1, me: bool = True, away: str = "", **changes: object) -> Fleet:
    """`count` proxies, of which the first answers; `changes` are those of its lanes."""
    members = [_member(n, count, keys) for n in range(count)]
    if changes:
        lanes = tuple(replace(lane, **changes) for lane in members[0].lanes)  # type: ignore[arg-type]
        members[0] = replace(members[0], lanes=lanes)
    return gathered(members, store=STORE, me=members[0].id if me else "", away=away)


_MACHINES = ("laptop", "ci-runner-2", "build-server.example.net")
_USED = ((288.0, 121_000.0, 31_400.0), (130.0, 96_500.0, 12_050.0), (41.0, 60_200.0, 9_800.0))


def _member(n: int, count: int, keys: int) -> Member:
    machine = _MACHINES[n % 3] if n < 3 else f"node-{n:02d}"
    lanes = tuple(_lane(n, count, key) for key in range(keys))
    return Member(
        id=f"{n:08x}",
        machine=machine,
        pid=4000 + n,
        version="0.4.0",
        protocol=1,
        address=f"http://10.0.0.{n + 11}:8765",
        started=1_700_000_000.0 + n,
        agents=(12, 6, 3)[n % 3],
        active=(8, 4, 1)[n % 3],
        in_flight=sum(lane.in_flight for lane in lanes),
        waiting=sum(lane.waiting for lane in lanes),
        lanes=lanes,
        seen_s=(0.4, 0.7, 0.2)[n % 3],
    )


def _lane(n: int, count: int, key: int) -> MemberLane:
    used = [sum(_USED[m % 3][kind] for m in range(count)) for kind in range(3)]
    scale = max(1.0, used[0] / 560.0)
    windows = tuple(
        MemberWindow("claude", kind, limit, used[at] / scale, _USED[n % 3][at] / scale)
        for at, (kind, limit) in enumerate(_LIMITS.items())
    )
    return MemberLane(
        lane=_FLEETS_LANES[key],
        shown=SHOWN if key == 0 else "openai:99aa88bb",
        upstream="anthropic" if key == 0 else "openai",
        state="leased",
        lease_age_s=(0.15, 0.22, 0.9)[n % 3],
        in_flight=(7, 3, 1)[n % 3],
        waiting=(5, 2, 0)[n % 3],
        agents=(8.0, 4.0, 1.0)[n % 3],
        slots=(8.0, 4.0, 2.0)[n % 3],
        level=14.0 * max(1, count // 3),
        windows=windows if key == 0 else windows[:1],
    )
