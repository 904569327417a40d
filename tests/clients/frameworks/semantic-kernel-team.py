import asyncio

from semantic_kernel.agents import ChatCompletionAgent, SequentialOrchestration
from semantic_kernel.agents.runtime import InProcessRuntime
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion


def member(name: str) -> ChatCompletionAgent:
    service = OpenAIChatCompletion(ai_model_id="gpt-5.4", default_headers={"x-hivemind-agent": name})
    return ChatCompletionAgent(service=service, name=name, description=name, instructions="Work.")


async def main() -> None:
    runtime = InProcessRuntime()
    runtime.start()
    team = SequentialOrchestration(members=[member("writer"), member("critic")])
    print(await (await team.invoke("Go.", runtime)).get(timeout=300))
    await runtime.stop_when_idle()


asyncio.run(main())
