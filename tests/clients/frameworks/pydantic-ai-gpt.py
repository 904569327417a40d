from pydantic_ai import Agent, ModelSettings


def member(name: str) -> Agent:
    return Agent("openai-chat:gpt-5.4", model_settings=ModelSettings(extra_headers={"x-hivemind-agent": name}))


writer, critic = member("writer"), member("critic")


@writer.tool_plain
def count(text: str) -> str:
    """Ask the critic."""
    return "1"


print(critic.run_sync(writer.run_sync("Go.").output).output)
