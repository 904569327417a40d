"""The answers of a recording as arrays: how big they were, how long they took, what else was in process meanwhile."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from hivemind.lab.fit.size import PARTS, loads, sizes
from hivemind.lab.fit.speed import Drift, Speed
from hivemind.lab.trace.steps import RequestAttempt

BINS = 240
"""Intervals of a recording in which the provider's speed is constant."""
_FEW = 20
"""Answers of a kind from which something is concluded about it."""


class Answers:
    """The answers of the lanes of one upstream, in order of their ends, and when others were in process."""

    def __init__(self, sent: Sequence[RequestAttempt], began_at: float, ends_at: float) -> None:
        """`sent`: all attempts. Sets the `row` of those that were answered."""
        loading = [
            (
                request,
                one,
                one.granted_at,
                one.granted_at + one.duration_s if one.end_number else max(ends_at, began_at),
            )
            for request, one in sent
            if loads(one)
        ]
        loading.sort(key=lambda each: each[3])
        begins, ends = np.array([each[2] for each in loading]), np.array([each[3] for each in loading])
        ends = np.maximum(begins, ends)
        self.began_at = began_at
        self.bin_s = max(1e-3, (ends_at - began_at) / BINS)
        edges = began_at + self.bin_s * np.arange(1, BINS)
        times = np.concatenate([ends, begins, edges])
        changes = np.concatenate([-np.ones(len(ends)), np.ones(len(begins)), np.zeros(len(edges))])
        order = np.lexsort((changes, times))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.times = times[order]
        self.in_process = np.cumsum(changes[order]).astype(np.int64)
        """From each time until the next one."""
        self.most = int(self.in_process.max(initial=0))
        self._lasts = np.diff(self.times, append=self.times[-1])
        middles = self.times + self._lasts / 2
        self._bin = np.clip(((middles - began_at) // self.bin_s).astype(np.int64), 0, BINS - 1)
        lasting = [n for n in range(len(loading)) if ends[n] > begins[n]]
        answered = [n for n in lasting if loading[n][1].complete and loading[n][1].failure is None]
        rows = answered + [n for n in lasting if not loading[n][1].complete]
        attempts = [loading[n][1] for n in rows]
        for row, one in enumerate(attempts):
            one.row = row
        self.answered: list[RequestAttempt] = [loading[n][:2] for n in answered]
        self.count = len(answered)
        """Rows of answers; after these come attempts whose end wasn't recorded."""
        at = np.array(rows, dtype=np.int64)
        self.begins, self.ends = begins[at], ends[at]
        self._all_begins, self._all_ends, self._rows = begins, ends, at
        self._end_place = place[at]
        self.middles = (self.begins + self.ends)[: self.count] / 2
        told = [0.0 if one.headed_s is None else one.headed_s for one in attempts]
        self.heads = self.begins + np.array(told)
        # Apart from the call below, for whose overloads mypy would check the list again and again.
        began = [math.inf if one.first_s is None else one.first_s for one in attempts]
        self.firsts = np.minimum(self.ends, self.begins + np.array(began))
        self.sizes = np.array([sizes(request, one.usage) for request, one in self.answered]).reshape(-1, len(PARTS))
        self._service_begins: dict[int, np.ndarray] = {}

    def service_begins(self, places: int | None) -> np.ndarray:
        """Return when the provider began with each answer if it worked on so many at once, in order of arrival."""
        if places is None:
            return self.begins
        known = self._service_begins.get(places)
        if known is None:
            latest: list[float] = []
            found = np.empty(len(self._all_begins))
            for n in np.argsort(self._all_begins, kind="stable").tolist():
                begins, ends = float(self._all_begins[n]), float(self._all_ends[n])
                if len(latest) < places:
                    heapq.heappush(latest, ends)
                else:
                    begins = max(begins, latest[0])
                    heapq.heappushpop(latest, ends)
                found[n] = min(begins, ends)
            known = self._service_begins[places] = found[self._rows]
        return known

    def done(self, speed: Speed, places: int | None, drift: Drift) -> np.ndarray:
        """Return the work that one request in process had got done by each of the times."""
        most = self.most if places is None else min(self.most, places)
        speeds = np.array([speed.of(n) for n in range(most + 1)])
        per_second = speeds[np.minimum(self.in_process, most)]
        if drift.speeds:
            per_second = per_second * np.array(drift.speeds)[self._bin]
        done = np.empty(len(self.times))
        done[0] = 0.0
        np.cumsum((per_second * self._lasts)[:-1], out=done[1:])
        return done

    def work(self, done: np.ndarray, places: int | None) -> np.ndarray:
        """Return the work of each row."""
        whole = done[self._end_place] - np.interp(self.service_begins(places), self.times, done)
        return np.asarray(np.maximum(whole, 1e-6))

    def speeds_at_end(self, speed: Speed, places: int | None) -> np.ndarray:
        """Return the logarithm of the speed just before the end of each answer."""
        n = self.in_process[np.maximum(self._end_place[: self.count] - 1, 0)]
        n = np.maximum(1, n if places is None else np.minimum(n, places))
        logs = np.log([speed.of(each) for each in range(int(n.max(initial=1)) + 1)])
        return np.asarray(logs[n])

    def kinds(self) -> dict[str, list[str]]:
        """Return by which kinds the answers may differ: for each name, the kinds that are frequent."""
        found = {}
        for name, values in (
            ("model", [request.arrived.model for request, _ in self.answered]),
            ("stream", [str(request.arrived.stream) for request, _ in self.answered]),
            ("lane", [request.arrived.lane for request, _ in self.answered]),
        ):
            counts = Counter(values)
            usual = counts.most_common(1)[0][0] if counts else ""
            others = [value for value, count in counts.items() if value != usual and count >= _FEW]
            if others:
                found[name] = others
        return found
