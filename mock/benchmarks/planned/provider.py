"""A mock provider that answers by a plan, and keeps a tally."""

from __future__ import annotations

from typing import Any

from benchmarks.planned.plan import CONVERSATIONS, Conversation, Plan
from benchmarks.planned.tally import Tally
from hivemind_mock.provider.app import Asked, MockProvider
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.formats.base import Body, Format, MockReply, ToolCall


class PlannedProvider(MockProvider):
    """See :class:`~hivemind_mock.provider.app.MockProvider`."""

    def __init__(self, config: MockConfig, plan: Plan | None = None, **more: Any) -> None:
        super().__init__(config, **more)
        self.plan = plan or Plan()
        self.tally = Tally()

    def planned(self, wire: Format, body: Body) -> ToolCall | str:
        if not self.plan.steps:
            return ""
        read = CONVERSATIONS.get(wire.name)
        return self.plan.answer(Conversation() if read is None else read(body))

    def ended(self, asked: Asked, reply: MockReply | None) -> None:
        self.tally.note(self.clock() - self.started, asked, reply)
