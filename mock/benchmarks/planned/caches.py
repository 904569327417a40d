"""Prompt caches that know what each agent has lost: to expiry, and to switches of model or key."""

from __future__ import annotations

from hivemind_mock.provider.cache import Found, Prompt, PromptCaches, Where


class AgentFound(Found, frozen=True):
    """What the cache has of an agent's prompt."""

    agent: str = ""
    lost: int = 0
    """Tokens that aren't read because what this agent had there has expired."""
    switched: int = 0
    """Tokens that would have been read by the key and the model that it used before."""


class AgentCaches(PromptCaches):
    """All caches of one provider. Nothing is dropped, so that what was lost is known."""

    def __init__(self) -> None:
        super().__init__()
        self._used: dict[tuple[str, Where], dict[int, int]] = {}
        """By agent and place: the beginnings that it had kept, and their tokens."""
        self._last: dict[str, Where] = {}
        """By agent: where its latest prompt was kept."""

    def look_for(self, agent: str, now: float, where: Where, prompt: Prompt) -> AgentFound:
        """Return what of an agent's prompt is read now, and what is written and lost."""
        found = self.look(now, where, prompt)
        used = self._used.get((agent, where), {})
        before = max((tokens for end, tokens in prompt.ends if end in used), default=0)
        last = self._last.get(agent, where)
        switched = 0
        if prompt.marks and last != where:
            switched = max(0, self.longest(now, last, prompt) - found.read)
        lost = 0 if switched or not prompt.marks else max(0, before - found.read)
        return AgentFound(prompt, where, found.read, found.written, found.written_1h, agent, lost, switched)

    def keep(self, now: float, found: Found) -> list[tuple[int, int]]:
        kept = super().keep(now, found)
        assert isinstance(found, AgentFound)
        self._used.setdefault((found.agent, found.where), {}).update(kept)
        if found.prompt.marks:
            self._last[found.agent] = found.where
        return kept
