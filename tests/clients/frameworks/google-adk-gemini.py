import asyncio

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types


def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def member(name: str) -> LlmAgent:
    options = types.HttpOptions(headers={"x-hivemind-agent": name})
    config = types.GenerateContentConfig(http_options=options)
    model = Gemini(model="gemini-2.5-pro")
    return LlmAgent(name=name, model=model, instruction="Work.", tools=[count], generate_content_config=config)


async def main() -> None:
    runner = InMemoryRunner(SequentialAgent(name="crew", sub_agents=[member("writer"), member("critic")]))
    print((await runner.run_debug("Go.", quiet=True))[-1].content.parts[0].text)


asyncio.run(main())
