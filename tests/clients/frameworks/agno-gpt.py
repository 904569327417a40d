from agno.agent import Agent
from agno.models.openai import OpenAIChat


def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


for name in ("writer", "critic"):
    model = OpenAIChat(id="gpt-5.4", default_headers={"x-hivemind-agent": name})
    print(Agent(name=name, model=model, tools=[count]).run("Go.").content)
