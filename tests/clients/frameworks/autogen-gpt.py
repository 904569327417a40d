import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient


async def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def member(name: str) -> AssistantAgent:
    client = OpenAIChatCompletionClient(model="gpt-4o", default_headers={"x-hivemind-agent": name})
    return AssistantAgent(
        name, client, tools=[count], reflect_on_tool_use=True, model_client_stream="streamed" in sys.argv[1]
    )


async def main() -> None:
    team = RoundRobinGroupChat([member("writer"), member("critic")], termination_condition=MaxMessageTermination(5))
    print((await team.run(task="Go.")).messages[-1].content)


asyncio.run(main())
