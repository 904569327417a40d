import asyncio

from agent_framework.openai import OpenAIChatClient
from agent_framework.orchestrations import SequentialBuilder


def member(name: str):
    client = OpenAIChatClient(model="gpt-5.4", default_headers={"x-hivemind-agent": name})
    return client.as_agent(name=name, instructions="Work.")


async def main() -> None:
    team = SequentialBuilder(participants=[member("writer"), member("critic")]).build()
    print((await team.run("Go.")).get_outputs()[-1])


asyncio.run(main())
