"""A mock provider that answers by a plan, and keeps a tally."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.planned.caches import AgentCaches, AgentFound
from benchmarks.planned.plan import CONVERSATIONS, Conversation, Plan
from benchmarks.planned.tally import Tally
from hivemind_mock.provider.app import AGENT, Asked, MockProvider
from hivemind_mock.provider.cache import Prompt
from hivemind_mock.provider.config import MockConfig
from hivemind_mock.provider.formats.base import Body, Format, MockReply, ToolCall


class PlannedProvider(MockProvider):
    """See :class:`~hivemind_mock.provider.app.MockProvider`."""

    caches: AgentCaches

    def __init__(self, config: MockConfig, plan: Plan | None = None, **more: Any) -> None:
        super().__init__(config, **more)
        self.plan = plan or Plan()
        self.caches = AgentCaches()
        self.tally = Tally()

    def cached(
        self, path: str, headers: Mapping[bytes, bytes], body: Body, where: tuple[str, str], prompt: Prompt
    ) -> AgentFound:
        """Look for what an agent has in the cache: the one in its path, or the user that its body names."""
        metadata, named = body.get("metadata"), AGENT.match(path)
        user = metadata.get("user_id") if isinstance(metadata, Mapping) else body.get("user")
        agent = named[1] if named else str(user or where[0])
        return self.caches.look_for(agent, self.clock(), where, prompt)

    def planned(self, wire: Format, body: Body) -> ToolCall | str:
        if not self.plan.steps:
            return ""
        read = CONVERSATIONS.get(wire.name)
        return self.plan.answer(Conversation() if read is None else read(body))

    def ended(self, asked: Asked, reply: MockReply | None) -> None:
        self.tally.note(self.clock() - self.started, asked, reply)
