from agents import Agent, ModelSettings, Runner, function_tool


@function_tool
def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def member(name: str, **more) -> Agent:
    settings = ModelSettings(extra_headers={"x-hivemind-agent": name})
    return Agent(name=name, instructions="Work.", model="gpt-5.4", model_settings=settings, **more)


writer = member("writer", tools=[count], handoffs=[member("critic")])
print(Runner.run_sync(writer, "Go.").final_output)
