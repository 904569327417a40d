"""Where a replay is, how fast it goes on and what it repeats. Knows no journal, and is told what time it is."""

from __future__ import annotations

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_LONGEST_STEP_S = 0.5
"""A program that was stopped for a while goes on where it was."""
_SHORTEST_LOOP_S = 0.1


class Transport:
    """A clock that runs at a speed of its own between two moments of a journal; both on the journal's clock."""

    def __init__(self, begins_at: float, ends_at: float) -> None:
        self.begins_at = begins_at
        self.ends_at = max(begins_at, ends_at)
        self.at = begins_at
        self.speed = 1.0
        self.playing = False
        self.loop_from: float | None = None
        self.loop_to: float | None = None
        self._now_s: float | None = None

    @property
    def loop(self) -> tuple[float, float] | None:
        """What is repeated; None: nothing is."""
        if self.loop_from is None or self.loop_to is None:
            return None
        return self.loop_from, self.loop_to

    @property
    def at_end(self) -> bool:
        """There is nothing more to play."""
        return self.at >= self.ends_at

    def tick(self, now_s: float) -> float:
        """The moment to be at by now. One before the last answer begins a loop anew."""
        before, self._now_s = self._now_s, now_s
        if not self.playing or before is None:
            return self.at
        self.at += min(_LONGEST_STEP_S, max(0.0, now_s - before)) * self.speed
        loop = self.loop
        # Who went on behind the loop's end wants to see what is there.
        if loop is not None and loop[1] <= self.at < loop[1] + 2 * _LONGEST_STEP_S * self.speed:
            self.at = loop[0]
        self.at = min(self.at, self.ends_at)
        return self.at

    def play(self) -> None:
        """Go on; at the end, from the beginning (of the loop, if there is one)."""
        self.playing = True
        if self.at_end:
            self.at = self.loop[0] if self.loop is not None else self.begins_at

    def stop(self) -> None:
        """Stop playing."""
        self.playing = False

    def go(self, at: float) -> float:
        """Another moment, as far as there is one; answers which."""
        self.at = max(self.begins_at, min(self.ends_at, at))
        return self.at

    def fell_behind(self, at: float) -> None:
        """So far and no further could be played by now: time goes on from there."""
        self.at = at

    def change_speed(self, step: int) -> float:
        """The next speed up or down."""
        index = SPEEDS.index(self.speed) + step
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, index))]
        return self.speed

    def set_loop(self, edge: int) -> None:
        """It begins (0) or ends (1) here. An edge beyond the other takes that one away: a loop needs both in order."""
        if edge == 0:
            self.loop_from = self.at
            if self.loop_to is not None and self.loop_to < self.at + _SHORTEST_LOOP_S:
                self.loop_to = None
            return
        self.loop_to = self.at
        if self.loop_from is None or self.loop_from > self.at - _SHORTEST_LOOP_S:
            self.loop_from = self.begins_at if self.at > self.begins_at + _SHORTEST_LOOP_S else None

    def unloop(self) -> None:
        """Nothing is repeated any more."""
        self.loop_from = self.loop_to = None

    def reaches(self, ends_at: float) -> None:
        """It is known better by now where it ends."""
        self.ends_at = max(self.begins_at, ends_at)
        self.at = min(self.at, self.ends_at)


def shown_speed(speed: float) -> str:
    """As people write it: `x4`, `x0.25`."""
    return f"x{speed:g}"
