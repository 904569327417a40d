from strands import Agent, tool
from strands.models.anthropic import AnthropicModel


@tool
def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


for name in ("writer", "critic"):
    headers = {"default_headers": {"x-hivemind-agent": name}}
    model = AnthropicModel(client_args=headers, model_id="claude-sonnet-4-5", max_tokens=500)
    print(Agent(model, tools=[count], callback_handler=None)("Go."))
