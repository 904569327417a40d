"""Agents of an official SDK whose prompts grow: `caches.py SDK URL AGENTS REQUESTS SPEED`, each agent under its own
path. Prints what the answers stated as JSON: input tokens that were read from a cache, and all others."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

SYSTEM = 80_000  # characters of an agent's first prompt: 20,000 tokens


async def anthropic_asks(client: Any, who: str, said: list[str]) -> tuple[int, int]:
    blocks = [{"type": "text", "text": text} for text in said]
    blocks[-1]["cache_control"] = {"type": "ephemeral"}
    message = {"role": "user", "content": blocks}
    asked = {"model": "claude-sonnet-5-5", "max_tokens": 50, "messages": [message], "metadata": {"user_id": who}}
    async with client.messages.stream(**asked) as stream:
        usage = (await stream.get_final_message()).usage
    return usage.cache_read_input_tokens, usage.input_tokens + usage.cache_creation_input_tokens


async def openai_asks(client: Any, who: str, said: list[str]) -> tuple[int, int]:
    messages = [{"role": "user", "content": text} for text in said]
    answer = await client.chat.completions.create(model="gpt-5.1", messages=messages, user=who)
    read = answer.usage.prompt_tokens_details.cached_tokens
    return read, answer.usage.prompt_tokens - read


async def works(sdk: str, url: str, number: int, requests: int, speed: float) -> tuple[int, int]:
    """Ask so many times, and think in between. Return what was read, and what wasn't."""
    draw, read, others = random.Random(number), 0, 0
    who = f"agent-{number}"
    base = f"{url}/agent/{who}"
    if sdk == "anthropic":
        import anthropic

        client, asks = anthropic.AsyncAnthropic(base_url=base, api_key="k", max_retries=9), anthropic_asks
    else:
        import openai

        client, asks = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=9), openai_asks
    said = ["".join(draw.choices("abcdefgh ", k=SYSTEM))]
    for _ in range(requests):
        await asyncio.sleep(draw.lognormvariate(3.6, 0.9) / speed)
        one, other = await asks(client, who, said)
        read, others = read + one, others + other
        said.append("".join(draw.choices("abcdefgh ", k=draw.randint(400, 2400))))
    return read, others


async def main(sdk: str, url: str, agents: int, requests: int, speed: float) -> None:
    found = await asyncio.gather(*(works(sdk, url, number, requests, speed) for number in range(agents)))
    print(json.dumps([sum(part) for part in zip(*found, strict=True)]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
