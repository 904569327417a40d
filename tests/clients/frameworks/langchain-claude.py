from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic


def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


for name in ("writer", "critic"):
    model = ChatAnthropic(model="claude-sonnet-4-5", default_headers={"x-hivemind-agent": name})
    answer = create_agent(model, [count]).invoke({"messages": [("user", "Go.")]})
    print(answer["messages"][-1].text)
