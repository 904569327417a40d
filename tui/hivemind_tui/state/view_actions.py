"""Looking elsewhere: what the keys and clicks that touch nothing do to the view."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from hivemind_tui.state import navigation
from hivemind_tui.state.view import View


class Looking:
    """The part of a screen that turns its view."""

    @property
    @abstractmethod
    def view(self) -> View:
        """What is shown now."""

    @abstractmethod
    def go(self, view: View) -> None:
        """Look elsewhere."""

    def action_page(self, name: str) -> None:
        self.go(navigation.page(self.view, name))

    def action_out(self) -> None:
        self.go(navigation.back(self.view))

    def action_move(self, step: int) -> None:
        self.go(navigation.move(self.view, step))

    def action_edge(self, index: int) -> None:
        self.go(navigation.edge(self.view, index))

    def action_mark(self) -> None:
        self.go(navigation.mark(self.view))

    def action_mark_all(self) -> None:
        self.go(navigation.mark_all(self.view))

    def action_tree(self) -> None:
        self.go(navigation.tree(self.view))

    def action_fold(self) -> None:
        self.go(navigation.fold(self.view))

    def action_sort(self, step: int) -> None:
        self.go(navigation.sort(self.view, step))

    def action_sort_by(self, column: str) -> None:
        self.go(navigation.sort_by(self.view, column))

    def action_reverse(self) -> None:
        self.go(navigation.reverse(self.view))

    def action_jump(self, kind: str) -> None:
        self.go(navigation.jump(self.view, kind))

    def action_lane(self, step: int) -> None:
        self.go(replace(self.view, lane_index=self.view.lane_index + step))

    def action_pick_agent(self, name: str) -> None:
        """A click: select, and the second one opens."""
        again = self.view.selected == name
        self.go(navigation.into(self.view) if again else replace(self.view, selected=name))

    def action_pick_request(self, ticket: int) -> None:
        again = self.view.ticket == ticket
        self.go(navigation.into(self.view) if again else replace(self.view, ticket=ticket))

    def action_pick_task(self, name: str) -> None:
        again = self.view.chosen == name
        self.go(navigation.into(self.view) if again else replace(self.view, chosen=name))

    def action_open_agent(self, name: str) -> None:
        """From the task that it works on."""
        self.go(replace(navigation.open_agent(self.view, name), trail=("tasks", "agent")))
