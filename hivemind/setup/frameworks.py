"""Agent frameworks in Python: the variables that point each, and how a model of its own names an agent.

Tried with the programs in `tests/clients/frameworks`.
"""

from __future__ import annotations

from msgspec import Struct


class Framework(Struct, frozen=True):
    """What is said of a framework."""

    name: str
    """As in `hivemind setup NAME`."""
    title: str
    docs: str
    code: str
    """A model for the agent `writer`."""
    notes: tuple[str, ...] = ()
    variables: tuple[str, ...] = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")


_STREAMS = (
    "It asks for streams even where its program wants whole answers, so one that is cut ends it, unless hivemind run"
    " --hold-answers holds each until it is whole."
)
_LANGCHAIN = """\
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

claude = ChatAnthropic(model="claude-sonnet-5", default_headers={"x-hivemind-agent": "writer"})
gpt = ChatOpenAI(model="gpt-5.4", stream_usage=True, default_headers={"x-hivemind-agent": "writer"})"""
_LANGCHAIN_NOTE = (
    "With a base URL, ChatOpenAI asks streams for their usage only if stream_usage=True says so; HiveMind estimates it"
    " otherwise."
)
_LANGCHAIN_VARIABLES = ("ANTHROPIC_API_URL", "OPENAI_BASE_URL")

FRAMEWORKS = (
    Framework(
        "langchain",
        "LangChain",
        "https://docs.langchain.com/oss/python/langchain/models",
        _LANGCHAIN,
        (_LANGCHAIN_NOTE, "It reads ANTHROPIC_API_URL before ANTHROPIC_BASE_URL."),
        _LANGCHAIN_VARIABLES,
    ),
    Framework(
        "langgraph",
        "LangGraph",
        "https://docs.langchain.com/oss/python/langgraph/overview",
        _LANGCHAIN,
        (_LANGCHAIN_NOTE, "Give each node a model of its own."),
        _LANGCHAIN_VARIABLES,
    ),
    Framework(
        "crewai",
        "CrewAI",
        "https://docs.crewai.com/en/concepts/llms",
        """\
from crewai import LLM

llm = LLM(model="openai/gpt-5.4", default_headers={"x-hivemind-agent": "writer"})""",
        ("Where its telemetry isn't reached, a program ends 8 s later, unless CREWAI_DISABLE_TELEMETRY is true.",),
    ),
    Framework(
        "autogen",
        "AutoGen",
        "https://microsoft.github.io/autogen",
        """\
from autogen_ext.models.openai import OpenAIChatCompletionClient

client = OpenAIChatCompletionClient(model="gpt-4o", default_headers={"x-hivemind-agent": "writer"})""",
        (
            "For claude-*, gemini-* and Llama-* models this client goes to the providers' own hosts, past HiveMind,"
            " unless base_url is given.",
            "With model_client_stream=True give the client stream_options={'include_usage': True}, or HiveMind"
            " estimates its usage.",
        ),
        ("OPENAI_BASE_URL",),
    ),
    Framework(
        "semantic-kernel",
        "Semantic Kernel",
        "https://learn.microsoft.com/semantic-kernel",
        """\
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion

service = OpenAIChatCompletion(ai_model_id="gpt-5.4", default_headers={"x-hivemind-agent": "writer"})""",
        (f"Orchestrations: {_STREAMS[0].lower()}{_STREAMS[1:]}",),
    ),
    Framework(
        "agent-framework",
        "Microsoft Agent Framework",
        "https://learn.microsoft.com/agent-framework",
        """\
from agent_framework.openai import OpenAIChatClient

client = OpenAIChatClient(model="gpt-5.4", default_headers={"x-hivemind-agent": "writer"})""",
    ),
    Framework(
        "openai-agents",
        "OpenAI Agents SDK",
        "https://openai.github.io/openai-agents-python",
        """\
from agents import Agent, ModelSettings

settings = ModelSettings(extra_headers={"x-hivemind-agent": "writer"})
writer = Agent(name="writer", instructions="...", model="gpt-5.4", model_settings=settings)""",
        (
            "Its traces go to OpenAI, past HiveMind. Where that isn't reached, a program ends 4 s later, unless"
            " OPENAI_AGENTS_DISABLE_TRACING is 1.",
        ),
        ("OPENAI_BASE_URL",),
    ),
    Framework(
        "pydantic-ai",
        "Pydantic AI",
        "https://ai.pydantic.dev",
        """\
from pydantic_ai import Agent, ModelSettings

settings = ModelSettings(extra_headers={"x-hivemind-agent": "writer"})
writer = Agent("anthropic:claude-sonnet-5", model_settings=settings)""",
        (f"Anthropic's models: {_STREAMS[0].lower()}{_STREAMS[1:]}",),
    ),
    Framework(
        "strands",
        "Strands Agents",
        "https://strandsagents.com",
        """\
from strands.models.anthropic import AnthropicModel

headers = {"default_headers": {"x-hivemind-agent": "writer"}}
model = AnthropicModel(client_args=headers, model_id="claude-sonnet-5", max_tokens=4096)""",
        (_STREAMS, "An Agent without a model uses Amazon Bedrock, which goes past HiveMind."),
    ),
    Framework(
        "smolagents",
        "smolagents",
        "https://huggingface.co/docs/smolagents",
        """\
from smolagents import OpenAIModel

model = OpenAIModel("gpt-5.4", client_kwargs={"default_headers": {"x-hivemind-agent": "writer"}})""",
        ("InferenceClientModel uses Hugging Face's own service, past HiveMind.",),
    ),
    Framework(
        "llama-index",
        "LlamaIndex",
        "https://developers.llamaindex.ai",
        """\
from llama_index.llms.openai import OpenAI

usage, headers = {"stream_options": {"include_usage": True}}, {"x-hivemind-agent": "writer"}
llm = OpenAI("gpt-5.4", timeout=600, additional_kwargs=usage, default_headers=headers)""",
        (
            f"Agents: {_STREAMS[0].lower()}{_STREAMS[1:]}",
            "Its own timeout is 60 s, which a queue may exceed. It doesn't read OPENAI_BASE_URL.",
        ),
        ("ANTHROPIC_BASE_URL", "OPENAI_API_BASE"),
    ),
    Framework(
        "agno",
        "Agno",
        "https://docs.agno.com",
        """\
from agno.models.openai import OpenAIChat

model = OpenAIChat(id="gpt-5.4", default_headers={"x-hivemind-agent": "writer"})""",
    ),
    Framework(
        "google-adk",
        "Google ADK",
        "https://google.github.io/adk-docs/agents/models",
        """\
from google.adk.agents import LlmAgent
from google.genai import types

options = types.HttpOptions(headers={"x-hivemind-agent": "writer"})
config = types.GenerateContentConfig(http_options=options)
writer = LlmAgent(name="writer", model="gemini-2.5-pro", instruction="...", generate_content_config=config)""",
        ("It never asks again by itself after a refusal.",),
        ("GOOGLE_GEMINI_BASE_URL",),
    ),
)
