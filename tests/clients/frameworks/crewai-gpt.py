from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool
def count(text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


def member(name: str) -> Task:
    llm = LLM(model="openai/gpt-5.4", default_headers={"x-hivemind-agent": name})
    agent = Agent(role=name, goal="Work.", backstory="Skilled.", llm=llm, tools=[count])
    return Task(description="Go.", expected_output="A word.", agent=agent)


tasks = [member("writer"), member("critic")]
print(Crew(agents=[task.agent for task in tasks], tasks=tasks).kickoff().raw)
