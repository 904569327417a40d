"""Agents that ask a model server: some turns each, every prompt with all that was said before."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import openai


@dataclass(frozen=True, slots=True)
class Load:
    """So many agents of so many turns, with new prompts of so many letters, which are tokens."""

    agents: int
    turns: int
    letters: int = 300
    answer: int = 32
    """Tokens of an answer."""

    @property
    def name(self) -> str:
        """Such as `10 x 3`, `4 x 2, 14k`."""
        size = f", {self.letters // 1000}k" if self.letters >= 1000 else ""
        return f"{self.agents} x {self.turns}{size}"


@dataclass(slots=True)
class Outcome:
    """What became of them."""

    took_s: float = 0.0
    answers: dict[tuple[int, int], tuple[str, int, int]] = field(default_factory=dict)
    """By agent and turn: the text, and the tokens of prompt and answer."""
    dead: list[str] = field(default_factory=list)
    """The errors at which agents ended."""

    def differ(self, other: Outcome) -> int:
        """Return how many of the answers that both have aren't the same."""
        return sum(self.answers.get(key) != other.answers.get(key) for key in self.answers.keys() & other.answers)


async def run(url: str, load: Load, salt: str = "", *, stream: bool = True) -> Outcome:
    """Have the agents do their turns at once, each without a retry of its own. The salt makes all prompts new."""
    outcome, began = Outcome(), time.monotonic()

    async def agent(number: int) -> None:
        said: list[dict[str, str]] = []
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="made-up", max_retries=0, timeout=300) as client:
            for turn in range(load.turns):
                line = f"{salt} agent {number} turn {turn}: look at the next file\n"
                said.append({"role": "user", "content": (line * (load.letters // len(line) + 1))[: load.letters]})
                try:
                    answer = await _asked(client, load, said, stream=stream)
                except (openai.OpenAIError, ValueError) as error:
                    outcome.dead.append(f"{type(error).__name__}: {error}"[:200])
                    return
                outcome.answers[number, turn] = answer
                said.append({"role": "assistant", "content": answer[0] or "."})

    await asyncio.gather(*map(agent, range(load.agents)))
    outcome.took_s = time.monotonic() - began
    return outcome


async def _asked(
    client: openai.AsyncOpenAI, load: Load, said: list[dict[str, str]], *, stream: bool
) -> tuple[str, int, int]:
    asked: dict[str, Any] = {"model": "default_model", "messages": said, "max_tokens": load.answer, "temperature": 0}
    text, usage = "", None
    if stream:
        asked["stream_options"] = {"include_usage": True}
        async for piece in await client.chat.completions.create(**asked, stream=True):
            text += "".join(choice.delta.content or "" for choice in piece.choices)
            usage = piece.usage or usage
    else:
        whole = await client.chat.completions.create(**asked)
        text, usage = whole.choices[0].message.content or "", whole.usage
    if usage is None:
        raise ValueError("the answer states no usage")
    return text, usage.prompt_tokens, usage.completion_tokens
