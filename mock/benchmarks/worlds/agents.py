"""Agents that differ: in pace, prompts, patience, and in what they do about errors."""

from __future__ import annotations

import asyncio
import math
import random
import re
from dataclasses import dataclass

import httpx
import msgspec

from hivemind_mock.agents.agent import read_answer

_PATH = "/v1/messages"
_HEADERS = (("content-type", "application/json"), ("x-api-key", "mock-key"), ("anthropic-version", "2023-06-01"))
_WORDS = "look at the failing test then change what is wrong and run it again until all of them pass "
_LONGEST_S = 900.0
_OUTPUT = re.compile(rb'"output_tokens":(\d+)')


@dataclass(frozen=True, slots=True)
class Habits:
    """How an agent works."""

    name: str
    starts_s: float
    turns: int
    think_s: float
    """The median pause between two turns."""
    prompt_tokens: int
    growth_tokens: int
    """What each turn adds, besides the answer."""
    max_tokens: int
    stream: bool
    at_once: int = 1
    """Requests of every third turn, sent concurrently."""
    patience_s: float | None = None
    """Its client leaves after this time and sends the request again."""
    retries: int = 0
    """Of its client after an error; then the agent dies."""
    model: str = "claude-sonnet-5"
    mood: float = 0.0
    """How much a pause has in common with the one before, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an agent's work ended."""

    name: str
    alive: bool
    answered: int


class Died(Exception):
    """The last error an agent saw."""


class WorldAgent:
    """One agent with its luck, on a transport."""

    def __init__(self, habits: Habits, luck: random.Random, transport: httpx.AsyncBaseTransport, base_url: str) -> None:
        self.habits = habits
        self._luck = luck
        self._transport = transport
        self._url = base_url + _PATH
        self._messages: list[dict[str, str]] = []
        self._answered = 0
        self._mood = 0.0

    async def run(self) -> Ended:
        """Work until all turns are done, or an error is left after all retries."""
        habits = self.habits
        await asyncio.sleep(habits.starts_s)
        try:
            for turn in range(habits.turns):
                if turn:
                    await asyncio.sleep(habits.think_s * self.pace())
                await self._turn(turn)
        except Died:
            return Ended(habits.name, False, self._answered)
        return Ended(habits.name, True, self._answered)

    def pace(self) -> float:
        """Return how long the next pause is, as a share of the median."""
        mood = self.habits.mood
        self._mood = mood * self._mood + math.sqrt(1 - mood * mood) * self._luck.normalvariate(0.0, 0.5)
        return math.exp(self._mood)

    async def _turn(self, turn: int) -> None:
        habits = self.habits
        tokens = habits.growth_tokens if turn else habits.prompt_tokens
        text = (_WORDS * (tokens * 4 // len(_WORDS) + 1))[: tokens * 4]
        self._messages.append({"role": "user", "content": text})
        count = habits.at_once if turn % 3 == 2 else 1
        answers = await asyncio.gather(*(self._asked() for _ in range(count)))
        self._messages.append({"role": "assistant", "content": "word " * answers[0]})

    async def _asked(self) -> int:
        """Send the conversation until it is answered, and return the tokens of the answer. Raises: Died."""
        habits = self.habits
        body = {
            "model": habits.model,
            "max_tokens": habits.max_tokens,
            "stream": habits.stream,
            "system": f"You are {habits.name}.",
            "messages": self._messages,
        }
        data = msgspec.json.encode(body)
        for attempt in range(habits.retries + 3):
            try:
                async with asyncio.timeout(habits.patience_s):
                    status, after_s, tokens = await self._sent(data)
            except TimeoutError:
                if attempt >= 2:
                    raise Died from None
                await asyncio.sleep(0.5)
                continue
            except httpx.TransportError:
                status, after_s, tokens = 0, None, 0
            if status == 200:
                self._answered += 1
                return tokens
            if attempt >= habits.retries:
                raise Died
            backoff_s = 0.5 * 2**attempt * (1 - 0.25 * self._luck.random())
            await asyncio.sleep(backoff_s if after_s is None or after_s > 60 else after_s)
        raise Died

    async def _sent(self, data: bytes) -> tuple[int, float | None, int]:
        """Return status, Retry-After and output tokens. Raises: httpx.TransportError."""
        extensions = {"timeout": {"connect": 10.0, "read": _LONGEST_S, "write": 10.0, "pool": None}}
        headers = [*_HEADERS, ("content-length", str(len(data)))]
        request = httpx.Request("POST", self._url, headers=headers, content=data, extensions=extensions)
        response = await self._transport.handle_async_request(request)
        try:
            body = b"".join([chunk async for chunk in response.aiter_bytes()])
        finally:
            await response.aclose()
        after = response.headers.get("retry-after")
        if response.status_code != 200:
            return response.status_code, None if after is None else float(after), 0
        _, wrong = read_answer(_PATH, data, response.headers["content-type"], body)
        return (0 if wrong else 200), None, int(_OUTPUT.findall(body)[-1]) if not wrong else 0
