from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def words(text: str) -> str:
    """Count the words of a text.

    Args:
        text: The text.
    """
    return str(len(text.split()))


for name in ("writer", "critic"):
    model = OpenAIModel("gpt-5.4", client_kwargs={"default_headers": {"x-hivemind-agent": name}})
    print(ToolCallingAgent([words], model, verbosity_level=0).run("Go."))
