"""Estimates of what a request will use, before the provider has counted.

Starts at four characters a token (paper, Token Counting from SSE Streams) and learns from each reply's real usage by
model, since tokenizers differ; the length of answers is learned by agent too, since an agent that has files written
gets answers many times as long as one with yes-or-no questions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hivemind.scheduler.admission.warmth import CACHING, ON_THE_WAY_S, SHRUNK, STEP, Cached
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Request, Usage

CHARS_PER_TOKEN = 4.0
FIRST_OUTPUT = 256  # output tokens assumed of a model without a reply yet
LEARNING_RATE = 0.2
"""Weight of each reply. The first few count for more in the length of answers: they are averaged with the prior."""
MODELS_KEPT = 256
"""Models of a lane, and of an agent on it, about which something is kept; beyond it the one goes of which least was
learned, because agents make up names."""
_FIRST_FEW = round(1 / LEARNING_RATE) - 2
_RATIO_RANGE = (0.5, 40.0)
"""Plausible characters per token; others are of requests whose text isn't in the body (threads, files by id)."""


@dataclass(slots=True, eq=False)
class Estimator:
    """Characters to tokens and the usual length of an answer, for one model, or for one agent's use of it."""

    chars_per_token: float = CHARS_PER_TOKEN
    output_tokens: float = FIRST_OUTPUT
    learned: int = 0  # answers whose length was learned
    input: int = 0
    """Input tokens of the last answer's prompt."""
    fresh: float = 1.0
    """Share of them that was not read from a cache."""
    cache: Cached | None = None  # what the provider keeps of that prompt

    def input_tokens(self, size_chars: int) -> int:
        """Return the tokens of a prompt of so many characters, at least one."""
        return round(size_chars / self.chars_per_token) or 1

    def answer_tokens(self, max_output_tokens: int | None) -> int:
        """Return the tokens the answer will likely have; never more than the request allows."""
        expected = round(self.output_tokens)
        return max(1, expected if max_output_tokens is None else min(expected, max_output_tokens))

    def learn(self, size_chars: int, input_tokens: int, output_tokens: int) -> None:
        """Learn from one reply's real usage (all input, cached or not)."""
        if size_chars > 0 and input_tokens > 0:
            low, high = _RATIO_RANGE
            ratio = size_chars / input_tokens
            if low <= ratio <= high:
                self.chars_per_token += LEARNING_RATE * (ratio - self.chars_per_token)
        self.learn_answer(output_tokens)

    def learn_answer(self, output_tokens: int) -> None:
        """Learn from the length of one reply."""
        if output_tokens > 0:
            rate = LEARNING_RATE if self.learned >= _FIRST_FEW else 1 / (self.learned + 2)
            self.learned += 1
            self.output_tokens += rate * (output_tokens - self.output_tokens)


class Estimators:
    """The estimators of one lane, by model and by agent."""

    def __init__(self, provider: str = "") -> None:
        self.caching = CACHING.get(provider)
        self.models: dict[str, Estimator] = {}
        self._agents: dict[str, dict[str, Estimator]] = {}

    def guess(self, ticket: Ticket, now: float) -> None:
        """Set the ticket's estimates."""
        request = ticket.request
        model = request.model
        general = self._general(model)
        own = self._agents.get(request.agent)
        mine = general if own is None else own.get(model, general)
        ticket.estimated_input = general.input_tokens(request.size_chars)
        ticket.estimated_output = mine.answer_tokens(request.max_output_tokens)
        if (cache := mine.cache) is not None:
            ticket.warm_until = cache.until
            ticket.cached = cache.expected(now, request.size_chars, ticket.estimated_input, general.chars_per_token)

    def guess_cached(self, ticket: Ticket, now: float) -> None:
        """Set how much of the ticket's prompt is in the provider's cache, and until when."""
        request = ticket.request
        own = self._agents.get(request.agent)
        mine = None if own is None else own.get(request.model)
        if mine is not None and (cache := mine.cache) is not None:
            ticket.warm_until = cache.until
            chars_per_token = self._general(request.model).chars_per_token
            ticket.cached = cache.expected(now, request.size_chars, ticket.estimated_input, chars_per_token)

    def keep(self, ticket: Ticket, usage: Usage, began_at: float) -> tuple[int, float] | None:
        """Note what of its prompt the provider keeps from then on, when the answer began. Return how many tokens
        weren't read since they had expired, and when that was; infinity: since they are in the cache of the model or
        the upstream that the agent used before. None: none, and no other ticket of the agent is concerned."""
        caching, request = self.caching, ticket.request
        if caching is None or not (tokens := caching.tokens(usage)):
            return None
        read, unread = usage.cache_read_tokens, usage.cache_write_tokens + usage.input_tokens
        own, size_chars = self._agents.get(request.agent), request.size_chars
        if own is None or (mine := own.get(request.model)) is None:
            mine = self._add(request)
        if (cache := mine.cache) is None:
            cache = mine.cache = Cached(size_chars)
        until, before, lost = cache.until, cache.size_chars, 0
        expired_at = until + ON_THE_WAY_S
        if began_at >= until and SHRUNK * before <= size_chars:
            lost = cache.tokens - read
        last: Cached | None = ticket.agent.cache
        if last is not cache:
            ticket.agent.cache = cache
            if last is not None and ticket.granted_at < last.until + ON_THE_WAY_S and last.begins(size_chars):
                elsewhere = last.tokens - read
                if elsewhere > 0 and SHRUNK * size_chars <= last.size_chars:
                    lost, expired_at = elsewhere, math.inf
        if usage.cache_write_tokens or not cache.kept_s:
            cache.kept_s = caching.keeps_s(usage, cache.kept_s)
        cache.until = began_at + cache.kept_s - ON_THE_WAY_S
        cache.tokens = tokens - tokens % STEP if caching.automatic else tokens
        cache.new, cache.size_chars = read + unread - tokens, size_chars
        if lost > 0:
            return min(lost, unread), expired_at
        alone = len(ticket.agent.tickets) == 1
        grown = alone or (began_at < until and SHRUNK * before <= size_chars and SHRUNK * size_chars <= before)
        return None if grown else (0, expired_at)

    def fresh_input(self, ticket: Ticket, so_far: Usage | None) -> float:
        """Return the input tokens that an answer which begins had to compute: as stated, else by the agent's last
        one."""
        if so_far is not None and (total := so_far.total_input):
            return total - so_far.cache_read_tokens
        own = self._agents.get(ticket.agent.name)
        mine = None if own is None else own.get(ticket.request.model)
        return ticket.estimated_input * (1.0 if mine is None else mine.fresh)

    def learn(self, request: Request, usage: Usage) -> float:
        """Learn from a request's real usage. Return the input tokens that the provider had to compute: if it states
        nothing of a cache, maybe only those by which the agent's prompt has grown."""
        general, own = self._general(request.model), self._agents.get(request.agent)
        if own is None or (mine := own.get(request.model)) is None:
            mine = self._add(request)
        mine.learn_answer(usage.output_tokens)
        total, before = usage.total_input, mine.input
        general.learn(request.size_chars, total, usage.output_tokens)
        if total:
            mine.input, mine.fresh = total, 1 - usage.cache_read_tokens / total
        fresh = total - usage.cache_read_tokens
        return fresh if usage.cache_read_tokens or total <= before else total - before

    def forget(self, agent: str) -> None:
        """Drop an agent that is gone; what its replies taught about the models stays."""
        self._agents.pop(agent, None)

    def _add(self, request: Request) -> Estimator:
        general = self._general(request.model)
        own = self._agents.setdefault(request.agent, {})
        return _added(own, request.model, Estimator(output_tokens=general.output_tokens))

    def _general(self, model: str) -> Estimator:
        return self.models.get(model) or _added(self.models, model, Estimator())


def _added(models: dict[str, Estimator], model: str, new: Estimator) -> Estimator:
    if len(models) >= MODELS_KEPT:
        del models[min(models, key=lambda each: models[each].learned)]
    models[model] = new
    return new
