import asyncio

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai import OpenAI


def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def member(name: str) -> FunctionAgent:
    llm = OpenAI("gpt-4o", default_headers={"x-hivemind-agent": name})
    return FunctionAgent(name=name, description=name, system_prompt="Work.", tools=[count], llm=llm)


async def main() -> None:
    print(await AgentWorkflow([member("writer"), member("critic")], root_agent="writer").run("Go."))


asyncio.run(main())
