import asyncio

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Tools:
    @kernel_function(name="count")
    def count(self, text: str) -> str:
        """Count the words of a text."""
        return str(len(text.split()))


async def main() -> None:
    for name in ("writer", "critic"):
        service = OpenAIChatCompletion(ai_model_id="gpt-5.4", default_headers={"x-hivemind-agent": name})
        agent = ChatCompletionAgent(service=service, name=name, instructions="Work.", plugins=[Tools()])
        print(await agent.get_response("Go."))


asyncio.run(main())
