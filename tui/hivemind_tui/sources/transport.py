"""The position, speed and loop of a playback. Knows no journal; the time is passed in."""

from __future__ import annotations

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_LONGEST_STEP_S = 0.5
"""A program that was suspended continues where it was."""
_SHORTEST_LOOP_S = 0.1


class Transport:
    """A clock that runs at a chosen speed between two moments of a journal, on the journal's time."""

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
        """The stretch that is repeated; None: no loop."""
        if self.loop_from is None or self.loop_to is None:
            return None
        return self.loop_from, self.loop_to

    @property
    def at_end(self) -> bool:
        """Whether the end is reached."""
        return self.at >= self.ends_at

    def tick(self, now_s: float) -> float:
        """Return the moment to show now; one before the last moment returned begins a loop again."""
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
        """Play; at the end, from the beginning (of the loop, if there is one)."""
        self.playing = True
        if self.at_end:
            self.at = self.loop[0] if self.loop is not None else self.begins_at

    def stop(self) -> None:
        """Stop playing."""
        self.playing = False

    def go(self, at: float) -> float:
        """Go to a moment, or to the nearest end, and return it."""
        self.at = max(self.begins_at, min(self.ends_at, at))
        return self.at

    def fell_behind(self, at: float) -> None:
        """Continue from here: this is how far events could be applied in time."""
        self.at = at

    def change_speed(self, step: int) -> float:
        """Change to the next speed up or down, and return it."""
        index = SPEEDS.index(self.speed) + step
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, index))]
        return self.speed

    def set_loop(self, edge: int) -> None:
        """Begin (0) or end (1) the loop here. An edge beyond the other removes that one."""
        if edge == 0:
            self.loop_from = self.at
            if self.loop_to is not None and self.loop_to < self.at + _SHORTEST_LOOP_S:
                self.loop_to = None
            return
        self.loop_to = self.at
        if self.loop_from is None or self.loop_from > self.at - _SHORTEST_LOOP_S:
            self.loop_from = self.begins_at if self.at > self.begins_at + _SHORTEST_LOOP_S else None

    def unloop(self) -> None:
        """Remove the loop."""
        self.loop_from = self.loop_to = None

    def reaches(self, ends_at: float) -> None:
        """Move the end, of which more is known now."""
        self.ends_at = max(self.begins_at, ends_at)
        self.at = min(self.at, self.ends_at)


def shown_speed(speed: float) -> str:
    """Return the speed as people write it: `x4`, `x0.25`."""
    return f"x{speed:g}"
