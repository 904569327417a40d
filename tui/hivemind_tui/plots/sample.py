"""From a lane's recorded curve to what fits on the screen: at most two points a column, and no dip lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hivemind.snapshot import CurvePoint, LaneView

from .wire import Job, Points

SPAN_S = 600.0
"""Longest stretch shown."""
_SHORTER_SPANS_S = (20.0, 40.0, 60.0, 120.0, 300.0)
"""For a curve that began not long ago, so that it doesn't huddle at the edge."""


def job_for(lane: LaneView, width: int, height: int) -> Job | None:
    """The figure of a lane in `width` cells and `height` rows; None while there is no curve or no room for one."""
    if len(lane.curve) < 2 or width < 24 or height < 4:
        return None
    now = lane.curve[-1].at
    age = now - lane.curve[0].at
    span = next((span for span in _SHORTER_SPANS_S if age <= span), SPAN_S)
    points = [point for point in lane.curve if now - point.at <= span]
    level = thin(points, now, span, width, lambda point: point.level)
    active = thin(points, now, span, width, lambda point: float(point.active))
    ceiling = lane.state.ceiling
    highest = max((y for _, y in [*level, *active]), default=1.0)
    top = ceiling if not math.isinf(ceiling) and ceiling <= 2 * highest else highest * 1.15
    return Job(
        width=width,
        height=height,
        span_s=span,
        level=level,
        active=active,
        cuts=[(point.at - now, point.level) for point in points if point.mark and not math.isinf(point.level)],
        ttft=thin(points, now, span, width, lambda point: point.ttft_s),
        target_s=lane.state.latency_target_s,
        top=float(max(1, math.ceil(top))),
    )


def thin(
    points: Sequence[CurvePoint], now: float, span_s: float, columns: int, value: Callable[[CurvePoint], float | None]
) -> Points:
    """At most two points a column, the lowest and the highest in their order; x is seconds before `now`.

    Values that are unknown or without limit are left out.
    """
    buckets: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        y = value(point)
        if y is None or math.isinf(y):
            continue
        x = point.at - now
        bucket = buckets.setdefault(int((x + span_s) / span_s * (columns - 1)), [])
        bucket.append((x, y))
    thinned: Points = []
    for bucket in buckets.values():
        ends = {min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])}
        thinned += sorted(ends)
    return thinned
